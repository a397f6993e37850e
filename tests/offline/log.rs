//! The log of the controller, on a standard error that is read, or not.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use harness::{free_port, wait_until};

use crate::connection::kubeconfig;

/// A controller that reaches no API server, and the port of its endpoints.
fn start(name: &str, stderr: impl Into<Stdio>) -> (Child, u16) {
    let kubeconfig = kubeconfig(name, "http://127.0.0.1:1", "{}");
    let port = free_port().unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_node-resource-advertiser"));
    program.arg("run").args(["--bind-address", &format!("127.0.0.1:{port}")]).arg("--kubeconfig").arg(kubeconfig);
    (program.env_clear().stderr(stderr).spawn().unwrap(), port)
}

fn get(port: u16, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes())?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    Ok(response)
}

/// Sends SIGTERM, and waits until the program ends with code 0.
fn stop(mut controller: Child) {
    let status = Command::new("kill").arg(controller.id().to_string()).status().unwrap();
    assert!(status.success());
    let status = wait_until("the controller to end", || Ok(controller.try_wait()?)).unwrap();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn log_that_nobody_reads_does_not_stop_the_controller() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let stderr = writer.try_clone().unwrap();
    // The pipe stays full: whoever writes to it waits.
    std::thread::spawn(move || while writer.write_all(&[b'x'; 4096]).is_ok() {});
    let (controller, port) = start("unread", stderr);
    wait_until("the endpoints to respond", || Ok(get(port, "/livez").ok().filter(|response| response.contains("200"))))
        .unwrap();
    stop(controller);
    drop(reader);
}

#[test]
fn last_line_of_the_log_is_written_before_the_end() {
    let (mut reader, stderr) = std::io::pipe().unwrap();
    let (controller, port) = start("read", stderr);
    let lost = wait_until("the metrics", || Ok(get(port, "/metrics").ok())).unwrap();
    assert!(lost.contains("node_resource_advertiser_log_lines_lost_total 0\n"), "{lost}");
    stop(controller);
    let mut log = String::new();
    reader.read_to_string(&mut log).unwrap();
    assert!(log.trim_end().ends_with("stopped"), "{log}");
    assert!(log.contains("starting node-resource-advertiser"), "{log}");
}
