//! Tokens, kubeconfigs, and the key for service accounts.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result};

use crate::part::Part;
use crate::wait_until;

/// The administrator.
pub(crate) const ADMIN: &str = "admin";

/// Who polls for the tests, without an entry in the audit log.
pub(crate) const OBSERVER: &str = "observer";

/// How many users there are for controllers: more than run at the same time.
const CONTROLLERS: u32 = 100;

/// Writes a token for each user of the control plane and of the tests. The tokens are not secret: the
/// API server listens only on loopback, and only for minutes.
pub(crate) fn write_tokens(dir: &Path, users: &[String]) -> Result<PathBuf> {
    let mut tokens = String::new();
    for user in [ADMIN, OBSERVER].map(str::to_owned).into_iter().chain((0..CONTROLLERS).map(controller_user)) {
        tokens.push_str(&format!("token-{user},{user},{user},\"system:masters\"\n"));
    }
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

fn controller_user(number: u32) -> String {
    format!("controller-{number}")
}

/// Returns the path of a kubeconfig by which the audit log distinguishes this process of the program from others: the
/// administrator's with a user of its own, with the administrator's permissions. Other kubeconfigs stay as they are.
pub(crate) fn distinguish(kubeconfig: &Path, folder: &Path) -> Result<PathBuf> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let text = fs::read_to_string(kubeconfig).unwrap_or_default();
    let token = format!("token-{ADMIN}");
    let Some(mut config) = serde_json::from_str::<serde_json::Value>(&text)
        .ok()
        .filter(|config| config["users"][0]["user"]["token"] == token.as_str())
    else {
        return Ok(kubeconfig.to_owned());
    };
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    config["users"][0]["user"]["token"] = format!("token-{}", controller_user(number % CONTROLLERS)).into();
    let path = folder.join(format!("controller-{number}.kubeconfig"));
    fs::write(&path, config.to_string()).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// Returns the address of the API server in a kubeconfig.
pub(crate) fn server(kubeconfig: &Path) -> Result<SocketAddr> {
    let config = fs::read_to_string(kubeconfig).context("cannot read the kubeconfig")?;
    let config: serde_json::Value = serde_json::from_str(&config)?;
    let url = config["clusters"][0]["cluster"]["server"].as_str().unwrap_or_default();
    let address = url.strip_prefix("https://").and_then(|address| address.parse().ok());
    address.with_context(|| format!("no address of an API server: {url:?}"))
}
