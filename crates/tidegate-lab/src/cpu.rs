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
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Self::from_stat(&stat, clock_ticks_per_second() as f64)
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
    fn this_process_has_a_cpu_time() {
        assert!(Cpu::of(std::process::id()).is_some());
        assert_eq!(Cpu::of(u32::MAX), None);
    }
}
