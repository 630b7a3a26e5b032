//! The cost of reading a clock, which is a large part of a decision.

use std::hint::black_box;
use std::time::{Instant, SystemTime};

use rustix::time::{ClockId, clock_gettime};
use tidegate::{Clock, SystemClock};

use super::RunLength;
use crate::measure::{ThreadTime, least, median};
use crate::table::Table;

/// The name of a clock, and a loop that reads it.
type Reader = (&'static str, Box<dyn Fn(u64)>);

/// Measures and prints all clocks.
pub(super) fn run(length: &RunLength) {
    eprintln!("clocks");
    let readers = readers();
    // A reading takes tens of nanoseconds; the length of a turn need not be exact.
    let readings = length.turn_ns / 4 / 25;
    let mut turns: Vec<Vec<f64>> = vec![Vec::new(); readers.len()];
    for _ in 0..length.rounds {
        for ((_, read), turns) in readers.iter().zip(&mut turns) {
            let cpu = ThreadTime::start();
            read(readings);
            turns.push(cpu.elapsed_ns() as f64 / readings as f64);
        }
    }
    let mut table = Table::new("clocks: CPU time per reading", ["", "min ns", "median ns"]);
    for ((name, _), turns) in readers.iter().zip(&turns) {
        let (least, median) = (least(turns.iter().copied()), median(turns.iter().copied()));
        table.row([(*name).to_owned(), format!("{least:.1}"), format!("{median:.1}")]);
    }
    table.note("Coarse clocks move every 1 to 4 ms; a cached clock moves when the program updates it.");
    print!("{table}");
}

#[allow(clippy::disallowed_methods, reason = "this measures clocks")]
fn readers() -> Vec<Reader> {
    let system = SystemClock::new();
    let quanta = quanta::Clock::new();
    #[allow(unused_mut, reason = "the feature `peers` adds clocks")]
    let mut readers: Vec<Reader> = vec![
        reader("tidegate SystemClock", move || system.now()),
        reader("quanta, now", {
            let quanta = quanta.clone();
            move || quanta.now()
        }),
        reader("quanta, raw counter", move || quanta.raw()),
        reader("std Instant", Instant::now),
        reader("std SystemTime", SystemTime::now),
    ];
    #[cfg(target_os = "linux")]
    readers.push(reader("CLOCK_MONOTONIC_COARSE", || clock_gettime(ClockId::MonotonicCoarse)));
    #[cfg(feature = "peers")]
    readers.extend([
        reader("minstant", minstant::Instant::now),
        reader("coarsetime, now", coarsetime::Instant::now),
        reader("coarsetime, cached", coarsetime::Instant::recent),
    ]);
    readers
}

/// Each clock has its own loop, so that a reading is not a call through a pointer.
fn reader<T>(name: &'static str, read: impl Fn() -> T + 'static) -> Reader {
    let turn = move |readings: u64| {
        for _ in 0..readings {
            black_box(read());
        }
    };
    (name, Box::new(turn))
}
