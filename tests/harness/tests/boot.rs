//! The harness itself: it boots what it says, and leaves nothing behind.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test that fails panics

use std::time::Duration;

use harness::{ControlPlane, Process, Signal, wait_until};

const DEADLINE: Duration = Duration::from_secs(60);

fn is_running(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    status.is_ok_and(|status| !status.contains(") Z "))
}

fn wait_gone(pid: i32) {
    wait_until(&format!("process {pid} to be gone"), DEADLINE, || {
        Ok((!is_running(pid)).then_some(()))
    })
    .unwrap();
}

#[test]
fn a_pod_runs() {
    let control_plane = ControlPlane::builder().scheduler().kubelets(2).start().unwrap();
    let pod = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"},
        "spec": {"containers": [{"name": "app", "image": "pause"}]}}"#;
    control_plane.kubectl_stdin(&["apply", "-f", "-"], pod).unwrap();
    control_plane
        .kubectl(&["wait", "--for=jsonpath={.status.phase}=Running", "pod/pod", "--timeout=60s"])
        .unwrap();
}

#[test]
fn the_api_server_can_be_killed_and_started_again() {
    let mut control_plane = ControlPlane::builder().start().unwrap();
    control_plane.kubectl(&["create", "configmap", "kept"]).unwrap();
    control_plane.kill_apiserver().unwrap();
    let away = control_plane.kubectl_output(&["get", "configmap", "kept"], None).unwrap();
    assert_ne!(away.code, 0);
    control_plane.restart_apiserver().unwrap();
    control_plane.kubectl(&["get", "configmap", "kept"]).unwrap();
}

#[test]
fn a_user_without_rights_has_none() {
    let control_plane = ControlPlane::builder().user("nobody").start().unwrap();
    let kubeconfig = control_plane.kubeconfig_for("nobody");
    let args = ["--kubeconfig", kubeconfig.to_str().unwrap(), "get", "nodes"];
    let answer = control_plane.kubectl_output(&args, None).unwrap();
    assert!(answer.stderr.contains("User \"nobody\" cannot list"), "{}", answer.stderr);
}

#[test]
fn requests_are_counted() {
    let control_plane = ControlPlane::builder().start().unwrap();
    let before = control_plane.request_count("POST", "configmaps", "").unwrap();
    control_plane.kubectl(&["create", "configmap", "one"]).unwrap();
    let after = control_plane.request_count("POST", "configmaps", "").unwrap();
    assert_eq!(after - before, 1);
}

#[test]
fn nothing_outlives_a_panic() {
    let (tell, told) = std::sync::mpsc::channel();
    let owner = std::thread::spawn(move || {
        let control_plane = ControlPlane::builder().start().unwrap();
        tell.send(control_plane.apiserver_pid()).unwrap();
        panic!("as a failed test does");
    });
    let pid = told.recv_timeout(DEADLINE).unwrap();
    owner.join().unwrap_err();
    wait_gone(pid);
}

/// What is killed with SIGKILL cannot clean up after itself.
#[test]
fn nothing_outlives_a_killed_owner() {
    let dir = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let log = dir.join("owner.log");
    // An owner that holds the pipe of a supervised sleep: this test program, as the test below.
    let program = std::env::current_exe().unwrap();
    let args = ["--exact", "an_owner_that_waits", "--ignored", "--nocapture"];
    std::fs::remove_file(&log).unwrap_or_default();
    let owner = Process::spawn("owner", &program, &args, &[], &log).unwrap();
    let pid = wait_until("the owner to tell the process that it holds", DEADLINE, || {
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
#[ignore = "it is the owner in nothing_outlives_a_killed_owner"]
fn an_owner_that_waits() {
    let log = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("held.log");
    let sleep = std::path::Path::new("/bin/sleep");
    let mut held = Process::spawn("held", sleep, &["600"], &[], &log).unwrap();
    println!("\nholds {}", held.pid());
    held.wait_exit(DEADLINE).unwrap();
}

#[test]
fn an_exit_code_is_passed_on() {
    let log = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("exit.log");
    let shell = std::path::Path::new("/bin/sh");
    let mut process =
        Process::spawn("shell", shell, &["-c", "echo said; exit 7"], &[], &log).unwrap();
    assert_eq!(process.wait_exit(DEADLINE).unwrap(), 7);
    assert!(process.log().contains("said"));
    assert!(format!("{:#}", process.check_running().unwrap_err()).contains("said"));
    let mut process = Process::spawn("shell", shell, &["-c", "sleep 600"], &[], &log).unwrap();
    process.signal(Signal::TERM).unwrap();
    assert_eq!(process.wait_exit(DEADLINE).unwrap(), 128 + 15);
}
