//! Runs Flux's kustomize-controller against the cluster. Instead of Flux's source-controller, a thread
//! serves the repository as the archive that source-controller would create.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::{Cluster, Process, project_file, tool};
use serde_json::{Value, json};

const RULES: [&str; 3] = ["rules", "--namespace", "flux-system"];
const REVISION: &str = "main@sha1:0000000000000000000000000000000000000000";

/// Flux, which applies the rules of a repository to the cluster.
pub struct Flux {
    process: Process,
}

impl Flux {
    /// Starts Flux. `repository` is a folder that stands for the Git repository.
    pub fn start(cluster: &Cluster, repository: &Path) -> Self {
        install_kinds(cluster);
        cluster.kubectl(&["create", "namespace", "flux-system"]);
        let dir = cluster.control_plane.dir().join("flux");
        fs::create_dir_all(&dir).unwrap();
        let archive = dir.join("rules.tar.gz");
        let [from, to] = [repository, &archive].map(|path| path.to_str().unwrap());
        let tar = Command::new("tar").args(["-czf", to, "-C", from, "."]).status();
        assert!(tar.expect("tar runs").success());
        let archive = fs::read(archive).unwrap();

        let documents = fs::read_to_string(example("flux/rules.yaml")).unwrap();
        let source = documents.split("\n---\n").next().unwrap();
        cluster.apply(source);
        let status = json!({"status": {"artifact": artifact(archive)}}).to_string();
        let patch = ["--subresource=status", "--type=merge", "-p", &status];
        cluster.kubectl(&[&["patch", "gitrepository"], &RULES[..], &patch].concat());

        let listen = || format!("127.0.0.1:{}", harness::free_port().unwrap());
        let [metrics, health] = ["metrics", "health"].map(|what| format!("--{what}-addr={}", listen()));
        let process = Process::spawn(
            "kustomize-controller",
            &tool("kustomize-controller").unwrap(),
            &[&metrics, &health],
            &[
                ("KUBECONFIG", cluster.control_plane.kubeconfig().to_str().unwrap()),
                ("RUNTIME_NAMESPACE", "flux-system"),
                // The process deletes files that other processes of its name have left there.
                ("TMPDIR", dir.to_str().unwrap()),
            ],
            &cluster.control_plane.logs().join("kustomize-controller.log"),
        );
        Self { process: process.expect("kustomize-controller starts") }
    }

    /// Applies the example's Kustomization, with health checks of at most `timeout`.
    pub fn deploy(&self, cluster: &Cluster, timeout: &str) {
        let documents = fs::read_to_string(example("flux/rules.yaml")).unwrap();
        let kustomization = documents.split("\n---\n").nth(1).unwrap();
        let patient = kustomization.replace("timeout: 2m", &format!("timeout: {timeout}"));
        assert_ne!(patient, kustomization, "the example's timeout");
        cluster.apply(&patient);
    }

    /// Waits until a condition of the Kustomization has this status, and `text` in its message.
    pub fn wait_condition(&self, cluster: &Cluster, kind: &str, status: &str, text: &str) {
        let what = format!("Flux to report {kind}={status}: {text}");
        cluster.wait_for(&what, &[&["kustomization"], &RULES[..]].concat(), |object| {
            self.process.check_running().unwrap();
            let conditions = object["status"]["conditions"].as_array();
            conditions.into_iter().flatten().any(|condition| {
                condition["type"] == kind
                    && condition["status"] == status
                    && condition["message"].as_str().is_some_and(|message| message.contains(text))
            })
        });
    }
}

/// Returns the path of a file in `examples/gitops/`.
pub fn example(path: &str) -> PathBuf {
    project_file("examples/gitops").join(path)
}

/// Installs the CRDs of Flux and Argo CD.
pub fn install_kinds(cluster: &Cluster) {
    let crds = project_file("target/tools/gitops-crds");
    assert!(crds.exists(), "{} does not exist: run `make gitops-crds`", crds.display());
    cluster.kubectl(&["apply", "--server-side", "-f", crds.to_str().unwrap()]);
    cluster.wait_crds();
}

/// Serves the archive, and describes it as source-controller does.
fn artifact(archive: Vec<u8>) -> Value {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let digest = ring::digest::digest(&ring::digest::SHA256, &archive);
    let digest: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let size = archive.len();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // A client that disconnects retries.
            let _ = serve(&stream, &archive);
        }
    });
    json!({
        "path": "rules.tar.gz",
        "url": format!("http://{address}/rules.tar.gz"),
        "revision": REVISION,
        "digest": format!("sha256:{digest}"),
        "size": size,
        "lastUpdateTime": "2026-01-01T00:00:00Z",
    })
}

fn serve(mut stream: &std::net::TcpStream, body: &[u8]) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let length = body.len();
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n")?;
    stream.write_all(body)
}
