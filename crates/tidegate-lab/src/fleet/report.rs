//! The table and the goals.

use super::case::{
    CONCURRENCY, Case, FIXED_WINDOW, GCRA, GCRA_DENIED, GCRA_HOT, GCRA_WITH_REMAINDER, LEAKY_BUCKET,
    LIMITADOR, PLAIN, PLAIN_DENIED, PLAIN_HOT, SLIDING_LOG, SLIDING_WINDOW, SUB_WINDOWS, TOKEN_BUCKET,
};
use super::runner::RedisTurn;
use crate::goals::{self, Goal, Wanted};
use crate::measure::median;
use crate::table::Table;

/// The results of all cases.
#[derive(Default)]
pub(super) struct FleetReport {
    cases: Vec<CaseTurns>,
}

struct CaseTurns {
    name: &'static str,
    turns: Vec<RedisTurn>,
    failed: Option<String>,
}

/// Medians of the turns of one case, in seconds per million decisions.
#[derive(Clone, Copy)]
struct RedisCost {
    client_s: Option<f64>,
    redis_s: f64,
    redis_least_s: f64,
    redis_most_s: f64,
    per_second: f64,
}

/// A comparison of the CPU time of two cases.
struct FleetGoal {
    own: &'static str,
    other: &'static str,
    cpu: CountedCpu,
    /// Own CPU time / other CPU time.
    at_most: f64,
}

/// Which CPU time counts.
#[derive(Clone, Copy)]
enum CountedCpu {
    Redis,
    Both,
}

const GOALS: [FleetGoal; 13] = {
    const fn redis(own: &'static str, other: &'static str, at_most: f64) -> FleetGoal {
        FleetGoal { own, other, cpu: CountedCpu::Redis, at_most }
    }
    const fn both(own: &'static str, other: &'static str, at_most: f64) -> FleetGoal {
        FleetGoal { own, other, cpu: CountedCpu::Both, at_most }
    }
    [
        redis(GCRA, PLAIN, 0.6),
        redis(GCRA_WITH_REMAINDER, PLAIN, 0.6),
        redis(TOKEN_BUCKET, PLAIN, 0.6),
        redis(LEAKY_BUCKET, PLAIN, 0.6),
        redis(FIXED_WINDOW, PLAIN, 0.6),
        redis(SLIDING_WINDOW, PLAIN, 0.6),
        redis(SUB_WINDOWS, PLAIN, 0.6),
        redis(SLIDING_LOG, PLAIN, 0.6),
        redis(CONCURRENCY, PLAIN, 0.6),
        redis(GCRA_HOT, PLAIN_HOT, 0.2),
        redis(GCRA_DENIED, PLAIN_DENIED, 0.05),
        both(GCRA, LIMITADOR, 0.2),
        both(FIXED_WINDOW, LIMITADOR, 0.2),
    ]
};

impl FleetReport {
    pub(super) fn add(&mut self, case: &Case, turn: RedisTurn) {
        self.turns(case).turns.push(turn);
    }

    pub(super) fn failed(&mut self, case: &Case, why: String) {
        self.turns(case).failed = Some(why);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.cases.iter().all(|one| one.turns.is_empty())
    }

    fn turns(&mut self, case: &Case) -> &mut CaseTurns {
        let at = self.cases.iter().position(|one| one.name == case.name).unwrap_or_else(|| {
            self.cases.push(CaseTurns { name: case.name, turns: Vec::new(), failed: None });
            self.cases.len() - 1
        });
        &mut self.cases[at]
    }

    fn cost(&self, name: &str) -> Option<RedisCost> {
        self.cases.iter().find(|one| one.name == name)?.cost()
    }

    fn table(&self) -> Table {
        let heading = [
            "",
            "Redis CPU us",
            "least-most",
            "x plain",
            "client CPU us",
            "both us",
            "decisions per CPU s",
            "per s",
        ];
        let mut table = Table::new("CPU time per decision, median of the turns", heading);
        let plain_s = self.cost(PLAIN).map(|cost| cost.redis_s);
        let mut cases: Vec<&CaseTurns> = self.cases.iter().collect();
        cases.sort_by_key(|one| Case::all().position(|case| case.name == one.name));
        for one in cases {
            match one.cost() {
                Some(cost) => table.row(cost.row(one.name, plain_s)),
                None => table.row([one.name.to_owned(), "failed".to_owned()]),
            }
            if let Some(why) = &one.failed {
                table.note(format!("{} failed: {why}", one.name));
            }
        }
        table
    }

    pub(super) fn print(&self) {
        print!("{}", self.table());
        goals::print(&self.goals());
    }

    fn goals(&self) -> Vec<Goal> {
        let goal = |goal: &FleetGoal| {
            let (of, seconds): (_, fn(RedisCost) -> f64) = match goal.cpu {
                CountedCpu::Redis => ("Redis CPU", |cost| cost.redis_s),
                CountedCpu::Both => ("total CPU", RedisCost::both_s),
            };
            let costs = self.cost(goal.own).zip(self.cost(goal.other));
            Goal {
                what: format!("{}: times the {of} of {}", goal.own, goal.other),
                wanted: Wanted::AtMost(goal.at_most),
                measured: costs.map(|(own, other)| seconds(own) / seconds(other)),
                is_sound: true,
            }
        };
        GOALS.iter().map(goal).collect()
    }
}

impl CaseTurns {
    fn cost(&self) -> Option<RedisCost> {
        if self.turns.is_empty() || self.failed.is_some() {
            return None;
        }
        let client: Vec<f64> = self.turns.iter().filter_map(|turn| turn.client_s).collect();
        let redis = || self.turns.iter().map(|turn| turn.redis_s);
        Some(RedisCost {
            client_s: (!client.is_empty()).then(|| median(client)),
            redis_s: median(redis()),
            redis_least_s: redis().fold(f64::INFINITY, f64::min),
            redis_most_s: redis().fold(0.0, f64::max),
            per_second: median(self.turns.iter().map(|turn| turn.per_second)),
        })
    }
}

impl RedisCost {
    fn both_s(self) -> f64 {
        self.redis_s + self.client_s.unwrap_or(0.0)
    }

    /// Seconds per million decisions are microseconds per decision.
    fn row(self, name: &str, plain_s: Option<f64>) -> [String; 8] {
        [
            name.to_owned(),
            format!("{:.2}", self.redis_s),
            format!("{:.2}-{:.2}", self.redis_least_s, self.redis_most_s),
            plain_s.map(|plain_s| format!("{:.2}", self.redis_s / plain_s)).unwrap_or_default(),
            self.client_s.map(|client_s| format!("{client_s:.2}")).unwrap_or_default(),
            format!("{:.2}", self.both_s()),
            format!("{:.0}", 1e6 / self.both_s()),
            format!("{:.0}", self.per_second),
        ]
    }
}
