//! Contenders take turns and are timed.
//!
//! In every round each contender has one turn, and each round starts with another contender. The result is the median
//! of the rounds. So other work on the machine slows all contenders or makes an outlier.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::RunLength;
use super::contenders::{Contender, Lap};
use crate::measure::{ThreadTime, WallTime, least, median, waited_ns};

/// Decisions in the first turn, which only estimates how many fit a turn.
const TRIAL_DECISIONS: u64 = 2_000;
const TURN_DECISIONS_MIN: u64 = 1_000;
/// Keeps the decisions of all turns below the burst that admits them.
const TURN_DECISIONS_MAX: u64 = 4_000_000;
/// Two threads ran in parallel if they waited for a core for at most this share of the time.
const WAITED_SHARE_MAX: f64 = 0.1;
/// Fewer parallel turns than this are not enough for a figure.
const TURNS_MIN: usize = 3;

/// How many threads decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Threads {
    One,
    Two,
}

/// The times of a contender.
#[derive(Clone, Debug)]
pub(super) struct Timings {
    pub name: String,
    /// CPU time per decision: the minimum and the median of the turns.
    pub ns_min: f64,
    pub ns_median: f64,
    /// Decisions of all threads per second of wall time: the median.
    pub per_second: f64,
    /// Whether the threads ran in parallel in enough turns. The figures are of those turns, or else of all.
    pub is_parallel: bool,
    pub decisions: u64,
    pub admitted: u64,
}

/// One turn.
#[derive(Clone, Copy)]
struct Turn {
    decisions: u64,
    admitted: u64,
    cpu_ns: u64,
    wall_ns: u64,
    /// How long the threads waited for a core, in total.
    waited_ns: u64,
}

impl Threads {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::One => "one thread",
            Self::Two => "two threads",
        }
    }
}

/// Lets the contenders take turns on these keys, which they have seen before.
pub(super) fn race(
    contenders: &mut [Box<dyn Contender>],
    keys: &[String],
    threads: Threads,
    length: &RunLength,
) -> Vec<Timings> {
    let decisions: Vec<u64> = contenders
        .iter_mut()
        .map(|contender| {
            let trial = turn(contender.as_mut(), keys, threads, TRIAL_DECISIONS);
            // The caches were cold in the first trial, so measure again.
            let second = turn(contender.as_mut(), keys, threads, fitting(&trial, length.turn_ns / 8));
            fitting(&second, length.turn_ns)
        })
        .collect();
    let mut turns: Vec<Vec<Turn>> = vec![Vec::new(); contenders.len()];
    for round in 0..length.rounds {
        for step in 0..contenders.len() {
            let at = (round + step) % contenders.len();
            turns[at].push(turn(contenders[at].as_mut(), keys, threads, decisions[at]));
        }
    }
    contenders.iter().zip(&turns).map(|(contender, turns)| timings(contender.name(), turns)).collect()
}

/// A note if two threads took turns instead of running in parallel, because the machine was busy.
pub(super) fn note_not_parallel(timings: &[Timings]) -> Option<String> {
    let apart: Vec<&str> =
        timings.iter().filter(|one| !one.is_parallel).map(|one| one.name.as_str()).collect();
    let names = apart.join(", ");
    (!apart.is_empty())
        .then(|| format!("The machine was busy: the two threads rarely ran in parallel for {names}."))
}

fn timings(name: &str, turns: &[Turn]) -> Timings {
    let parallel: Vec<Turn> = turns.iter().copied().filter(Turn::is_parallel).collect();
    let is_parallel = parallel.len() >= TURNS_MIN.min(turns.len());
    let counted = if is_parallel { parallel.as_slice() } else { turns };
    let ns = || counted.iter().map(|turn| turn.cpu_ns as f64 / turn.decisions as f64);
    Timings {
        name: name.to_owned(),
        ns_min: least(ns()),
        ns_median: median(ns()),
        per_second: median(counted.iter().map(|turn| turn.decisions as f64 * 1e9 / turn.wall_ns as f64)),
        is_parallel,
        decisions: turns.iter().map(|turn| turn.decisions).sum(),
        admitted: turns.iter().map(|turn| turn.admitted).sum(),
    }
}

impl Turn {
    fn is_parallel(&self) -> bool {
        self.waited_ns as f64 <= self.wall_ns as f64 * WAITED_SHARE_MAX
    }
}

/// The number of decisions that take a thread about `turn_ns`.
fn fitting(trial: &Turn, turn_ns: u64) -> u64 {
    let decisions = trial.decisions.saturating_mul(turn_ns) / trial.cpu_ns.max(1);
    decisions.clamp(TURN_DECISIONS_MIN, TURN_DECISIONS_MAX)
}

/// One turn, with `decisions` in each thread.
fn turn(contender: &mut dyn Contender, keys: &[String], threads: Threads, decisions: u64) -> Turn {
    let lap = Lap { keys, first: 0, decisions };
    match threads {
        Threads::One => {
            let (wall, cpu) = (WallTime::start(), ThreadTime::start());
            let admitted = contender.lap_alone(lap);
            // Waiting does not change the CPU time of a single thread.
            let waited_ns = 0;
            Turn { decisions, admitted, cpu_ns: cpu.elapsed_ns(), wall_ns: wall.elapsed_ns(), waited_ns }
        }
        Threads::Two => turn_of_two(contender, [lap, Lap { first: keys.len() / 2, ..lap }]),
    }
}

fn turn_of_two(contender: &dyn Contender, laps: [Lap<'_>; 2]) -> Turn {
    let ready = AtomicUsize::new(0);
    let run = |thread: usize, lap: Lap<'_>| {
        pin_to_core(thread);
        ready.fetch_add(1, Ordering::AcqRel);
        // A barrier that sleeps would let the other thread finish much of its lap before this one wakes up.
        while ready.load(Ordering::Acquire) < laps.len() {
            std::hint::spin_loop();
        }
        let waited_before_ns = waited_ns();
        let (wall, cpu) = (WallTime::start(), ThreadTime::start());
        let admitted = contender.lap_shared(lap);
        let (cpu_ns, wall_ns) = (cpu.elapsed_ns(), wall.elapsed_ns());
        let waited_ns = waited_ns().saturating_sub(waited_before_ns);
        Turn { decisions: lap.decisions, admitted, cpu_ns, wall_ns, waited_ns }
    };
    let [here, there] = thread::scope(|scope| {
        let run = &run;
        let threads = [(0, laps[0]), (1, laps[1])].map(|(at, lap)| scope.spawn(move || run(at, lap)));
        threads.map(|thread| thread.join().expect("a contender does not panic"))
    });
    Turn {
        decisions: here.decisions + there.decisions,
        admitted: here.admitted + there.admitted,
        cpu_ns: here.cpu_ns + there.cpu_ns,
        wall_ns: here.wall_ns.max(there.wall_ns),
        waited_ns: here.waited_ns + there.waited_ns,
    }
}

/// Moves this thread to the `nth` core that the process may use, if the system can do that. Otherwise the scheduler may
/// keep both threads on one core for longer than a turn: they then take turns and look faster than they are.
#[cfg(target_os = "linux")]
fn pin_to_core(nth: usize) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    let Ok(allowed) = sched_getaffinity(None) else { return };
    if let Some(core) = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).nth(nth) {
        let mut alone = CpuSet::new();
        alone.set(core);
        // If this fails, the time waited for a core shows it.
        let _ = sched_setaffinity(None, &alone);
    }
}

#[cfg(not(target_os = "linux"))]
fn pin_to_core(_nth: usize) {}
