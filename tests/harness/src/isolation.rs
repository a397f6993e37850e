//! Runs a test in its own namespaces, because a kubelet with real containers changes its machine.
//! This requires root on Linux; `make test-cluster` builds the programs.
//!
//! ```text
//! test ─▶ unshare ─▶ sh (mounts, network) ─▶ the same test once more, in mount, network and process
//!   │                                        namespaces: control plane, containerd, kubelet, pods
//!   └ when that ends, everything in there is killed, and its cgroups are removed
//! ```

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs, process};

use anyhow::{Context as _, Result};

use crate::{Process, builder, kubelet, wait_until};

/// The environment variable with the cgroups of a test's containers, set only in a test's namespaces.
const CGROUP: &str = "ISOLATED_CGROUP";
const CGROUPS: &str = "/sys/fs/cgroup";
const CGROUP_PREFIX: &str = "isolated-test-";

/// Deadline of a whole test: machines differ by a factor of ten.
const TEST_DEADLINE: Duration = Duration::from_secs(3600);

/// The address at which pods expect the API server: the first of the Service range. The API server itself
/// has this address, so no kube-proxy is needed.
pub(crate) const API_SERVICE: &str = "10.96.0.1";
pub(crate) const SERVICES: &str = "10.96.0.0/24";
pub(crate) const PODS: &str = "10.99.0.0/24";
/// The node's address.
pub(crate) const NODE: &str = "10.98.0.1";

/// Sets up new namespaces with an empty `/run`, all files of the test in the given folder, and a cgroup in
/// each hierarchy, and runs a program there. The shell remains: as the first process it reaps orphans.
const MACHINE: &str = r#"
set -eu
dir=$1; runs=$2; node=$3; service=$4; cgroup=$5; shift 5
# Of the second version there is one hierarchy, of the first there are several.
if test -e /sys/fs/cgroup/cgroup.controllers; then
    hierarchies=/sys/fs/cgroup
else
    hierarchies=$(find /sys/fs/cgroup -mindepth 1 -maxdepth 1 -type d)
fi
for hierarchy in $hierarchies; do
    mkdir "$hierarchy/$cgroup"
    # A new one of the first version has no processors, and whoever makes one below takes these.
    for file in cpuset.mems cpuset.cpus; do
        if test -e "$hierarchy/$file"; then
            cat "$hierarchy/$file" > "$hierarchy/$cgroup/$file"
        fi
    done
done
mount -t tmpfs -o mode=755 tmpfs /run
mount --bind "$dir" "$runs"
ip link set lo up
ip address add "$service/32" dev lo
ip link add name node0 type veth peer name outside0
ip address add "$node/24" dev node0
ip link set node0 up
ip link set outside0 up
ip route add default dev node0
"$@"
exit $?
"#;

/// Runs the body of the test `name`, the full path of its function, in its own namespaces, and prints its
/// output. Returns whether this is the outer process: the code after this call runs in the inner one too.
///
/// # Panics
/// Panics if it fails.
#[allow(clippy::panic)] // for tests, which fail with a panic
#[must_use]
pub fn isolated(name: &str, body: impl FnOnce()) -> bool {
    if env::var_os(CGROUP).is_some() {
        body();
        return false;
    }
    match run_again(name) {
        Ok((0, log)) => println!("{log}"),
        Ok((code, log)) => panic!("{name}, in namespaces of its own, ended with {code}:\n{log}"),
        Err(error) => panic!("{error:?}"),
    }
    true
}

/// The cgroup of the containers, below each of the mounted hierarchies.
pub(crate) fn cgroup() -> Result<String> {
    env::var(CGROUP).context("a node would change this machine: wrap the test in harness::isolated")
}

/// Runs one test of this program in new namespaces: its exit code, and what it printed.
fn run_again(name: &str) -> Result<(i32, String)> {
    let dir = builder::folder()?;
    for folder in ["lib", "log"] {
        fs::create_dir_all(dir.join(folder)).context("cannot make the machine's folders")?;
    }
    kubelet::copy_sysctls(&dir)?;
    remove_abandoned_cgroups();
    let cgroup = Cgroup(format!("{CGROUP_PREFIX}{}", process::id()));
    let test = env::current_exe().context("cannot find the test itself")?;
    let (runs, log) = (builder::runs(), dir.join("test.log"));
    let paths = [&dir, &runs, &test].map(|path| path.display().to_string());
    let [dir_name, runs, test] = &paths;
    let namespaces = ["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let privately = ["--propagation=private", "sh", "-c", kubelet::PRIVATELY, "sh", dir_name];
    let machine = ["sh", "-c", MACHINE, "sh", dir_name, runs, NODE, API_SERVICE, &cgroup.0];
    let again = [test.as_str(), "--exact", name, "--include-ignored", "--nocapture"];
    let args = [&namespaces[..], &privately, &machine, &again].concat();
    let env = [(CGROUP, cgroup.0.as_str())];
    let mut process = Process::spawn(name, Path::new("unshare"), &args, &env, &log)?;
    let code = process.wait_exit(TEST_DEADLINE);
    let log = process.log();
    let code = code.with_context(|| log.clone())?;
    cgroup.remove()?;
    if code == 0 {
        // `make clean` deletes the rest.
        let _ = fs::remove_dir_all(&dir);
    } else {
        eprintln!("the logs are in {}", dir.display());
    }
    Ok((code, log))
}

/// The cgroups of a test's containers, which end a moment after the test.
struct Cgroup(String);

impl Cgroup {
    fn remove(&self) -> Result<()> {
        wait_until(&format!("the cgroups {} to be removed", self.0), || {
            for folder in folders(&self.0) {
                remove_tree(&folder)?;
            }
            Ok(folders(&self.0).is_empty().then_some(()))
        })
    }
}

/// Returns the folders of a cgroup: in version 1, one in every hierarchy.
fn folders(name: &str) -> Vec<PathBuf> {
    let hierarchies = fs::read_dir(CGROUPS).into_iter().flatten().flatten();
    let roots = hierarchies.map(|entry| entry.path()).chain([PathBuf::from(CGROUPS)]);
    roots.map(|root| root.join(name)).filter(|folder| folder.is_dir()).collect()
}

/// Removes a cgroup and those below it. The kernel removes their files.
fn remove_tree(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_tree(&path)?;
        }
    }
    fs::remove_dir(folder).with_context(|| format!("cannot remove {}", folder.display()))
}

/// Removes what a killed test has left.
fn remove_abandoned_cgroups() {
    for root in folders("") {
        for entry in fs::read_dir(root).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let owner = name.to_str().and_then(|name| name.strip_prefix(CGROUP_PREFIX));
            let gone = owner.is_some_and(|owner| !Path::new("/proc").join(owner).exists());
            if gone {
                // The next test retries.
                let _ = remove_tree(&entry.path());
            }
        }
    }
}
