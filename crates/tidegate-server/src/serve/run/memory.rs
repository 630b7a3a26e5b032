//! How much memory there is, as Linux tells it; elsewhere nothing is known, and nothing said.

use std::fs;
use std::path::Path;

use crate::size::ByteSize;

/// Where the system tells of itself.
const ROOT: &str = "/";
/// Where control groups are.
const CGROUPS: &str = "sys/fs/cgroup";

/// What bounds the memory of this process.
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

/// Warns if counters may take more than there is.
pub fn warn_if_too_large(memory_max: ByteSize) {
    if let Some(warning) = too_large_warning(memory_max, Path::new(ROOT)) {
        tracing::warn!("{warning}");
    }
}

fn too_large_warning(memory_max: ByteSize, root: &Path) -> Option<String> {
    let MemoryLimit { bytes, source: by } = smallest_limit(root).filter(|bound| bound.bytes < memory_max.bytes())?;
    let there_is = match by {
        MemoryLimitSource::Machine => "the machine has",
        MemoryLimitSource::Cgroup => "the control group that it runs in may take",
    };
    let mebibytes = ByteSize::from_bytes(bytes >> 20 << 20);
    Some(format!(
        "memory_max is {memory_max}, and {there_is} {mebibytes}: with as many keys as that is room for, the process would \
         be ended by the system (hint: set memory_max to at most three quarters of what there is)"
    ))
}

/// The least of what the machine has and what control groups let the process have.
fn smallest_limit(root: &Path) -> Option<MemoryLimit> {
    let machine = machine_bytes(root).map(|bytes| MemoryLimit { bytes, source: MemoryLimitSource::Machine });
    let group = cgroup_bytes(root).map(|bytes| MemoryLimit { bytes, source: MemoryLimitSource::Cgroup });
    [machine, group].into_iter().flatten().min_by_key(|bound| bound.bytes)
}

fn machine_bytes(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kibibytes.checked_mul(1 << 10)
}

/// The least bound of the groups that the process is in: its own, and those around it.
fn cgroup_bytes(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    // `0::/path`, or `9:memory:/path` by the older version.
    let of = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let (directory, file) = match controllers {
            "" => (root.join(CGROUPS), "memory.max"),
            _ if controllers.split(',').any(|one| one == "memory") => {
                (root.join(CGROUPS).join("memory"), "memory.limit_in_bytes")
            }
            _ => return None,
        };
        // In a container the path may be one of the machine outside, of which only the end is there.
        let own = directory.join(path.trim_start_matches('/'));
        let around = own.ancestors().take_while(|around| around.starts_with(&directory));
        around.filter_map(|group| fs::read_to_string(group.join(file)).ok()?.trim().parse().ok()).min()
    };
    text.lines().filter_map(of).min()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// A directory with these files, gone when it is dropped.
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

    fn warning(root: &Root, memory_max: &str) -> Option<String> {
        too_large_warning(memory_max.parse().unwrap(), &root.0)
    }

    #[test]
    fn warns_above_machine_memory() {
        let root = Root::with("machine", &[MEMINFO]);
        assert_eq!(warning(&root, "4GiB"), None);
        let said = warning(&root, "5GiB").unwrap();
        assert!(said.contains("memory_max is 5GiB, and the machine has 4GiB"), "{said}");
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
        assert_eq!(warning(&root, "1GiB"), None);
        let said = warning(&root, "2GiB").unwrap();
        assert!(said.contains("the control group that it runs in may take 1GiB"), "{said}");
    }

    #[test]
    fn cgroup_path_of_the_host_in_a_container() {
        let older = [
            MEMINFO,
            ("proc/self/cgroup", "4:cpu,cpuacct:/docker/x\n9:memory:/docker/x\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n"),
        ];
        let root = Root::with("older", &older);
        assert!(warning(&root, "1GiB").unwrap().contains("may take 512MiB"));
        let newer =
            [MEMINFO, ("proc/self/cgroup", "0::/../x\n"), ("sys/fs/cgroup/memory.max", "536870912\n")];
        assert!(warning(&Root::with("newer", &newer), "1GiB").unwrap().contains("may take 512MiB"));
    }

    #[test]
    fn silent_without_proc_and_cgroups() {
        let odd = [("proc/meminfo", "MemTotal: many kB\n"), ("proc/self/cgroup", "0\n:\n\n::\n")];
        for files in [&[] as &[_], &odd] {
            assert_eq!(warning(&Root::with("nothing", files), "1000TiB"), None);
        }
    }
}
