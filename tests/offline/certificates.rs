use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use http::Request;
use k8s_openapi::ByteString;
use kube::Client;
use node_resource_advertiser::cluster::client::connect;
use node_resource_advertiser::cluster::config::ClusterOptions;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

/// Longer than certificates stay unread after a request that failed.
const REREAD: Duration = Duration::from_secs(5);

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    der: CertificateDer<'static>,
}

struct Identity {
    certificate: String,
    key: String,
    der: CertificateDer<'static>,
    key_der: PrivateKeyDer<'static>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let (pem, der) = (certificate.pem(), certificate.der().clone());
        Self { issuer: Issuer::new(params, key), pem, der }
    }

    fn sign(&self, name: &str) -> Identity {
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Identity {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
            der: certificate.der().clone(),
            key_der: PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
        }
    }

    /// TLS of a server that this authority vouches for, and that asks for certificates of it.
    fn server_config(&self, asks: bool) -> Arc<ServerConfig> {
        let server = self.sign("127.0.0.1");
        let builder = ServerConfig::builder();
        let builder = if asks {
            let mut roots = RootCertStore::empty();
            roots.add(self.der.clone()).unwrap();
            let verifier = WebPkiClientVerifier::builder(roots.into()).build().unwrap();
            builder.with_client_cert_verifier(verifier)
        } else {
            builder.with_no_client_auth()
        };
        builder.with_single_cert(vec![server.der], server.key_der).unwrap().into()
    }
}

/// What an API server does with connections and requests.
struct State {
    config: Arc<ServerConfig>,
    /// Whose requests are not answered by 401; none for everybody's.
    user: Option<CertificateDer<'static>>,
    /// How many connections are open.
    open: usize,
}

type Shared = Arc<Mutex<State>>;

/// Starts an API server on loopback, at this address.
fn start(config: Arc<ServerConfig>, user: Option<CertificateDer<'static>>) -> (String, Shared) {
    let state = Arc::new(Mutex::new(State { config, user, open: 0 }));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let shared = Arc::clone(&state);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || {
                let config = Arc::clone(&shared.lock().unwrap().config);
                let tls = ServerConnection::new(config).unwrap();
                shared.lock().unwrap().open += 1;
                let _ = serve(&mut StreamOwned::new(tls, stream.unwrap()), &shared);
                shared.lock().unwrap().open -= 1;
            });
        }
    });
    (url, state)
}

/// Answers the requests of a connection: of one user until it is closed, else one.
fn serve(stream: &mut StreamOwned<ServerConnection, std::net::TcpStream>, state: &Mutex<State>) -> std::io::Result<()> {
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            head.extend(byte);
        }
        let user = state.lock().unwrap().user.clone();
        let by = stream.conn.peer_certificates().and_then(|chain| chain.first());
        let code = if user.is_none() || user.as_ref() == by { 200 } else { 401 };
        let body = json!({"kind": "Status", "status": "Failure", "code": code}).to_string();
        let last = if user.is_none() { "Connection: close\r\n" } else { "" };
        let length = body.len();
        write!(stream, "HTTP/1.1 {code} X\r\n{last}Content-Length: {length}\r\n\r\n{body}")?;
        if user.is_none() {
            stream.conn.send_close_notify();
            return stream.flush();
        }
    }
}

/// A kubeconfig, and the files that it names or holds.
struct Files {
    folder: PathBuf,
    url: String,
    /// Whether certificates are in the kubeconfig itself.
    inline: bool,
}

impl Files {
    fn new(name: &str, url: String, inline: bool) -> Self {
        let name = format!("certificates-{name}-{inline}");
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Self { folder, url, inline }
    }

    /// Writes the certificates of the cluster and the user.
    fn write(&self, authority: &str, certificate: &str, key: &str) {
        let mut cluster = json!({"server": self.url});
        let mut user = json!({});
        for (name, text) in
            [("certificate-authority", authority), ("client-certificate", certificate), ("client-key", key)]
        {
            let object = if name == "certificate-authority" { &mut cluster } else { &mut user };
            if text.is_empty() {
            } else if self.inline {
                object[format!("{name}-data")] = json!(ByteString(text.into()));
            } else {
                std::fs::write(self.folder.join(name), text).unwrap();
                object[name] = json!(name);
            }
        }
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "prod",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "prod", "context": {"cluster": "c", "user": "u"}}],
        });
        std::fs::write(self.folder.join("kubeconfig"), kubeconfig.to_string()).unwrap();
    }

    async fn connect(&self) -> Client {
        log();
        let kubeconfig = Some(self.folder.join("kubeconfig"));
        let options = ClusterOptions { kubeconfig, ..ClusterOptions::default() };
        connect(&options).await.unwrap().client
    }
}

async fn request(client: &Client) -> Result<String, kube::Error> {
    client.request_text(Request::get("/version").body(Vec::new()).unwrap()).await
}

