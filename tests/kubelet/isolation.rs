use std::fs;
use std::path::Path;

use crate::cluster::Cluster;
use crate::machine::{DONGLE, TICK, start_kubelet};

/// What a kubelet would change on the machine.
fn machine() -> Vec<String> {
    let sysctls =
        ["vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops"];
    let values = sysctls.map(|name| fs::read_to_string(Path::new("/proc/sys").join(name)).unwrap());
    let folders = ["/var/lib/kubelet", "/var/log/pods", "/var/log/containers"];
    let folders = folders.map(|folder| format!("{folder}: {}", Path::new(folder).exists()));
    values.into_iter().chain(folders).collect()
}

#[test]
fn a_kubelet_changes_nothing_on_the_machine() {
    let cluster = Cluster::start();
    let dir = cluster.control_plane.dir().to_str().unwrap().to_owned();
    let before = machine();
    let kubelet = start_kubelet(&cluster, "node-1", TICK);
    let _plugin = kubelet.device_plugin(DONGLE, 1, 0).unwrap();
    assert_eq!(machine(), before);
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&dir), "{mounts}");
    // And it does see what it changes: this is what the comparison rests on.
    assert!(Path::new(&dir).join("node-1/log/pods").exists());
    let written = fs::read_to_string(format!("{dir}/node-1/sysctl/kernel/panic")).unwrap();
    assert_eq!(written.trim(), "10");
}
