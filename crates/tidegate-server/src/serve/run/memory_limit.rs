//! Warns if `--memory-max` and `--connections-memory-max` together exceed the memory of the machine or of the cgroup. Only
//! on Linux.

use std::fs;
use std::path::Path;

use crate::size::ByteSize;

/// The root of `/proc` and `/sys`. Tests use another.
const ROOT: &str = "/";
/// The mount point of cgroups.
const CGROUPS: &str = "sys/fs/cgroup";

/// A limit on the memory of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MemoryLimit {
    bytes: u64,
    source: MemoryLimitSource,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemoryLimitSource {
    Machine,
    Cgroup,
}

/// The memory that the server may use.
#[derive(Clone, Copy, Debug)]
pub struct MemoryBounds {
    /// For counters.
    pub counters: ByteSize,
    /// For connections and requests that wait.
    pub connections: ByteSize,
}

/// Warns if the server may use more memory than available.
pub fn warn_if_too_large(bounds: MemoryBounds) {
    if let Some(warning) = too_large_warning(bounds, Path::new(ROOT)) {
        tracing::warn!("{warning}");
    }
}

fn too_large_warning(bounds: MemoryBounds, root: &Path) -> Option<String> {
    let MemoryBounds { counters, connections } = bounds;
    let sum = counters.bytes().saturating_add(connections.bytes());
    let MemoryLimit { bytes, source } = smallest_limit(root).filter(|limit| limit.bytes < sum)?;
    let subject = match source {
        MemoryLimitSource::Machine => "the machine has",
        MemoryLimitSource::Cgroup => "the cgroup of the process may use",
    };
    let mebibytes = ByteSize::from_bytes(bytes >> 20 << 20);
    Some(format!(
        "memory_max is {counters} and connections_memory_max is {connections}, but {subject} {mebibytes}: with enough \
         keys and connections, the system would kill the process (hint: set both so that together they are at most \
         three quarters of the available memory)"
    ))
}

/// The smaller one of the machine's memory and the cgroup limit.
fn smallest_limit(root: &Path) -> Option<MemoryLimit> {
    let machine = machine_bytes(root).map(|bytes| MemoryLimit { bytes, source: MemoryLimitSource::Machine });
    let cgroup = cgroup_bytes(root).map(|bytes| MemoryLimit { bytes, source: MemoryLimitSource::Cgroup });
    [machine, cgroup].into_iter().flatten().min_by_key(|limit| limit.bytes)
}

fn machine_bytes(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kibibytes.checked_mul(1 << 10)
}

/// The smallest limit of the process's cgroup and its parents.
fn cgroup_bytes(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    // `0::/path` in cgroup v2, `9:memory:/path` in v1.
    let line_limit = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let (directory, file) = match controllers {
            "" => (root.join(CGROUPS), "memory.max"),
            _ if controllers.split(',').any(|controller| controller == "memory") => {
                (root.join(CGROUPS).join("memory"), "memory.limit_in_bytes")
            }
            _ => return None,
        };
        // In a container the path may be that of the host, and only some of its parents exist here.
        let own = directory.join(path.trim_start_matches('/'));
        let groups = own.ancestors().take_while(|group| group.starts_with(&directory));
        groups.filter_map(|group| fs::read_to_string(group.join(file)).ok()?.trim().parse().ok()).min()
    };
    text.lines().filter_map(line_limit).min()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// A directory with these files, removed on drop.
    struct Root(PathBuf);

    impl Root {
        fn with(name: &str, files: &[(&str, &str)]) -> Self {
            let path = std::env::temp_dir().join(format!("tidegate-memory-{}-{name}", std::process::id()));
            for (file, text) in files {
                let file = path.join(file);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, text).unwrap();
            }
            Self(path)
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const MEMINFO: (&str, &str) =
        ("proc/meminfo", "MemTotal:        4194304 kB\nMemFree:          1024 kB\n");

    /// The warning for this bound of counters, with 256 MiB for connections.
    fn warning(root: &Root, memory_max: &str) -> Option<String> {
        let connections = "256MiB".parse().unwrap();
        too_large_warning(MemoryBounds { counters: memory_max.parse().unwrap(), connections }, &root.0)
    }

    #[test]
    fn warns_above_machine_memory() {
        let root = Root::with("machine", &[MEMINFO]);
        assert_eq!(warning(&root, "3840MiB"), None);
        let warning_text = warning(&root, "3841MiB").unwrap();
        for text in ["memory_max is 3841MiB and connections_memory_max is 256MiB", "the machine has 4GiB"] {
            assert!(warning_text.contains(text), "{warning_text}");
        }
    }

    #[test]
    fn warns_above_a_parent_cgroup_limit() {
        let groups = [
            MEMINFO,
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/memory.max", "1073741824\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
        ];
        let root = Root::with("group", &groups);
        assert_eq!(warning(&root, "768MiB"), None);
        let warning_text = warning(&root, "2GiB").unwrap();
        assert!(warning_text.contains("the cgroup of the process may use 1GiB"), "{warning_text}");
    }

    #[test]
    fn cgroup_path_of_the_host_in_a_container() {
        let older = [
            MEMINFO,
            ("proc/self/cgroup", "4:cpu,cpuacct:/docker/x\n9:memory:/docker/x\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n"),
        ];
        let root = Root::with("older", &older);
        assert!(warning(&root, "1GiB").unwrap().contains("may use 512MiB"));
        let newer =
            [MEMINFO, ("proc/self/cgroup", "0::/../x\n"), ("sys/fs/cgroup/memory.max", "536870912\n")];
        assert!(warning(&Root::with("newer", &newer), "1GiB").unwrap().contains("may use 512MiB"));
    }

    #[test]
    fn silent_without_proc_and_cgroups() {
        let odd = [("proc/meminfo", "MemTotal: many kB\n"), ("proc/self/cgroup", "0\n:\n\n::\n")];
        for files in [&[] as &[_], &odd] {
            assert_eq!(warning(&Root::with("nothing", files), "1000TiB"), None);
        }
    }
}
