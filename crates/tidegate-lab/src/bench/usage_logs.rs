//! `sub_windows` and `sliding_log`: does a decision cost more if the usage log is longer?
//!
//! One key gets twice as many requests as its limit allows: half of them are admitted, and old entries expire all the
//! time. The benchmark passes the time in, so that windows roll.

use std::hint::black_box;

use tidegate::{Limiter, Timestamp};

use super::RunLength;
use crate::measure::{ThreadTime, least, median};
use crate::table::Table;

const WINDOW_NS: u64 = 60_000_000_000;
const START_NS: u64 = 1_700_000_000_000_000_000;
/// Requests per unit that the limit allows.
const OVERLOAD: u64 = 2;
/// Windows that pass before the measurement.
const WARM_UP_WINDOWS: u64 = 3;
/// Units per window: at the largest number of sub-windows, two for each.
const SUB_WINDOWS_LIMIT: u64 = 12_000;

/// A key that is always at its limit.
struct BusyKey {
    parameter: String,
    limiter: Limiter,
    limit: u64,
    now_ns: u64,
    step_ns: u64,
    turns_ns: Vec<f64>,
    decisions: u64,
    admitted: u64,
}

impl BusyKey {
    fn new(parameter: String, limit: u64, text: &str) -> Self {
        let limiter = Limiter::new(text).expect("the limit is valid");
        let step_ns = WINDOW_NS / (OVERLOAD * limit);
        let mut key = Self {
            parameter,
            limiter,
            limit,
            now_ns: START_NS,
            step_ns,
            turns_ns: Vec::new(),
            decisions: 0,
            admitted: 0,
        };
        key.decide(WARM_UP_WINDOWS * key.requests_per_window());
        key
    }

    fn requests_per_window(&self) -> u64 {
        OVERLOAD * self.limit
    }

    fn decide(&mut self, decisions: u64) -> u64 {
        let mut admitted = 0;
        for _ in 0..decisions {
            self.now_ns += self.step_ns;
            let now = Timestamp::from_nanos(self.now_ns);
            admitted += u64::from(black_box(self.limiter.check_at("key", 1, now)).is_allowed());
        }
        admitted
    }

    /// Measures about `decisions`, rounded up to whole windows so that all turns have the same mix.
    fn turn(&mut self, decisions: u64) {
        let decisions = decisions.next_multiple_of(self.requests_per_window());
        let cpu = ThreadTime::start();
        self.admitted += self.decide(decisions);
        self.decisions += decisions;
        self.turns_ns.push(cpu.elapsed_ns() as f64 / decisions as f64);
    }
}

/// Measures and prints both algorithms.
pub(super) fn run(length: &RunLength) {
    eprintln!("usage logs: sub_windows and sliding_log by size");
    let sub_windows = [10, 60, 600, 6_000].map(|n| {
        let limit = SUB_WINDOWS_LIMIT;
        let text = format!("{{algorithm: sub_windows, limit: {limit}, per: 1m, sub_windows: {n}}}");
        BusyKey::new(format!("sub_windows, n = {n}"), limit, &text)
    });
    let sliding_log = [10, 1_000, 100_000].map(|limit| {
        let text = format!("{{algorithm: sliding_log, limit: {limit}, per: 1m}}");
        BusyKey::new(format!("sliding_log, L = {limit}"), limit, &text)
    });
    let mut keys: Vec<BusyKey> = sub_windows.into_iter().chain(sliding_log).collect();
    // A decision takes about 100 ns. For the largest log, a whole window is longer anyway.
    let decisions = length.turn_ns / 100;
    for _ in 0..length.rounds {
        keys.iter_mut().for_each(|key| key.turn(decisions));
    }
    let mut table = Table::new(
        "usage logs: CPU time per decision at the limit, without reading a clock, one thread",
        ["", "min ns", "median ns", "admitted"],
    );
    for key in &keys {
        table.row([
            key.parameter.clone(),
            format!("{:.1}", least(key.turns_ns.iter().copied())),
            format!("{:.1}", median(key.turns_ns.iter().copied())),
            format!("{:.0}%", 100.0 * key.admitted as f64 / key.decisions as f64),
        ]);
    }
    print!("{table}");
}
