//! `sub_windows` and `sliding_log`: does a decision cost more if there is more to remember?
//!
//! One key at its limit, asked for twice as often as the limit allows: half of the time it fills up again, half
//! of the time it is denied, and the oldest entries leave all along. Time is handed in, so that windows roll.

use std::hint::black_box;

use tidegate::{Limiter, Timestamp};

use super::pace::Pace;
use super::race::{least, median};
use crate::stopwatch::ThreadTime;
use crate::table::Table;

const WINDOW_NS: u64 = 60_000_000_000;
const START_NS: u64 = 1_700_000_000_000_000_000;
/// Asked for this many times as often as the limit allows.
const OVERLOAD: u64 = 2;
/// Windows that pass before anything is measured.
const WARM_UP_WINDOWS: u64 = 3;
/// Units per window for all numbers of sub-windows: several for each of the most.
const SUB_WINDOWS_LIMIT: u64 = 12_000;

/// A limit, a key at it and the time.
struct Key {
    parameter: String,
    limiter: Limiter,
    limit: u64,
    now_ns: u64,
    step_ns: u64,
    turns_ns: Vec<f64>,
    decisions: u64,
    admitted: u64,
}

impl Key {
    fn new(parameter: String, limit: u64, text: &str) -> Self {
        let limiter = Limiter::new(text).expect("the limit is one");
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
        key.ask(WARM_UP_WINDOWS * key.asks_per_window());
        key
    }

    fn asks_per_window(&self) -> u64 {
        OVERLOAD * self.limit
    }

    fn ask(&mut self, decisions: u64) -> u64 {
        let mut admitted = 0;
        for _ in 0..decisions {
            self.now_ns += self.step_ns;
            let now = Timestamp::from_nanos(self.now_ns);
            admitted += u64::from(black_box(self.limiter.check_at("key", 1, now)).is_allowed());
        }
        admitted
    }

    /// Measures about `decisions`, whole windows of them so that all turns have the same mixture.
    fn turn(&mut self, decisions: u64) {
        let decisions = decisions.next_multiple_of(self.asks_per_window());
        let cpu = ThreadTime::start();
        self.admitted += self.ask(decisions);
        self.decisions += decisions;
        self.turns_ns.push(cpu.elapsed_ns() as f64 / decisions as f64);
    }
}

/// Measures and prints both.
pub(super) fn run(pace: &Pace) {
    eprintln!("ledgers: sub_windows and sliding_log by size");
    let sub_windows = [10, 60, 600, 6_000].map(|n| {
        let limit = SUB_WINDOWS_LIMIT;
        let text = format!("{{algorithm: sub_windows, limit: {limit}, per: 1m, sub_windows: {n}}}");
        Key::new(format!("sub_windows, n = {n}"), limit, &text)
    });
    let sliding_log = [10, 1_000, 100_000].map(|limit| {
        let text = format!("{{algorithm: sliding_log, limit: {limit}, per: 1m}}");
        Key::new(format!("sliding_log, L = {limit}"), limit, &text)
    });
    let mut keys: Vec<Key> = sub_windows.into_iter().chain(sliding_log).collect();
    // About a hundred nanoseconds each; whole windows of the largest log set the length anyway.
    let decisions = pace.turn_ns / 100;
    for _ in 0..pace.rounds {
        keys.iter_mut().for_each(|key| key.turn(decisions));
    }
    let mut table = Table::new(
        "ledgers: CPU time per decision at the limit, time handed in, one thread",
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
