//! The table of one load, and what was not there.

use std::collections::BTreeMap;

use super::contender::Contender;
use super::cpu::Cpu;
use super::goals::EMPTY;
use super::program::{Missing, Program};
use super::shape::Shape;
use super::turn::Turn;
use crate::bench::median;
use crate::table::Table;

/// What was measured under one load.
pub(super) struct Measured {
    pub shape: Shape,
    entries: Vec<Entry>,
}

/// A server under that load.
struct Entry {
    contender: Contender,
    /// In the warm-up.
    per_second: f64,
    turns: Vec<Turn>,
    /// Why it is out of the run.
    failed: Option<String>,
}

/// Medians over the turns of one server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    pub cpu: Cpu,
    pub total_s: f64,
    pub total_least_s: f64,
    pub total_most_s: f64,
    pub backing_s: Option<f64>,
    pub per_second: f64,
}

impl Measured {
    pub(super) fn new(shape: Shape) -> Self {
        Self { shape, entries: Vec::new() }
    }

    /// Takes a server in, with the requests per second of its warm-up or why it could not do that.
    pub(super) fn enter(&mut self, contender: Contender, ready: Result<f64, String>) {
        let (per_second, failed) = match ready {
            Ok(per_second) => (per_second, None),
            Err(why) => (0.0, Some(why)),
        };
        self.entries.push(Entry { contender, per_second, turns: Vec::new(), failed });
    }

    pub(super) fn entered(&self) -> usize {
        self.entries.len()
    }

    /// The turn of one of them, unless it is out of the run.
    pub(super) fn turn(
        &mut self,
        at: usize,
        take: impl FnOnce(&Contender, f64) -> Option<Result<Turn, String>>,
    ) {
        let entry = &mut self.entries[at];
        if entry.failed.is_some() {
            return;
        }
        match take(&entry.contender, entry.per_second) {
            Some(Ok(turn)) => entry.turns.push(turn),
            Some(Err(why)) => entry.failed = Some(why),
            None => {}
        }
    }

    pub(super) fn has_any(&self) -> bool {
        self.entries.iter().any(|entry| !entry.turns.is_empty())
    }

    /// What this one took; none if it was not measured, or failed in between.
    pub(super) fn figures(&self, name: &str) -> Option<Figures> {
        let entry = self.entries.iter().find(|entry| entry.contender.name == name)?;
        entry.figures()
    }

    pub(super) fn table(&self) -> Table {
        let heading = ["", "CPU s", "user", "system", "least-most", "x empty", "requests/s"];
        let title = format!("{}: server CPU seconds per million requests", self.shape.title());
        let mut table = Table::new(title, heading);
        let empty_s = self.figures(EMPTY).map(|figures| figures.total_s);
        for entry in &self.entries {
            match entry.figures() {
                Some(figures) => {
                    table.row(figures.row(entry.contender.name, empty_s));
                    if let Some(backing_s) = figures.backing_s {
                        table.row(["  its Redis besides".to_owned(), format!("{backing_s:.2}")]);
                    }
                }
                None => table.row([entry.contender.name.to_owned(), "failed".to_owned()]),
            }
        }
        for entry in &self.entries {
            if let Some(why) = &entry.failed {
                table.note(format!("{} failed: {why}", entry.contender.name));
            }
        }
        table
    }
}

impl Entry {
    fn figures(&self) -> Option<Figures> {
        if self.failed.is_some() || self.turns.is_empty() {
            return None;
        }
        let middle = |figure: fn(&Turn) -> f64| median(self.turns.iter().map(figure));
        let totals = || self.turns.iter().map(|turn| turn.own.total_s());
        let backing: Vec<f64> = self.turns.iter().filter_map(|turn| turn.backing).map(Cpu::total_s).collect();
        Some(Figures {
            cpu: Cpu { user_s: middle(|turn| turn.own.user_s), system_s: middle(|turn| turn.own.system_s) },
            total_s: median(totals()),
            total_least_s: totals().fold(f64::INFINITY, f64::min),
            total_most_s: totals().fold(0.0, f64::max),
            backing_s: (!backing.is_empty()).then(|| median(backing)),
            per_second: middle(|turn| turn.per_second),
        })
    }
}

impl Figures {
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

/// What was not there, why, and what installs it.
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
