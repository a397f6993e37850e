//! The memory limit of the container: of the cgroup that this process is in.

use std::fs;
use std::path::Path;

/// Where cgroups are mounted.
const MOUNT: &str = "/sys/fs/cgroup";

/// Returns the limit in bytes; `None` without one.
pub(super) fn read() -> Option<u64> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    limit(&own, |path| fs::read_to_string(Path::new(MOUNT).join(path)).ok())
}

/// Returns the lowest limit of a process with these lines in `/proc/self/cgroup`, and these files. In a container, the
/// mount may begin at the cgroup itself, while the lines have its path on the node.
fn limit(own: &str, read: impl Fn(&str) -> Option<String>) -> Option<u64> {
    let of_line = |line: &str| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?.trim_matches('/'));
        let (mount, file) = match controllers {
            "" => ("", "memory.max"),
            "memory" => ("memory/", "memory.limit_in_bytes"),
            _ => return None,
        };
        let levels = path.match_indices('/').map(|(end, _)| &path[..end]).chain([path, ""]);
        let files = levels.map(|level| format!("{mount}{level}/{file}").replace("//", "/"));
        let files = files.map(|file| file.trim_start_matches('/').to_owned());
        // "max" is no limit. Version 1 has a number that no machine has memory for.
        files.filter_map(|file| read(&file)?.trim().parse::<u64>().ok()).filter(|limit| *limit < 1 << 60).min()
    };
    own.lines().filter_map(of_line).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_limit_is_the_lowest_of_the_cgroups_around_the_process() {
        let v1 = "9:cpu:/\n4:memory:/pods/a\n0::/\n";
        for (own, files, expected) in [
            ("0::/\n", &[("memory.max", "134217728\n")][..], Some(134_217_728)),
            (
                "0::/pods/a\n",
                &[("memory.max", "max\n"), ("pods/memory.max", "900"), ("pods/a/memory.max", "800")],
                Some(800),
            ),
            ("0::/pods/a\n", &[("pods/memory.max", "700"), ("pods/a/memory.max", "800")], Some(700)),
            ("0::/pods/a\n", &[("pods/a/memory.max", "max")], None),
            // The path is that on the node, and the mount begins below it.
            ("0::/pods/a\n", &[("memory.max", "600")], Some(600)),
            (v1, &[("memory/pods/a/memory.limit_in_bytes", "500"), ("cpu/memory.limit_in_bytes", "1")], Some(500)),
            (v1, &[("memory/memory.limit_in_bytes", "9223372036854771712")], None),
            ("", &[], None),
        ] {
            let read = |path: &str| files.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned());
            assert_eq!(limit(own, read), expected, "{own:?} {files:?}");
        }
    }
}
