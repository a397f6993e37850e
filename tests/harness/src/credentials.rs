//! Tokens, kubeconfigs, and the key for service accounts.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::part::Part;
use crate::wait_until;

/// The administrator.
pub(crate) const ADMIN: &str = "admin";

/// Writes a token for each user of the control plane and of the tests. The tokens are not secret: the
/// API server listens only on loopback, and only for minutes.
pub(crate) fn write_tokens(dir: &Path, users: &[String]) -> Result<PathBuf> {
    let mut tokens = format!("token-{ADMIN},{ADMIN},{ADMIN},\"system:masters\"\n");
    for user in users {
        tokens.push_str(&format!("token-{user},{user},{user}\n"));
    }
    let path = dir.join("tokens.csv");
    fs::write(&path, tokens).context("cannot write the tokens")?;
    Ok(path)
}

/// The keys that sign and verify the tokens of service accounts.
pub(crate) struct ServiceAccountKeys {
    pub(crate) private: PathBuf,
    pub(crate) public: PathBuf,
}

impl ServiceAccountKeys {
    pub(crate) fn write(dir: &Path) -> Result<Self> {
        let key = rcgen::KeyPair::generate().context("cannot make a key for service accounts")?;
        let private = dir.join("service-account.key");
        let public = dir.join("service-account.pub");
        fs::write(&private, key.serialize_pem()).context("cannot write the private key")?;
        fs::write(&public, key.public_key_pem()).context("cannot write the public key")?;
        Ok(Self { private, public })
    }
}

/// The folder of the certificate that kube-apiserver creates for itself.
pub(crate) fn certificates(dir: &Path) -> PathBuf {
    dir.join("certificates")
}

/// Waits until kube-apiserver has created its certificate. It writes the key last.
pub(crate) fn wait_certificate(dir: &Path, apiserver: &Part) -> Result<()> {
    let key = certificates(dir).join("apiserver.key");
    wait_until("kube-apiserver's certificate", || {
        if let Err(ended) = apiserver.process.check_running() {
            return Ok(Some(Err(ended)));
        }
        Ok(key.exists().then_some(Ok(())))
    })?
}

/// Deletes that certificate, so that kube-apiserver creates another at its next start.
pub(crate) fn remove_certificate(dir: &Path) -> Result<()> {
    fs::remove_dir_all(certificates(dir)).context("cannot delete the certificate")
}

pub(crate) fn kubeconfig(dir: &Path, user: &str) -> PathBuf {
    dir.join(format!("{user}.kubeconfig"))
}

pub(crate) fn write_kubeconfig(dir: &Path, server: &str, user: &str) -> Result<()> {
    // The certificate is self-signed, so it is its own authority.
    let authority = certificates(dir).join("apiserver.crt");
    let config = serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": server, "certificate-authority": authority}}],
        "users": [{"name": user, "user": {"token": format!("token-{user}")}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
    });
    let path = kubeconfig(dir, user);
    fs::write(&path, config.to_string()).with_context(|| format!("cannot write {}", path.display()))
}

/// Returns the address of the API server in a kubeconfig.
pub(crate) fn server(kubeconfig: &Path) -> Result<SocketAddr> {
    let config = fs::read_to_string(kubeconfig).context("cannot read the kubeconfig")?;
    let config: serde_json::Value = serde_json::from_str(&config)?;
    let url = config["clusters"][0]["cluster"]["server"].as_str().unwrap_or_default();
    let address = url.strip_prefix("https://").and_then(|address| address.parse().ok());
    address.with_context(|| format!("no address of an API server: {url:?}"))
}
