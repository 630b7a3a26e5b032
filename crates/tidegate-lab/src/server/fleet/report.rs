//! The table, and what was wanted.

use std::fmt;

use super::contender::{
    CONCURRENCY, Contender, FIXED_WINDOW, GCRA, GCRA_DENIED, GCRA_HOT, GCRA_WITH_REMAINDER, LEAKY_BUCKET,
    LIMITADOR, PLAIN, PLAIN_DENIED, PLAIN_HOT, SLIDING_LOG, SLIDING_WINDOW, SUB_WINDOWS, TOKEN_BUCKET,
};
use super::racing::Turn;
use crate::bench::median;
use crate::table::Table;

/// What was measured.
#[derive(Default)]
pub(super) struct Report {
    entries: Vec<Entry>,
}

struct Entry {
    name: &'static str,
    turns: Vec<Turn>,
    failed: Option<String>,
}

/// Medians over the turns of one contender.
#[derive(Clone, Copy)]
struct Figures {
    own_s: Option<f64>,
    redis_s: f64,
    redis_least_s: f64,
    redis_most_s: f64,
    per_second: f64,
}

/// What is wanted of the processor time of one beside another.
struct Goal {
    what: &'static str,
    ours: &'static str,
    other: &'static str,
    counted: Counted,
    /// Ours is at most this part of theirs.
    at_most: f64,
}

/// Whose processor time.
#[derive(Clone, Copy)]
enum Counted {
    Redis,
    Both,
}

const GOALS: [Goal; 13] = {
    const fn spread(ours: &'static str) -> Goal {
        let what = "Redis CPU, distinct keys: at most 0.6 x the plain script";
        Goal { what, ours, other: PLAIN, counted: Counted::Redis, at_most: 0.6 }
    }
    const fn beside_limitador(ours: &'static str) -> Goal {
        let what = "both CPUs, distinct keys: a fifth of limitador at most";
        Goal { what, ours, other: LIMITADOR, counted: Counted::Both, at_most: 0.2 }
    }
    [
        spread(GCRA),
        spread(GCRA_WITH_REMAINDER),
        spread(TOKEN_BUCKET),
        spread(LEAKY_BUCKET),
        spread(FIXED_WINDOW),
        spread(SLIDING_WINDOW),
        spread(SUB_WINDOWS),
        spread(SLIDING_LOG),
        spread(CONCURRENCY),
        Goal {
            what: "Redis CPU, hot key: at most a fifth of the plain script",
            ours: GCRA_HOT,
            other: PLAIN_HOT,
            counted: Counted::Redis,
            at_most: 0.2,
        },
        Goal {
            what: "Redis CPU, hot denied key: at most a twentieth of the plain script",
            ours: GCRA_DENIED,
            other: PLAIN_DENIED,
            counted: Counted::Redis,
            at_most: 0.05,
        },
        beside_limitador(GCRA),
        beside_limitador(FIXED_WINDOW),
    ]
};

impl Report {
    pub(super) fn took(&mut self, contender: &Contender, turn: Turn) {
        self.entry(contender).turns.push(turn);
    }

    pub(super) fn failed(&mut self, contender: &Contender, why: String) {
        self.entry(contender).failed = Some(why);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.iter().all(|entry| entry.turns.is_empty())
    }

    fn entry(&mut self, contender: &Contender) -> &mut Entry {
        let at = self.entries.iter().position(|entry| entry.name == contender.name).unwrap_or_else(|| {
            self.entries.push(Entry { name: contender.name, turns: Vec::new(), failed: None });
            self.entries.len() - 1
        });
        &mut self.entries[at]
    }

    fn figures(&self, name: &str) -> Option<Figures> {
        self.entries.iter().find(|entry| entry.name == name)?.figures()
    }

    fn table(&self) -> Table {
        let heading = [
            "",
            "Redis CPU us",
            "least-most",
            "x plain",
            "own CPU us",
            "both us",
            "decisions per CPU s",
            "per s",
        ];
        let mut table = Table::new("CPU time per decision, median of the turns", heading);
        let plain_s = self.figures(PLAIN).map(|figures| figures.redis_s);
        let mut names: Vec<&Entry> = self.entries.iter().collect();
        names.sort_by_key(|entry| Contender::all().position(|contender| contender.name == entry.name));
        for entry in names {
            match entry.figures() {
                Some(figures) => table.row(figures.row(entry.name, plain_s)),
                None => table.row([entry.name.to_owned(), "failed".to_owned()]),
            }
            if let Some(why) = &entry.failed {
                table.note(format!("{} failed: {why}", entry.name));
            }
        }
        table
    }

    fn goals(&self) -> Table {
        let mut table = Table::new("goals", ["", "wanted", "measured", ""]);
        for goal in &GOALS {
            let counted = |figures: Figures| match goal.counted {
                Counted::Redis => figures.redis_s,
                Counted::Both => figures.both_s(),
            };
            let ratio = self.figures(goal.ours).zip(self.figures(goal.other));
            let ratio = ratio.map(|(ours, theirs)| counted(ours) / counted(theirs));
            table.row([
                format!("{}: {}", goal.ours, goal.what),
                format!("{:.2}", goal.at_most),
                ratio.map_or("not measured".to_owned(), |ratio| format!("{ratio:.2}")),
                ratio.map_or("", |ratio| if ratio <= goal.at_most { "met" } else { "missed" }).to_owned(),
            ]);
        }
        table
    }
}

impl Entry {
    fn figures(&self) -> Option<Figures> {
        if self.turns.is_empty() || self.failed.is_some() {
            return None;
        }
        let own: Vec<f64> = self.turns.iter().filter_map(|turn| turn.own_s).collect();
        let redis = || self.turns.iter().map(|turn| turn.redis_s);
        Some(Figures {
            own_s: (!own.is_empty()).then(|| median(own)),
            redis_s: median(redis()),
            redis_least_s: redis().fold(f64::INFINITY, f64::min),
            redis_most_s: redis().fold(0.0, f64::max),
            per_second: median(self.turns.iter().map(|turn| turn.per_second)),
        })
    }
}

impl Figures {
    fn both_s(self) -> f64 {
        self.redis_s + self.own_s.unwrap_or(0.0)
    }

    /// Seconds per million are microseconds each.
    fn row(self, name: &str, plain_s: Option<f64>) -> [String; 8] {
        [
            name.to_owned(),
            format!("{:.2}", self.redis_s),
            format!("{:.2}-{:.2}", self.redis_least_s, self.redis_most_s),
            plain_s.map(|plain_s| format!("{:.2}", self.redis_s / plain_s)).unwrap_or_default(),
            self.own_s.map(|own_s| format!("{own_s:.2}")).unwrap_or_default(),
            format!("{:.2}", self.both_s()),
            format!("{:.0}", 1e6 / self.both_s()),
            format!("{:.0}", self.per_second),
        ]
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.table(), self.goals())
    }
}
