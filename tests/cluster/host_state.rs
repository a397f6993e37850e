//! The state of the machine that a test must not change.

use std::fs;
use std::path::Path;

/// Returns the state of the machine that a node with containers could change.
pub fn read() -> Vec<String> {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let interfaces = text("/proc/net/dev");
    let interfaces = interfaces.lines().filter_map(|line| line.split_once(':'));
    let sysctls = ["kernel/panic", "vm/overcommit_memory"];
    let folders = ["/var/lib/kubelet", "/var/log/pods", "/run/containerd", "/run/cni", "/run/runc"];
    interfaces
        .map(|(name, _)| name.to_owned())
        .chain(sysctls.map(|name| text(&format!("/proc/sys/{name}"))))
        .chain(folders.map(|path| format!("{path}: {}", Path::new(path).exists())))
        .chain(cgroups())
        .collect()
}

/// Returns the cgroups of this test and of containerd. Other tests may run alongside.
fn cgroups() -> Vec<String> {
    let names = [format!("isolated-test-{}", std::process::id()), "k8s.io".to_owned()];
    let root = Path::new("/sys/fs/cgroup");
    let hierarchies = fs::read_dir(root).unwrap().flatten().map(|entry| entry.path());
    let all = hierarchies.chain([root.to_owned()]).flat_map(|hierarchy| names.clone().map(|name| hierarchy.join(name)));
    all.filter(|path| path.exists()).map(|path| path.display().to_string()).collect()
}
