//! A certificate authority that the API server trusts: kubelets authenticate as real ones do, by a
//! certificate that names the user `system:node:<name>` in the group `system:nodes`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};

use crate::ControlPlane;

#[derive(Debug)]
pub(crate) struct Authority(Issuer<'static, KeyPair>);

impl Authority {
    /// Creates an authority and writes its certificate to [`path`].
    pub(crate) fn write(dir: &Path) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "clients");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().context("cannot make a key for the authority")?;
        let certificate = params.self_signed(&key).context("cannot make an authority")?;
        fs::write(path(dir), certificate.pem()).context("cannot write the authority")?;
        Ok(Self(Issuer::new(params, key)))
    }
}

/// Returns the path of the authority's certificate.
pub(crate) fn path(dir: &Path) -> PathBuf {
    dir.join("clients.crt")
}

impl ControlPlane {
    /// Writes the kubeconfig of a node's kubelet, and returns its path. The node need not exist.
    ///
    /// # Errors
    /// Returns an error if a file cannot be written.
    pub fn kubelet_kubeconfig(&self, node: &str) -> Result<PathBuf> {
        let file = |end: &str| self.dir().join(format!("kubelet-{node}.{end}"));
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
        params.distinguished_name.push(DnType::CommonName, format!("system:node:{node}"));
        let key = KeyPair::generate().context("cannot make a kubelet's key")?;
        let certificate = params.signed_by(&key, &self.authority.0);
        let certificate = certificate.context("cannot make a kubelet's certificate")?;
        fs::write(file("crt"), certificate.pem()).context("cannot write the certificate")?;
        fs::write(file("key"), key.serialize_pem()).context("cannot write the key")?;

        let admin = fs::read_to_string(self.kubeconfig()).context("no kubeconfig to start from")?;
        let mut config: Value = serde_json::from_str(&admin)?;
        config["users"][0]["user"] = json!({"client-certificate": file("crt"), "client-key": file("key")});
        fs::write(file("kubeconfig"), config.to_string()).context("cannot write the kubeconfig")?;
        Ok(file("kubeconfig"))
    }
}
