//! What must be on the machine afterwards as it was before.

use std::fs;
use std::path::Path;

/// What a node with containers would change on its machine.
pub fn state() -> Vec<String> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let interfaces = read("/proc/net/dev");
    let interfaces = interfaces.lines().filter_map(|line| line.split_once(':'));
    let sysctls = ["kernel/panic", "vm/overcommit_memory"];
    let folders = ["/var/lib/kubelet", "/var/log/pods", "/run/containerd", "/run/cni", "/run/runc"];
    interfaces
        .map(|(name, _)| name.to_owned())
        .chain(sysctls.map(|name| read(&format!("/proc/sys/{name}"))))
        .chain(folders.map(|path| format!("{path}: {}", Path::new(path).exists())))
        .chain(cgroups())
        .collect()
}

/// The cgroups of this test, and what containerd calls its own. Other tests may run beside it.
fn cgroups() -> Vec<String> {
    let names = [format!("isolated-test-{}", std::process::id()), "k8s.io".to_owned()];
    let root = Path::new("/sys/fs/cgroup");
    let hierarchies = fs::read_dir(root).unwrap().flatten().map(|entry| entry.path());
    let all = hierarchies
        .chain([root.to_owned()])
        .flat_map(|hierarchy| names.clone().map(|name| hierarchy.join(name)));
    all.filter(|path| path.exists()).map(|path| path.display().to_string()).collect()
}
