//! A cgroup with a memory limit, as a container has.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Where cgroups are mounted.
const MOUNT: &str = "/sys/fs/cgroup";

/// A cgroup, which is removed when it is dropped: after the programs in it.
#[derive(Debug)]
pub struct Cgroup {
    folder: PathBuf,
}

impl Cgroup {
    /// Creates a cgroup whose programs may take this many bytes together.
    ///
    /// # Errors
    /// Returns why this machine permits none: that takes root, and cgroups that can be written.
    pub fn with_memory(bytes: u64) -> io::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("nra-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let mount = Path::new(MOUNT);
        let version_1 = mount.join("memory");
        if version_1.is_dir() {
            return Self::create(version_1.join(name), "memory.limit_in_bytes", bytes);
        }
        fs::write(mount.join("cgroup.subtree_control"), "+memory")?;
        let cgroup = Self::create(mount.join(name), "memory.max", bytes)?;
        // Not where the kernel has no swap.
        let _ = fs::write(cgroup.folder.join("memory.swap.max"), "0");
        Ok(cgroup)
    }

    fn create(folder: PathBuf, limit: &str, bytes: u64) -> io::Result<Self> {
        fs::create_dir(&folder)?;
        let cgroup = Self { folder };
        fs::write(cgroup.folder.join(limit), bytes.to_string())?;
        Ok(cgroup)
    }

    /// Returns the most bytes that its processes have taken at once, if the kernel counts them.
    pub fn peak(&self) -> Option<u64> {
        let files = ["memory.peak", "memory.max_usage_in_bytes"];
        files.iter().find_map(|file| fs::read_to_string(self.folder.join(file)).ok()?.trim().parse().ok())
    }

    /// Returns the file that takes the ids of its processes.
    pub(crate) fn processes(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}
