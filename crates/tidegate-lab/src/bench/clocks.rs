//! What it costs to ask what time it is: a good part of a decision, whichever clock it is.

use std::hint::black_box;
use std::time::{Instant, SystemTime};

use rustix::time::{ClockId, clock_gettime};
use tidegate::{Clock, SystemClock};

use super::pace::Pace;
use super::race::{least, median};
use crate::stopwatch::ThreadTime;
use crate::table::Table;

/// A clock and a turn of reading it.
type Reader = (&'static str, Box<dyn Fn(u64)>);

/// Measures and prints all clocks.
pub(super) fn run(pace: &Pace) {
    eprintln!("clocks");
    let readers = readers();
    // Clocks cost tens of nanoseconds; a turn need not be exact.
    let readings = pace.turn_ns / 4 / 25;
    let mut turns: Vec<Vec<f64>> = vec![Vec::new(); readers.len()];
    for _ in 0..pace.rounds {
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
    table.note("coarse clocks move once in 1 to 4 ms, a cached one when something updates it.");
    print!("{table}");
}

#[allow(clippy::disallowed_methods, reason = "clocks are what is measured")]
fn readers() -> Vec<Reader> {
    let system = SystemClock::new();
    let quanta = quanta::Clock::new();
    #[allow(unused_mut, reason = "peers add theirs")]
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

/// A loop of its own for each clock, so that a reading costs no call through a pointer.
fn reader<T>(name: &'static str, read: impl Fn() -> T + 'static) -> Reader {
    let turn = move |readings: u64| {
        for _ in 0..readings {
            black_box(read());
        }
    };
    (name, Box::new(turn))
}