/// Sends requests for as long as certificates may stay unread; all of them have to fail.
async fn assert_fails(client: &Client) {
    let start = Instant::now();
    while start.elapsed() < REREAD {
        request(client).await.unwrap_err();
        sleep(Duration::from_millis(300)).await;
    }
}

/// Sends requests until one succeeds.
async fn assert_recovers(client: &Client) {
    let recovers = async {
        while request(client).await.is_err() {
            sleep(Duration::from_millis(300)).await;
        }
    };
    timeout(Duration::from_secs(30), recovers).await.expect("the new certificates are not in use");
}

/// What is logged. Subscribers of single threads would be in each other's way.
fn log() -> &'static Mutex<Vec<u8>> {
    struct Log;
    impl std::io::Write for Log {
        fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
            LOG.lock().unwrap().write(text)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());
    static START: Once = Once::new();
    START.call_once(|| tracing_subscriber::fmt().with_ansi(false).with_writer(|| Log).init());
    &LOG
}

/// Replaces the authority of a server and a client, with something broken in between.
async fn replace_authority(inline: bool, broken: [&str; 2]) {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let (url, state) = start(old.server_config(false), None);
    let serve = |authority: &Authority| {
        state.lock().unwrap().config = authority.server_config(false);
    };
    let files = Files::new("authority", url, inline);
    files.write(&old.pem, "", "");
    let client = files.connect().await;
    request(&client).await.unwrap();

    serve(&new);
    for broken in broken {
        let name = if inline { "kubeconfig" } else { "certificate-authority" };
        std::fs::write(files.folder.join(name), broken).unwrap();
        assert_fails(&client).await;
        serve(&old);
        request(&client).await.expect("the old certificates are not in use any more");
        serve(&new);
    }

    files.write(&new.pem, "", "");
    assert_recovers(&client).await;
}

#[tokio::test]
async fn replaced_authority_is_trusted_without_a_restart() {
    let half = "-----BEGIN CERTIFICATE-----\nMIIBgDCCASWgAwIBAgIUVrQf5d//S01a0fbXxYRIx9";
    let wrong = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
    tokio::join!(replace_authority(false, [half, wrong]), replace_authority(true, ["", "{"]));
    let log = String::from_utf8(log().lock().unwrap().clone()).unwrap();
    let lines = log.lines().filter(|line| line.contains("/certificates-authority-"));
    let (warnings, lines): (Vec<_>, Vec<_>) = lines.partition(|line| line.contains(" WARN "));
    // Each is read more than once.
    assert_eq!(warnings.len(), 4, "{log}");
    for says in [
        "the CA bundle holds no certificate",
        "failed to add a root certificate",
        "has no context \"prod\"",
        "keeping the previous ones: line 1 column ",
    ] {
        assert!(warnings.iter().any(|line| line.contains(says)), "{says}: {log}");
    }
    let changes = lines.iter().filter(|line| line.contains("have changed, reconnecting"));
    assert_eq!(changes.count(), 2, "{log}");
}

/// Replaces the certificate of a client, with a key that does not match in between.
async fn replace_client_certificate(inline: bool) {
    let authority = Authority::new("authority");
    let (old, new) = (authority.sign("old"), authority.sign("new"));
    let (url, state) = start(authority.server_config(true), Some(old.der.clone()));
    let files = Files::new("client", url, inline);
    files.write(&authority.pem, &old.certificate, &old.key);
    let client = files.connect().await;
    request(&client).await.unwrap();

    // As a certificate that expires: the API server returns 401 also on open connections.
    state.lock().unwrap().user = Some(new.der.clone());
    files.write(&authority.pem, &new.certificate, &old.key);
    assert_fails(&client).await;

    files.write(&authority.pem, &new.certificate, &new.key);
    assert_recovers(&client).await;
    let closes = async {
        while state.lock().unwrap().open > 1 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(10), closes).await.expect("the old connection stays open");
}

#[tokio::test]
async fn replaced_client_certificate_is_presented_without_a_restart() {
    tokio::join!(replace_client_certificate(false), replace_client_certificate(true));
}

#[test]
fn kubeconfig_in_a_pipe_is_read_once() {
    let files = Files::new("pipe", "https://127.0.0.1:1".to_owned(), true);
    files.write("", "", "");
    let path = files.folder.join("kubeconfig");
    let text = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    std::thread::spawn(move || std::fs::write(&path, text));
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { assert_fails(&files.connect().await).await });
        done.send(()).unwrap();
    });
    is_done.recv_timeout(Duration::from_secs(60)).expect("it waits for the pipe");
}

#[tokio::test]
async fn certificates_of_another_server_are_not_used() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let (url, state) = start(old.server_config(false), None);
    let mut files = Files::new("other", url, true);
    files.write(&old.pem, "", "");
    let client = files.connect().await;
    state.lock().unwrap().config = new.server_config(false);
    files.url = "https://127.0.0.1:1".to_owned();
    files.write(&new.pem, "", "");
    assert_fails(&client).await;
    state.lock().unwrap().config = old.server_config(false);
    request(&client).await.unwrap();
}
