//! The CA bundle and the client certificate of a connection, which rotate while the process runs.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube::Config;
use kube::config::AuthInfo;
use tokio::time::Instant;
use tracing::{info, warn};

use super::config::Source;
use super::connector::{self, Connector};
use crate::response::error::chain;

/// How often certificates are read again while requests succeed, and while they fail.
const INTERVAL: Duration = Duration::from_secs(60);
const INTERVAL_AFTER_FAILURE: Duration = Duration::from_secs(2);

/// Connections that use the current certificates.
pub(super) struct Connections {
    config: Config,
    source: Source,
    http: Connector,
    /// The certificates that `http` uses.
    certificates: Certificates,
    read_at: Instant,
    /// Whether a request since the last read failed as it does with wrong certificates.
    failed: Arc<AtomicBool>,
    /// Why the certificates cannot be read or used now.
    problem: Option<String>,
}

impl Connections {
    /// Connects as `config` says, with the certificates of `source`.
    ///
    /// # Errors
    /// If its certificates or its proxy cannot be used.
    pub(super) fn new(config: &Config, source: Source) -> Result<Self, kube::Error> {
        let certificates = Certificates::read(config);
        let http = connector::http(config)?;
        Ok(Self {
            config: config.clone(),
            source,
            http,
            certificates,
            read_at: Instant::now(),
            failed: Arc::default(),
            problem: None,
        })
    }

    /// Returns what sends the next request, and where to record that it failed.
    pub(super) fn next(&mut self) -> (Connector, Arc<AtomicBool>) {
        let interval = if self.failed.load(Ordering::Relaxed) { INTERVAL_AFTER_FAILURE } else { INTERVAL };
        if self.read_at.elapsed() >= interval {
            self.refresh();
        }
        (self.http.clone(), Arc::clone(&self.failed))
    }

    fn refresh(&mut self) {
        self.read_at = Instant::now();
        self.failed.store(false, Ordering::Relaxed);
        let problem = self.reread().err();
        if let Some(problem) = &problem
            && self.problem.as_ref() != Some(problem)
        {
            let source = &self.source;
            warn!(
                "cannot read the certificates of {source} again, keeping the previous ones: \
                 {problem}"
            );
        }
        self.problem = problem;
    }

    /// Reconnects if the certificates have changed. Idle connections end with the previous client; connections in use
    /// last until their responses end.
    fn reread(&mut self) -> Result<(), String> {
        let config = with_certificates_of(self.source.read()?, &self.config);
        if config.root_cert.as_ref().is_some_and(Vec::is_empty) {
            return Err("the CA bundle holds no certificate".to_owned());
        }
        let certificates = Certificates::read(&config);
        if certificates != self.certificates {
            self.http = connector::http(&config).map_err(|error| chain(&error))?;
            self.certificates = certificates;
            let source = &self.source;
            info!("the certificates of {source} have changed, reconnecting to the API server");
        }
        Ok(())
    }
}

/// The sources of the certificates, with the contents of files.
#[derive(PartialEq)]
struct Certificates {
    authorities: Option<Vec<Vec<u8>>>,
    /// The client's certificate and key, and the paths of their files.
    client: Option<serde_json::Value>,
    files: [Option<Vec<u8>>; 2],
}

impl Certificates {
    /// A file that cannot be read is reported when the connector reads it.
    fn read(config: &Config) -> Self {
        let auth_info = &config.auth_info;
        let client = client_certificate(auth_info.clone(), AuthInfo::default());
        let read = |path: &Option<String>| {
            let path = Path::new(path.as_ref()?);
            // Reading a pipe would block, or return nothing.
            if path.metadata().ok()?.is_file() { std::fs::read(path).ok() } else { None }
        };
        Self {
            authorities: config.root_cert.clone(),
            client: serde_json::to_value(client).ok(),
            files: [read(&auth_info.client_certificate), read(&auth_info.client_key)],
        }
    }
}

/// Returns `config` with the certificates of `fresh`.
fn with_certificates_of(fresh: Config, config: &Config) -> Config {
    let mut config = config.clone();
    config.root_cert = fresh.root_cert;
    // No file has the certificate of a credential plugin.
    if fresh.auth_info.exec.is_some() && client_certificate_of(&fresh.auth_info).is_none() {
        return config;
    }
    config.auth_info = client_certificate(fresh.auth_info, config.auth_info);
    config
}

fn client_certificate_of(auth: &AuthInfo) -> Option<&String> {
    auth.client_certificate_data.as_ref().or(auth.client_certificate.as_ref())
}

/// Returns `to` with the client certificate of `from`.
fn client_certificate(from: AuthInfo, to: AuthInfo) -> AuthInfo {
    AuthInfo {
        client_certificate: from.client_certificate,
        client_certificate_data: from.client_certificate_data,
        client_key: from.client_key,
        client_key_data: from.client_key_data,
        ..to
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    /// Why certificates cannot be read again after so many more milliseconds.
    async fn problem_after(connections: &mut Connections, milliseconds: u64, fails: bool) -> Option<String> {
        connections.failed.store(fails, Ordering::Relaxed);
        tokio::time::advance(Duration::from_millis(milliseconds)).await;
        connections.next();
        connections.problem.clone()
    }

    #[tokio::test(start_paused = true)]
    async fn certificates_are_read_once_a_minute_and_sooner_after_a_failure() {
        let folder = std::env::temp_dir().join(format!("nra-certificates-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = |name| Some(folder.join(name).to_str().unwrap().to_owned());
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::default().self_signed(&key).unwrap().pem();
        std::fs::write(folder.join("certificate"), &certificate).unwrap();
        std::fs::write(folder.join("key"), key.serialize_pem()).unwrap();
        let mut config = Config::new("https://127.0.0.1:1".parse().unwrap());
        config.root_cert = Some(vec![CertificateParams::default().self_signed(&key).unwrap().der().to_vec()]);
        config.auth_info.client_certificate = path("certificate");
        config.auth_info.client_key = path("key");
        let source = Source::Given(Box::new(config.clone()));
        let connections = &mut Connections::new(&config, source).unwrap();
        std::fs::remove_file(folder.join("certificate")).unwrap();
        assert_eq!(problem_after(connections, 59_999, false).await, None);
        assert!(problem_after(connections, 1, false).await.is_some_and(|problem| problem.contains("certificate")));
        std::fs::write(folder.join("certificate"), &certificate).unwrap();
        assert!(problem_after(connections, 1999, true).await.is_some());
        assert_eq!(problem_after(connections, 1, true).await, None);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
