//! Taking turns and taking times.
//!
//! Every round gives every contender one turn, each round begins with another one, and what counts is the
//! median over the rounds. So a neighbour on the machine slows all of them or is an outlier.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::contenders::{Contender, Lap};
use super::cores;
use super::pace::Pace;
use crate::stopwatch::{ThreadTime, WallTime};

/// Decisions in the first turn, which only tells how long the others should be.
const TRIAL_DECISIONS: u64 = 2_000;
const TURN_DECISIONS_MIN: u64 = 1_000;
/// Keeps all turns of a contender together below the burst that everything is admitted by.
const TURN_DECISIONS_MAX: u64 = 4_000_000;
/// Two threads ran together if they waited for a core for no more than this part of their time.
const WAITED_SHARE_MAX: f64 = 0.1;
/// Figures of fewer turns than this say nothing.
const TURNS_MIN: usize = 3;

/// How many threads decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Threads {
    One,
    Two,
}

/// What a contender took.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    pub name: String,
    /// Processor time per decision: the least and the median of all turns that count.
    pub ns_min: f64,
    pub ns_median: f64,
    /// Decisions of all threads per second of wall time, median.
    pub per_second: f64,
    /// Whether there were enough turns in which all threads ran together; if not, all turns count.
    pub is_sound: bool,
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
    /// Time in which a thread waited for a core, of both.
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

/// Lets the contenders take turns on the walk. They know its keys already.
pub(super) fn race(
    contenders: &mut [Box<dyn Contender>],
    walk: &[String],
    threads: Threads,
    pace: &Pace,
) -> Vec<Figures> {
    let decisions: Vec<u64> = contenders
        .iter_mut()
        .map(|contender| {
            let trial = turn(contender.as_mut(), walk, threads, TRIAL_DECISIONS);
            // The trial's caches are cold, so a second one tells better.
            let second = turn(contender.as_mut(), walk, threads, fitting(&trial, pace.turn_ns / 8));
            fitting(&second, pace.turn_ns)
        })
        .collect();
    let mut turns: Vec<Vec<Turn>> = vec![Vec::new(); contenders.len()];
    for round in 0..pace.rounds {
        for step in 0..contenders.len() {
            let at = (round + step) % contenders.len();
            turns[at].push(turn(contenders[at].as_mut(), walk, threads, decisions[at]));
        }
    }
    contenders.iter().zip(&turns).map(|(contender, turns)| figures(contender.name(), turns)).collect()
}

/// The middle of some figures.
pub(crate) fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = figures.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The least of some figures.
pub(crate) fn least(figures: impl IntoIterator<Item = f64>) -> f64 {
    figures.into_iter().fold(f64::INFINITY, f64::min)
}

/// What to say if two threads took turns instead of running together, because the machine was busy.
pub(super) fn not_together(figures: &[Figures]) -> Option<String> {
    let apart: Vec<&str> = figures.iter().filter(|one| !one.is_sound).map(|one| one.name.as_str()).collect();
    let names = apart.join(", ");
    (!apart.is_empty()).then(|| format!("Other work ran: the two threads rarely ran together for {names}."))
}

fn figures(name: &str, turns: &[Turn]) -> Figures {
    let together: Vec<Turn> = turns.iter().copied().filter(Turn::is_together).collect();
    let is_sound = together.len() >= TURNS_MIN.min(turns.len());
    let counted = if is_sound { together.as_slice() } else { turns };
    let ns = || counted.iter().map(|turn| turn.cpu_ns as f64 / turn.decisions as f64);
    Figures {
        name: name.to_owned(),
        ns_min: least(ns()),
        ns_median: median(ns()),
        per_second: median(counted.iter().map(|turn| turn.decisions as f64 * 1e9 / turn.wall_ns as f64)),
        is_sound,
        decisions: turns.iter().map(|turn| turn.decisions).sum(),
        admitted: turns.iter().map(|turn| turn.admitted).sum(),
    }
}

impl Turn {
    fn is_together(&self) -> bool {
        self.waited_ns as f64 <= self.wall_ns as f64 * WAITED_SHARE_MAX
    }
}

/// How many decisions fit into `turn_ns` of each thread.
fn fitting(trial: &Turn, turn_ns: u64) -> u64 {
    let decisions = trial.decisions.saturating_mul(turn_ns) / trial.cpu_ns.max(1);
    decisions.clamp(TURN_DECISIONS_MIN, TURN_DECISIONS_MAX)
}

/// One turn, of `decisions` in each thread.
fn turn(contender: &mut dyn Contender, walk: &[String], threads: Threads, decisions: u64) -> Turn {
    let lap = Lap { walk, first: 0, decisions };
    match threads {
        Threads::One => {
            let (wall, cpu) = (WallTime::start(), ThreadTime::start());
            let admitted = contender.lap_alone(lap);
            // Alone, it does not matter when it ran.
            let waited_ns = 0;
            Turn { decisions, admitted, cpu_ns: cpu.elapsed_ns(), wall_ns: wall.elapsed_ns(), waited_ns }
        }
        Threads::Two => turn_of_two(contender, [lap, Lap { first: walk.len() / 2, ..lap }]),
    }
}

fn turn_of_two(contender: &dyn Contender, laps: [Lap<'_>; 2]) -> Turn {
    let ready = AtomicUsize::new(0);
    let run = |thread: usize, lap: Lap<'_>| {
        cores::pin_to(thread);
        ready.fetch_add(1, Ordering::AcqRel);
        // Not a barrier that sleeps: the other would be through a good part of a lap before this one woke up.
        while ready.load(Ordering::Acquire) < laps.len() {
            std::hint::spin_loop();
        }
        let waited_before_ns = cores::waited_ns();
        let (wall, cpu) = (WallTime::start(), ThreadTime::start());
        let admitted = contender.lap_shared(lap);
        let (cpu_ns, wall_ns) = (cpu.elapsed_ns(), wall.elapsed_ns());
        let waited_ns = cores::waited_ns().saturating_sub(waited_before_ns);
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
