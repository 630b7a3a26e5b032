//! What a decision costs, and a key: Tidegate beside its peers, in one run.
//!
//! ```text
//! workload      which keys come, in which order      terms        which limit they are under
//! contenders/   who decides                          race         takes turns, takes times
//! speed, denial, ledgers, rss, clocks                the tables
//! goals                                              which of them are good enough
//! ```

mod clocks;
mod contenders;
mod cores;
mod denial;
mod goals;
mod ledgers;
mod pace;
mod race;
mod rss;
mod speed;
mod terms;
mod workload;

pub(crate) use cores::waited_ns;
pub(crate) use race::{least, median};
pub use rss::{KEYS_MAX as RSS_KEYS, run as run_rss, run_child as run_rss_child};

use goals::Goals;
use pace::Pace;

use crate::stopwatch::WallTime;

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Decisions that admit, by workload and number of threads.
    Speed,
    /// Decisions that deny.
    Denial,
    /// `sub_windows` and `sliding_log` by size.
    Ledgers,
    /// Memory per key.
    Rss,
    /// What it costs to ask what time it is.
    Clocks,
}

impl Section {
    const ALL: [(&'static str, Self); 5] = [
        ("speed", Self::Speed),
        ("denial", Self::Denial),
        ("ledgers", Self::Ledgers),
        ("clocks", Self::Clocks),
        ("rss", Self::Rss),
    ];

    /// The section of that name.
    pub fn parse(name: &str) -> Result<Self, String> {
        let known = Self::ALL.iter().find(|(known, _)| *known == name);
        known.map(|(_, section)| *section).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|(name, _)| *name).collect();
            format!("there is no section `{name}` (hint: one of {})", names.join(", "))
        })
    }
}

/// Runs the sections, all of them if none is named, and prints their tables and the goals they speak to.
pub fn run(quick: bool, sections: &[Section]) {
    let pace = if quick { Pace::QUICK } else { Pace::FULL };
    let wall = WallTime::start();
    let mut goals = Goals::default();
    print_machine();
    for (_, section) in Section::ALL {
        if !sections.is_empty() && !sections.contains(&section) {
            continue;
        }
        match section {
            Section::Speed => speed::run(&pace, &mut goals),
            Section::Denial => denial::run(&pace, &mut goals),
            Section::Ledgers => ledgers::run(&pace),
            Section::Clocks => clocks::run(&pace),
            Section::Rss => rss::run_with_goals(pace.rss_keys, &mut goals),
        }
    }
    print!("{goals}");
    eprintln!("took {:.0} s", wall.elapsed_ns() as f64 / 1e9);
}

/// What the figures depend on besides the code.
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
        println!("Built without --features peers: Tidegate and the floor alone.");
    }
    if cores < 2 {
        println!("There is one core: figures of two threads are figures of taking turns.");
    }
}
