//! The cost of a decision and of a key: Tidegate and other rate limiters in one run.
//!
//! ```text
//! workload                                     keys, their order, and their limit
//! contenders/                                  the rate limiters
//! race                                         contenders take turns and are timed
//! speed, denial, usage_logs, memory, clocks    the tables
//! ```

mod clocks;
mod contenders;
mod denial;
mod memory;
mod race;
mod speed;
mod usage_logs;
mod workload;

pub(crate) use memory::run as run_rss;
pub use memory::{KEYS_MAX as RSS_KEYS, run_child as run_rss_child};

use crate::goals::{self, Goal};
use crate::measure::WallTime;
use crate::process::print_machine;

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Decisions that admit, by kind of traffic and number of threads.
    Speed,
    /// Decisions that deny.
    Denial,
    /// `sub_windows` and `sliding_log` by size.
    UsageLogs,
    /// Memory per key.
    Memory,
    /// Reading a clock.
    Clocks,
}

/// How long to measure.
struct RunLength {
    /// Turns of each contender.
    rounds: usize,
    /// The length of a turn in CPU time of one thread.
    turn_ns: u64,
    /// The most keys in the memory table.
    rss_keys: u64,
}

impl RunLength {
    const FULL: Self = Self { rounds: 11, turn_ns: 40_000_000, rss_keys: RSS_KEYS };
    const QUICK: Self = Self { rounds: 5, turn_ns: 10_000_000, rss_keys: 1_000_000 };
}

impl Section {
    const ALL: [(&'static str, Self); 5] = [
        ("speed", Self::Speed),
        ("denial", Self::Denial),
        ("ledgers", Self::UsageLogs),
        ("clocks", Self::Clocks),
        ("rss", Self::Memory),
    ];

    /// Finds a section by name.
    pub fn parse(name: &str) -> Result<Self, String> {
        let known = Self::ALL.iter().find(|(known, _)| *known == name);
        known.map(|(_, section)| *section).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|(name, _)| *name).collect();
            format!("there is no section `{name}` (hint: one of {})", names.join(", "))
        })
    }
}

/// Runs the named sections, or all, and prints their tables and goals.
pub fn run(quick: bool, sections: &[Section]) {
    let length = if quick { RunLength::QUICK } else { RunLength::FULL };
    let wall = WallTime::start();
    let mut goals: Vec<Goal> = Vec::new();
    print_machine();
    for (_, section) in Section::ALL {
        if !sections.is_empty() && !sections.contains(&section) {
            continue;
        }
        match section {
            Section::Speed => goals.extend(speed::run(&length)),
            Section::Denial => goals.extend(denial::run(&length)),
            Section::UsageLogs => usage_logs::run(&length),
            Section::Clocks => clocks::run(&length),
            Section::Memory => goals.extend(memory::run(length.rss_keys)),
        }
    }
    goals::print(&goals);
    eprintln!("took {:.0} s", wall.elapsed_ns() as f64 / 1e9);
}
