//! The memory of this process, and the machine it runs on.

/// Resident memory of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resident {
    /// Bytes resident now (`VmRSS`).
    pub now_bytes: u64,
    /// The most bytes so far (`VmHWM`).
    pub peak_bytes: u64,
}

/// The resident memory of this process; `None` without `/proc`.
pub fn resident() -> Option<Resident> {
    resident_of(std::process::id())
}

/// The resident memory of a process; `None` if it has ended, or without `/proc`.
pub(crate) fn resident_of(pid: u32) -> Option<Resident> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some(Resident { now_bytes: field(&status, "VmRSS:")?, peak_bytes: field(&status, "VmHWM:")? })
}

/// Reads a line like `VmRSS:      1234 kB`.
fn field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Who made the processor, as far as goals differ by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CpuVendor {
    Amd,
    /// Intel, or unknown.
    Other,
}

pub(crate) fn cpu_vendor() -> CpuVendor {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let is_amd = cpuinfo.lines().any(|line| line.starts_with("vendor_id") && line.ends_with("AuthenticAMD"));
    if is_amd { CpuVendor::Amd } else { CpuVendor::Other }
}

/// Prints what the figures depend on besides the code.
pub(crate) fn print_machine() {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": unknown");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let huge_pages = read("/sys/kernel/mm/transparent_hugepage/enabled");
    println!("processor{model}, {cores} cores, transparent huge pages {}", huge_pages.trim());
    if cfg!(debug_assertions) {
        println!("This is a debug build: these figures mean nothing. Build with --release.");
    }
    if !cfg!(feature = "peers") {
        println!("Built without --features peers: only Tidegate and the floor.");
    }
    if cores < 2 {
        println!("There is only one core, so two threads take turns.");
    }
}

/// How busy the machine is.
pub(crate) fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!("load average {}", text.split(' ').take(3).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::field;

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(field(status, "VmRSS:"), Some(1 << 20));
        assert_eq!(field(status, "VmHWM:"), Some(2 << 20));
        assert_eq!(field(status, "VmSwap:"), None);
    }
}
