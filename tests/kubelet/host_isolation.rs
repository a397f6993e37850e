//! The tests' kubelets do not change the machine.
//!
//! Method: compare sysctls, folders and mounts before and after, and check that the kubelet wrote to
//! the copies in its own mount namespace.

use std::fs;
use std::path::Path;

use harness::Cluster;
use harness::objects::DONGLE;

use crate::pod_fate::{TICK, start_kubelet};

/// Returns the state of the machine that a kubelet could change.
fn host_state() -> Vec<String> {
    let sysctls = ["vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops"];
    let values = sysctls.map(|name| fs::read_to_string(Path::new("/proc/sys").join(name)).unwrap());
    let folders = ["/var/lib/kubelet", "/var/log/pods", "/var/log/containers"];
    let folders = folders.map(|folder| format!("{folder}: {}", Path::new(folder).exists()));
    values.into_iter().chain(folders).collect()
}

#[test]
fn kubelet_changes_nothing_on_its_machine() {
    let cluster = Cluster::start();
    let dir = cluster.control_plane.dir().to_str().unwrap().to_owned();
    let before = host_state();
    let kubelet = start_kubelet(&cluster, "node-1", TICK);
    let _plugin = kubelet.device_plugin(DONGLE, 1, 0).unwrap();
    assert_eq!(host_state(), before);
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&dir), "{mounts}");
    // The kubelet has written to the copies; otherwise the comparison proves nothing.
    assert!(Path::new(&dir).join("node-1/log/pods").exists());
    let written = fs::read_to_string(format!("{dir}/node-1/sysctl/kernel/panic")).unwrap();
    assert_eq!(written.trim(), "10");
}
