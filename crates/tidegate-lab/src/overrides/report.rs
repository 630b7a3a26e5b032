//! The table and the goals.

use super::Overridden;
use crate::cpu::Cpu;
use crate::table::Table;

/// The most CPU time per decision, as a multiple of that without overrides.
const GOALS: [(Overridden, f64); 2] = [(Overridden::OtherKeys, 1.03), (Overridden::EachKey, 1.10)];

pub(super) struct OverridesReport {
    turns: Vec<(Overridden, Cpu)>,
    memory: Vec<(Overridden, u64)>,
}

impl OverridesReport {
    pub fn new() -> Self {
        Self { turns: Vec::new(), memory: Vec::new() }
    }

    pub fn add(&mut self, overridden: Overridden, per_million: Cpu) {
        self.turns.push((overridden, per_million));
    }

    pub fn set_memory(&mut self, overridden: Overridden, bytes: u64) {
        self.memory.push((overridden, bytes));
    }

    pub fn print(&self) {
        let mut table = Table::new(
            "CPU time of the server per decision (TIDEGATE.CHECK, 16 in a pipeline)",
            ["", "median ns", "least ns", "user ns", "median ratio", "resident MiB"],
        );
        let base = self.median(Overridden::NoKey, Cpu::total_s);
        for overridden in Overridden::ALL {
            let median = self.median(overridden, Cpu::total_s);
            let least = self.turns_of(overridden, Cpu::total_s).into_iter().fold(f64::MAX, f64::min);
            let memory =
                self.memory.iter().find(|(one, _)| *one == overridden).map_or(0, |(_, bytes)| *bytes);
            // Seconds per million are microseconds each.
            table.row([
                overridden.name().to_owned(),
                format!("{:.0}", median * 1e3),
                format!("{:.0}", least * 1e3),
                format!("{:.0}", self.median(overridden, |cpu| cpu.user_s) * 1e3),
                format!("{:.3}", median / base),
                format!("{:.0}", memory as f64 / f64::from(1 << 20)),
            ]);
        }
        for (overridden, goal) in GOALS {
            let ratio = self.median(overridden, Cpu::total_s) / base;
            let verdict = if ratio <= goal { "met" } else { "missed" };
            table.note(format!("{}: goal at most {goal:.2}, {verdict} ({ratio:.3})", overridden.name()));
        }
        print!("{table}");
    }

    fn turns_of(&self, overridden: Overridden, part: impl Fn(Cpu) -> f64) -> Vec<f64> {
        let mut turns: Vec<f64> =
            self.turns.iter().filter(|(one, _)| *one == overridden).map(|(_, cpu)| part(*cpu)).collect();
        turns.sort_by(f64::total_cmp);
        turns
    }

    fn median(&self, overridden: Overridden, part: impl Fn(Cpu) -> f64) -> f64 {
        let turns = self.turns_of(overridden, part);
        turns.get(turns.len() / 2).copied().unwrap_or(0.0)
    }
}
