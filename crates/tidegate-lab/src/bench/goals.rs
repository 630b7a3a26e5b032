//! What would be good enough, and whether it was reached. Nothing fails: a figure is worth knowing also when it
//! is a bad one.

use std::fmt;

use super::contenders::{FLOOR, GOVERNOR, PACKED};
use super::race::{Figures, Threads, not_together};
use super::workload::Traffic;
use crate::table::Table;

/// Times the floor, at a thousand keys on one thread.
const OF_FLOOR_MAX: f64 = 1.3;
/// Times governor's speed on one thread, where everything is in the cache and where it is not.
const OF_GOVERNOR_MIN_CACHED: f64 = 2.0;
const OF_GOVERNOR_MIN_UNCACHED: f64 = 4.0;
/// Times governor's speed on two threads, and on denials.
const OF_GOVERNOR_MIN_SHARED: f64 = 1.0;
/// Resident bytes per key of Tidegate at ten million keys.
const KEY_BYTES_MAX: f64 = 40.0;

/// What was measured together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Course {
    pub traffic: Traffic,
    pub threads: Threads,
}

/// What was measured, as far as a goal speaks of it.
#[derive(Default)]
pub(super) struct Goals {
    courses: Vec<(Course, Vec<Figures>)>,
    denials: Vec<(Threads, Vec<Figures>)>,
    key_bytes: Option<(u64, f64)>,
}

/// One goal and what became of it.
struct Goal {
    what: String,
    measured: f64,
    wanted: Wanted,
    /// Whether the figure means what the goal says.
    is_sound: bool,
}

enum Wanted {
    AtMost(f64),
    AtLeast(f64),
}

impl Goals {
    pub(super) fn add(&mut self, course: Course, figures: Vec<Figures>) {
        self.courses.push((course, figures));
    }

    pub(super) fn add_denials(&mut self, threads: Threads, figures: Vec<Figures>) {
        self.denials.push((threads, figures));
    }

    pub(super) fn add_key_bytes(&mut self, keys: u64, bytes: f64) {
        self.key_bytes = Some((keys, bytes));
    }

    fn goals(&self) -> Vec<Goal> {
        let mut goals = Vec::new();
        for algorithm in PACKED {
            for (course, figures) in &self.courses {
                goals.extend(goals_of(algorithm.as_str(), *course, figures));
            }
            for (threads, figures) in &self.denials {
                if let Some(measured) = faster_than_governor(figures, algorithm.as_str()) {
                    let what = format!("{algorithm}, denials, {}: times governor's speed", threads.name());
                    let wanted = Wanted::AtLeast(OF_GOVERNOR_MIN_SHARED);
                    let is_sound = not_together(figures).is_none();
                    goals.push(Goal { what, measured, wanted, is_sound });
                }
            }
        }
        if let Some((keys, measured)) = self.key_bytes {
            let what = format!("resident bytes per live key at {keys} keys");
            goals.push(Goal { what, measured, wanted: Wanted::AtMost(KEY_BYTES_MAX), is_sound: true });
        }
        goals
    }
}

fn goals_of(algorithm: &str, Course { traffic, threads }: Course, figures: &[Figures]) -> Vec<Goal> {
    let what = |than: &str| format!("{algorithm}, {}, {}: {than}", traffic.name(), threads.name());
    let is_sound = not_together(figures).is_none();
    let mut goals = Vec::new();
    if (traffic, threads) == (Traffic::Thousand, Threads::One)
        && let (Some(own), Some(floor)) = (median_of(figures, algorithm), median_of(figures, FLOOR))
    {
        let wanted = Wanted::AtMost(OF_FLOOR_MAX);
        goals.push(Goal { what: what("times the floor"), measured: own / floor, wanted, is_sound });
    }
    if let Some(measured) = faster_than_governor(figures, algorithm) {
        let wanted = Wanted::AtLeast(match (threads, traffic) {
            (Threads::Two, _) => OF_GOVERNOR_MIN_SHARED,
            (Threads::One, Traffic::HotKey | Traffic::Thousand) => OF_GOVERNOR_MIN_CACHED,
            (Threads::One, Traffic::Million | Traffic::MillionZipf) => OF_GOVERNOR_MIN_UNCACHED,
        });
        goals.push(Goal { what: what("times governor's speed"), measured, wanted, is_sound });
    }
    goals
}

fn median_of(figures: &[Figures], name: &str) -> Option<f64> {
    figures.iter().find(|one| one.name == name).map(|one| one.ns_median)
}

fn faster_than_governor(figures: &[Figures], name: &str) -> Option<f64> {
    Some(median_of(figures, GOVERNOR)? / median_of(figures, name)?)
}

impl Goal {
    fn verdict(&self) -> &'static str {
        let is_met = match self.wanted {
            Wanted::AtMost(most) => self.measured <= most,
            Wanted::AtLeast(least) => self.measured >= least,
        };
        match (self.is_sound, is_met) {
            (false, _) => "unsure",
            (true, true) => "met",
            (true, false) => "missed",
        }
    }
}

impl fmt::Display for Goals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let goals = self.goals();
        if goals.is_empty() {
            return Ok(());
        }
        let count = |verdict: &str| goals.iter().filter(|goal| goal.verdict() == verdict).count();
        let [met, missed, unsure] = ["met", "missed", "unsure"].map(count);
        let title = format!("goals, by medians: {met} met, {missed} missed, {unsure} unsure");
        let mut table = Table::new(title, ["", "wanted", "measured", "verdict"]);
        for goal in &goals {
            let wanted = match goal.wanted {
                Wanted::AtMost(most) => format!("<= {most:.1}"),
                Wanted::AtLeast(least) => format!(">= {least:.1}"),
            };
            let measured = format!("{:.2}", goal.measured);
            table.row([goal.what.clone(), wanted, measured, goal.verdict().to_owned()]);
        }
        if unsure > 0 {
            table.note("unsure: two threads that did not run together; repeat when nothing else runs.");
        }
        table.fmt(f)
    }
}
