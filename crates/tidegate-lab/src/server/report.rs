//! The table of one load, and the list of missing programs.

use std::collections::BTreeMap;

use super::goals::EMPTY;
use super::load_kind::LoadKind;
use super::program::{Missing, Program};
use super::target::Target;
use super::turn::ServerTurn;
use crate::cpu::Cpu;
use crate::measure::median;
use crate::table::Table;

/// The results of all servers under one load.
pub(super) struct LoadReport {
    pub load: LoadKind,
    targets: Vec<TargetTurns>,
}

/// The results of one server.
struct TargetTurns {
    target: Target,
    /// Requests per second in the warm-up.
    per_second: f64,
    turns: Vec<ServerTurn>,
    /// Why it is no longer measured.
    failed: Option<String>,
}

/// Medians of the turns of one server, in seconds per million requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerCost {
    pub cpu: Cpu,
    pub total_s: f64,
    pub total_least_s: f64,
    pub total_most_s: f64,
    pub backing_s: Option<f64>,
    pub per_second: f64,
}

impl LoadReport {
    pub(super) fn new(load: LoadKind) -> Self {
        Self { load, targets: Vec::new() }
    }

    /// Adds a server with the requests per second of its warm-up, or why that failed.
    pub(super) fn add(&mut self, target: Target, warm_up: Result<f64, String>) {
        let (per_second, failed) = match warm_up {
            Ok(per_second) => (per_second, None),
            Err(why) => (0.0, Some(why)),
        };
        self.targets.push(TargetTurns { target, per_second, turns: Vec::new(), failed });
    }

    pub(super) fn targets(&self) -> usize {
        self.targets.len()
    }

    /// Runs a turn of one server, unless it has failed.
    pub(super) fn turn(
        &mut self,
        index: usize,
        take: impl FnOnce(&Target, f64) -> Option<Result<ServerTurn, String>>,
    ) {
        let target = &mut self.targets[index];
        if target.failed.is_some() {
            return;
        }
        match take(&target.target, target.per_second) {
            Some(Ok(turn)) => target.turns.push(turn),
            Some(Err(why)) => target.failed = Some(why),
            None => {}
        }
    }

    pub(super) fn has_any(&self) -> bool {
        self.targets.iter().any(|target| !target.turns.is_empty())
    }

    /// The cost of a server; `None` if it was not measured or failed.
    pub(super) fn cost(&self, name: &str) -> Option<ServerCost> {
        self.targets.iter().find(|one| one.target.name == name)?.cost()
    }

    pub(super) fn table(&self) -> Table {
        let heading = ["", "CPU s", "user", "system", "least-most", "x empty", "requests/s"];
        let title = format!("{}: server CPU seconds per million requests", self.load.title());
        let mut table = Table::new(title, heading);
        let empty_s = self.cost(EMPTY).map(|cost| cost.total_s);
        for one in &self.targets {
            match one.cost() {
                Some(cost) => {
                    table.row(cost.row(one.target.name, empty_s));
                    if let Some(backing_s) = cost.backing_s {
                        table.row(["  its Redis".to_owned(), format!("{backing_s:.2}")]);
                    }
                }
                None => table.row([one.target.name.to_owned(), "failed".to_owned()]),
            }
        }
        for one in &self.targets {
            if let Some(why) = &one.failed {
                table.note(format!("{} failed: {why}", one.target.name));
            }
        }
        table
    }
}

impl TargetTurns {
    fn cost(&self) -> Option<ServerCost> {
        if self.failed.is_some() || self.turns.is_empty() {
            return None;
        }
        let median_of = |figure: fn(&ServerTurn) -> f64| median(self.turns.iter().map(figure));
        let totals = || self.turns.iter().map(|turn| turn.own.total_s());
        let backing: Vec<f64> = self.turns.iter().filter_map(|turn| turn.backing).map(Cpu::total_s).collect();
        Some(ServerCost {
            cpu: Cpu {
                user_s: median_of(|turn| turn.own.user_s),
                system_s: median_of(|turn| turn.own.system_s),
            },
            total_s: median(totals()),
            total_least_s: totals().fold(f64::INFINITY, f64::min),
            total_most_s: totals().fold(0.0, f64::max),
            backing_s: (!backing.is_empty()).then(|| median(backing)),
            per_second: median_of(|turn| turn.per_second),
        })
    }
}

impl ServerCost {
    fn row(&self, name: &str, empty_s: Option<f64>) -> [String; 7] {
        [
            name.to_owned(),
            format!("{:.2}", self.total_s),
            format!("{:.2}", self.cpu.user_s),
            format!("{:.2}", self.cpu.system_s),
            format!("{:.2}-{:.2}", self.total_least_s, self.total_most_s),
            empty_s.map(|empty_s| format!("{:.2}", self.total_s / empty_s)).unwrap_or_default(),
            format!("{:.0}", self.per_second),
        ]
    }
}

/// The programs that were not measured, why, and how to install them.
pub(super) fn missing(missing: &BTreeMap<Program, Missing>) -> String {
    if missing.is_empty() {
        return String::new();
    }
    let mut table = Table::without_heading("not measured");
    for (program, Missing { why, hint }) in missing {
        table.note(format!("{}: {why} (hint: {hint})", program.name()));
    }
    table.to_string()
}
