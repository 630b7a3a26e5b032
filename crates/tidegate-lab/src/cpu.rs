//! CPU time of another process.

use std::ops::{Add, Sub};

use rustix::param::clock_ticks_per_second;

/// CPU time of all threads of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cpu {
    /// In its own code.
    pub user_s: f64,
    /// In the kernel on its behalf.
    pub system_s: f64,
}

impl Cpu {
    /// The CPU time of a process until now; `None` if it has ended or there is no `/proc`.
    ///
    /// The kernel tells user and system time in ticks of 10 ms, which is 3 % of a turn of a third of a second. The
    /// time of each thread is known to the nanosecond, so their sum is used for the total.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let ticks_per_second = clock_ticks_per_second() as f64;
        let in_ticks = Self::from_stat(&stat, ticks_per_second)?;
        Some(in_ticks.with_exact_total(threads_s(pid), 1.0 / ticks_per_second))
    }

    /// The same shares of user and system time of a total that is known better. Not if threads have ended, which the exact
    /// total lacks.
    fn with_exact_total(self, exact_s: Option<f64>, tick_s: f64) -> Self {
        let total_s = self.total_s();
        match exact_s.filter(|exact_s| total_s > 0.0 && exact_s + 2.0 * tick_s > total_s) {
            Some(exact_s) => {
                let factor = exact_s / total_s;
                Self { user_s: self.user_s * factor, system_s: self.system_s * factor }
            }
            None => self,
        }
    }

    pub(crate) fn total_s(self) -> f64 {
        self.user_s + self.system_s
    }

    /// Seconds per million requests.
    pub(crate) fn per_million(self, requests: u64) -> Self {
        let millions = requests as f64 / 1e6;
        Self { user_s: self.user_s / millions, system_s: self.system_s / millions }
    }

    /// Reads `utime` and `stime`, the 14th and 15th field. The second field is the program's name in brackets, which
    /// may contain brackets and spaces.
    fn from_stat(stat: &str, ticks_per_second: f64) -> Option<Self> {
        let (_, after_name) = stat.rsplit_once(')')?;
        let mut fields = after_name.split_ascii_whitespace().skip(11);
        let mut seconds = || Some(fields.next()?.parse::<f64>().ok()? / ticks_per_second);
        Some(Self { user_s: seconds()?, system_s: seconds()? })
    }
}

/// The CPU time of the threads that a process has now. None without the kernel's scheduler statistics.
fn threads_s(pid: u32) -> Option<f64> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let time_ns = |thread: std::io::Result<std::fs::DirEntry>| {
        let schedstat = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        schedstat.split_ascii_whitespace().next()?.parse::<u64>().ok()
    };
    Some(threads.filter_map(time_ns).sum::<u64>() as f64 / 1e9)
}

impl Sub for Cpu {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self { user_s: self.user_s - earlier.user_s, system_s: self.system_s - earlier.system_s }
    }
}

impl Add for Cpu {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { user_s: self.user_s + other.user_s, system_s: self.system_s + other.system_s }
    }
}

impl std::iter::Sum for Cpu {
    fn sum<I: Iterator<Item = Self>>(cpus: I) -> Self {
        cpus.fold(Self::default(), Self::add)
    }
}

#[cfg(test)]
mod tests {
    use super::Cpu;

    #[test]
    fn user_and_system_time_are_read_whatever_the_name_of_the_program() {
        let stat = "42 (a) b (c)) S 1 42 42 0 -1 4194560 100 0 0 0 250 125 0 0 20 0 3 0 9 1 2";
        let cpu = Cpu::from_stat(stat, 100.0).unwrap();
        assert_eq!(cpu, Cpu { user_s: 2.5, system_s: 1.25 });
        let each = cpu.per_million(500_000);
        assert_eq!((each.user_s, each.system_s), (5.0, 2.5));
        assert_eq!(Cpu::from_stat("42 (x) S 1 2 3", 100.0), None);
    }

    #[test]
    fn a_total_that_is_known_better_replaces_the_ticks_unless_threads_have_ended() {
        let in_ticks = Cpu { user_s: 0.30, system_s: 0.10 };
        let exact = in_ticks.with_exact_total(Some(0.408), 0.01);
        assert!((exact.user_s - 0.306).abs() < 1e-9 && (exact.system_s - 0.102).abs() < 1e-9, "{exact:?}");
        assert_eq!(in_ticks.with_exact_total(Some(0.2), 0.01), in_ticks);
        assert_eq!(in_ticks.with_exact_total(None, 0.01), in_ticks);
    }

    #[test]
    fn this_process_has_a_cpu_time() {
        assert!(Cpu::of(std::process::id()).is_some());
        assert_eq!(Cpu::of(u32::MAX), None);
    }
}
