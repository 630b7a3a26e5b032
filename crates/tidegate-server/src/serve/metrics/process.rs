//! Metrics of the process, from Linux' `/proc`. Other systems have none.

use std::fs;

use super::exposition::{Exposition, MetricType};

/// Clock ticks per second in `/proc`. The same on every platform that Tidegate is built for.
const TICKS_PER_SECOND: u64 = 100;
/// The positions of `utime`, `stime` and `starttime` in `/proc/self/stat`, counted from the process state, which
/// follows the name in parentheses.
const USER_TICKS: usize = 11;
const SYSTEM_TICKS: usize = 12;
const START_TICKS: usize = 19;

/// Writes the metrics that can be read.
pub fn write(page: &mut Exposition) {
    if let Ok(stat) = fs::read_to_string("/proc/self/stat")
        && let Some(stat) = Stat::parse(&stat)
    {
        let cpu = ticks_to_seconds(stat.user_ticks + stat.system_ticks);
        let name = "process_cpu_seconds_total";
        page.single(name, MetricType::Counter, "CPU time of the process, user and system.", cpu);
        if let Some(boot) = boot_seconds() {
            let start = ticks_to_seconds(boot * TICKS_PER_SECOND + stat.start_ticks);
            let name = "process_start_time_seconds";
            page.single(
                name,
                MetricType::Gauge,
                "When the process started, in seconds since the epoch.",
                start,
            );
        }
    }
    if let Ok(status) = fs::read_to_string("/proc/self/status") {
        let gauges = [
            ("VmRSS:", 1024, "process_resident_memory_bytes", "Resident memory of the process."),
            (
                "VmSize:",
                1024,
                "process_virtual_memory_bytes",
                "Virtual memory of the process, mostly reserved and not used.",
            ),
            ("Threads:", 1, "process_threads", "Threads of the process."),
        ];
        for (field, unit, name, help) in gauges {
            if let Some(value) = find_field(&status, field) {
                page.single(name, MetricType::Gauge, help, value * unit);
            }
        }
    }
    if let Ok(fds) = fs::read_dir("/proc/self/fd") {
        // One of them is the directory handle itself.
        let open = fds.count().saturating_sub(1);
        page.single("process_open_fds", MetricType::Gauge, "Open files and sockets.", open);
    }
    if let Ok(limits) = fs::read_to_string("/proc/self/limits")
        && let Some(max) = find_field(&limits, "Max open files")
    {
        page.single("process_max_fds", MetricType::Gauge, "Maximum of open files and sockets.", max);
    }
}

/// Resident memory of the process.
pub fn resident_bytes() -> Option<u64> {
    find_field(&fs::read_to_string("/proc/self/status").ok()?, "VmRSS:").map(|kib| kib * 1024)
}

#[derive(Debug, PartialEq, Eq)]
struct Stat {
    user_ticks: u64,
    system_ticks: u64,
    start_ticks: u64,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // The name may contain anything, even parentheses.
        let (_, fields) = text.rsplit_once(") ")?;
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        let field = |index: usize| fields.get(index)?.parse().ok();
        Some(Self {
            user_ticks: field(USER_TICKS)?,
            system_ticks: field(SYSTEM_TICKS)?,
            start_ticks: field(START_TICKS)?,
        })
    }
}

/// The boot time of the machine, in seconds since the epoch.
fn boot_seconds() -> Option<u64> {
    find_field(&fs::read_to_string("/proc/stat").ok()?, "btime")
}

/// The number after a field name at the start of a line.
fn find_field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

fn ticks_to_seconds(ticks: u64) -> String {
    format!("{}.{:02}", ticks / TICKS_PER_SECOND, ticks % TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let stat = "7 (a) (b) S 1 7 7 0 -1 4194304 5 0 0 0 1234 56 0 0 20 0 4 0 9876 1 2 3";
        let expected = Stat { user_ticks: 1234, system_ticks: 56, start_ticks: 9876 };
        assert_eq!(Stat::parse(stat), Some(expected));
        assert_eq!(Stat::parse("7 (a"), None);
    }

    #[test]
    fn fields_are_found_by_their_name() {
        let status = "Name:\tx\nVmRSS:\t   120 kB\nThreads:\t3\n";
        assert_eq!((find_field(status, "VmRSS:"), find_field(status, "Threads:")), (Some(120), Some(3)));
        assert_eq!(find_field(status, "VmSize:"), None);
        assert_eq!(ticks_to_seconds(1234), "12.34");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_metrics() {
        let mut page = Exposition::default();
        write(&mut page);
        let text = page.into_text();
        for name in ["process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds"] {
            assert!(text.contains(&format!("\n{name} ")), "{text}");
        }
    }
}
