//! Tests the harness itself: it starts what its builder describes, and leaves nothing behind.
//!
//! Method: each test starts its own control plane or process, and checks processes by their id in /proc.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test that fails panics

use harness::{ControlPlane, DEADLINE, Process, Signal, wait_until};

fn is_running(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    status.is_ok_and(|status| !status.contains(") Z "))
}

fn wait_gone(pid: i32) {
    wait_until(&format!("process {pid} to end"), || Ok((!is_running(pid)).then_some(()))).unwrap();
}

#[test]
fn kubemark_kubelet_runs_a_pod() {
    let control_plane = ControlPlane::builder().scheduler().kubelets(2).start().unwrap();
    let pod = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"},
        "spec": {"containers": [{"name": "app", "image": "pause"}]}}"#;
    control_plane.kubectl_stdin(&["apply", "-f", "-"], pod).unwrap();
    control_plane.kubectl(&["wait", "--for=jsonpath={.status.phase}=Running", "pod/pod", "--timeout=180s"]).unwrap();
}

#[test]
fn apiserver_keeps_its_data_across_a_restart() {
    let mut control_plane = ControlPlane::builder().start().unwrap();
    control_plane.kubectl(&["create", "configmap", "kept"]).unwrap();
    control_plane.kill_apiserver().unwrap();
    let killed = control_plane.kubectl_output(&["get", "configmap", "kept"], None).unwrap();
    assert_ne!(killed.code, 0);
    control_plane.restart_apiserver().unwrap();
    control_plane.kubectl(&["get", "configmap", "kept"]).unwrap();
}

#[test]
fn new_user_has_no_permissions() {
    let control_plane = ControlPlane::builder().user("nobody").start().unwrap();
    let kubeconfig = control_plane.kubeconfig_for("nobody");
    let args = ["--kubeconfig", kubeconfig.to_str().unwrap(), "get", "nodes"];
    let output = control_plane.kubectl_output(&args, None).unwrap();
    assert!(output.stderr.contains("User \"nobody\" cannot list"), "{}", output.stderr);
}

#[test]
fn request_count_matches_requests_sent() {
    let control_plane = ControlPlane::builder().start().unwrap();
    let before = control_plane.request_count("POST", "configmaps", "").unwrap();
    control_plane.kubectl(&["create", "configmap", "one"]).unwrap();
    let after = control_plane.request_count("POST", "configmaps", "").unwrap();
    assert_eq!(after - before, 1);
}

#[test]
fn control_plane_ends_when_its_owner_panics() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let owner = std::thread::spawn(move || {
        let control_plane = ControlPlane::builder().start().unwrap();
        sender.send(control_plane.apiserver_pid()).unwrap();
        panic!("as a failed test does");
    });
    let pid = receiver.recv_timeout(DEADLINE).unwrap();
    owner.join().unwrap_err();
    wait_gone(pid);
}

/// A program that is killed by SIGKILL cannot clean up after itself.
#[test]
fn process_ends_when_its_owner_is_killed() {
    let dir = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let log = dir.join("owner.log");
    // The owner of a supervised sleep: this test program, running the test below.
    let program = std::env::current_exe().unwrap();
    let args = ["--exact", "process_owner_to_be_killed", "--ignored", "--nocapture"];
    std::fs::remove_file(&log).unwrap_or_default();
    let owner = Process::spawn("owner", &program, &args, &[], &log).unwrap();
    let pid = wait_until("the owner to print which process it holds", || {
        let log = owner.log();
        let pid = log.lines().find_map(|line| line.strip_prefix("holds "));
        Ok(pid.map(|pid| pid.parse::<i32>()).transpose()?)
    })
    .unwrap();
    assert!(is_running(pid));
    owner.signal(Signal::KILL).unwrap();
    wait_gone(pid);
}

#[test]
#[ignore = "it is the owner in process_ends_when_its_owner_is_killed"]
fn process_owner_to_be_killed() {
    let log = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("held.log");
    let sleep = std::path::Path::new("/bin/sleep");
    let mut held = Process::spawn("held", sleep, &["600"], &[], &log).unwrap();
    println!("\nholds {}", held.pid());
    held.wait_exit(DEADLINE).unwrap();
}

#[test]
fn process_reports_exit_code_and_log() {
    let log = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("exit.log");
    let shell = std::path::Path::new("/bin/sh");
    let mut process = Process::spawn("shell", shell, &["-c", "echo printed; exit 7"], &[], &log).unwrap();
    assert_eq!(process.wait_exit(DEADLINE).unwrap(), 7);
    assert!(process.log().contains("printed"));
    assert!(format!("{:#}", process.check_running().unwrap_err()).contains("printed"));
    let mut process = Process::spawn("shell", shell, &["-c", "sleep 600"], &[], &log).unwrap();
    process.signal(Signal::TERM).unwrap();
    assert_eq!(process.wait_exit(DEADLINE).unwrap(), 128 + 15);
}
