//! The tables and the goals.

use super::{Overridden, PROTOCOLS};
use crate::cpu::Cpu;
use crate::server::load_kind::Protocol;
use crate::table::Table;

/// The most CPU time per decision, as a multiple of that without overrides.
const GOALS: [(Overridden, f64); 2] = [(Overridden::OtherKeys, 1.03), (Overridden::EachKey, 1.10)];

pub(super) struct OverridesReport {
    turns: Vec<(Protocol, Overridden, Cpu)>,
    memory: Vec<(Overridden, u64)>,
}

impl OverridesReport {
    pub fn new() -> Self {
        Self { turns: Vec::new(), memory: Vec::new() }
    }

    pub fn add(&mut self, protocol: Protocol, overridden: Overridden, per_million: Cpu) {
        self.turns.push((protocol, overridden, per_million));
    }

    pub fn set_memory(&mut self, overridden: Overridden, bytes: u64) {
        self.memory.push((overridden, bytes));
    }

    pub fn print(&self) {
        for protocol in PROTOCOLS {
            print!("{}", self.table(protocol));
        }
        for (overridden, bytes) in &self.memory {
            println!("{}: {:.0} MiB resident", overridden.name(), *bytes as f64 / f64::from(1 << 20));
        }
    }

    fn table(&self, protocol: Protocol) -> Table {
        let mut table = Table::new(
            format!("CPU time of the server per decision: {}", title(protocol)),
            ["", "median ns", "least ns", "user ns", "median ratio", "goal", ""],
        );
        let base = self.median(protocol, Overridden::NoKey, Cpu::total_s);
        for overridden in Overridden::ALL {
            let median = self.median(protocol, overridden, Cpu::total_s);
            let least =
                self.turns_of(protocol, overridden, Cpu::total_s).into_iter().fold(f64::MAX, f64::min);
            let ratio = median / base;
            let goal = GOALS.iter().find(|(one, _)| *one == overridden).map(|(_, goal)| *goal);
            let result = goal.map_or("", |goal| if ratio <= goal { "met" } else { "missed" });
            // Seconds per million are microseconds each.
            table.row([
                overridden.name().to_owned(),
                format!("{:.0}", median * 1e3),
                format!("{:.0}", least * 1e3),
                format!("{:.0}", self.median(protocol, overridden, |cpu| cpu.user_s) * 1e3),
                format!("{ratio:.3}"),
                goal.map_or_else(String::new, |goal| format!("{goal:.2}")),
                result.to_owned(),
            ]);
        }
        table
    }

    fn turns_of(&self, protocol: Protocol, overridden: Overridden, part: impl Fn(Cpu) -> f64) -> Vec<f64> {
        let turns = self.turns.iter().filter(|(of, by, _)| (*of, *by) == (protocol, overridden));
        let mut turns: Vec<f64> = turns.map(|(_, _, cpu)| part(*cpu)).collect();
        turns.sort_by(f64::total_cmp);
        turns
    }

    fn median(&self, protocol: Protocol, overridden: Overridden, part: impl Fn(Cpu) -> f64) -> f64 {
        let turns = self.turns_of(protocol, overridden, part);
        turns.get(turns.len() / 2).copied().unwrap_or(0.0)
    }
}

fn title(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Resp => "TIDEGATE.CHECK, 16 in a pipeline",
        Protocol::Http => "POST /v1/check, 16 connections that stay open",
        Protocol::Grpc => "ShouldRateLimit over gRPC, 16 streams of a connection",
    }
}
