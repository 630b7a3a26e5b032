//! The memory of this process, as the operating system sees it.

/// Resident memory now and at its highest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resident {
    /// Bytes resident now (`VmRSS`).
    pub now_bytes: u64,
    /// The most bytes that ever were (`VmHWM`).
    pub peak_bytes: u64,
}

/// What this process has in memory; none where there is no `/proc`.
pub fn resident() -> Option<Resident> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    Some(Resident { now_bytes: field(&status, "VmRSS:")?, peak_bytes: field(&status, "VmHWM:")? })
}

/// A line like `VmRSS:      1234 kB`.
fn field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
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
