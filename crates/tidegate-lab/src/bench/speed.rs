//! Decisions that admit: four kinds of traffic, one thread and two.

use super::RunLength;
use super::contenders::{self, Contender, FLOOR, GOVERNOR, Lap, PACKED};
use super::race::{Threads, Timings, note_not_parallel, race};
use super::workload::{BenchLimit, Traffic, Workload, key};
use crate::goals::{Goal, Wanted};
use crate::table::Table;

/// Times the floor's cost, on a thousand keys and one thread.
const OF_FLOOR_MAX: f64 = 1.3;
/// Times governor's speed on one thread, where the cache holds all keys and where it does not.
const OF_GOVERNOR_MIN_CACHED: f64 = 2.0;
const OF_GOVERNOR_MIN_UNCACHED: f64 = 4.0;
/// Times governor's speed on two threads, and for denials.
pub(super) const OF_GOVERNOR_MIN_TWO_THREADS: f64 = 1.0;

/// Races all contenders, and prints a table for each kind of traffic and number of threads.
pub(super) fn run(length: &RunLength) -> Vec<Goal> {
    let mut contenders: Vec<Box<dyn Contender>> = Vec::new();
    let mut contenders_keys = 0;
    let mut goals = Vec::new();
    for traffic in Traffic::ALL {
        eprintln!("speed: {}", traffic.name());
        let workload = Workload::new(traffic);
        // Both kinds of traffic on a million keys use the same tables.
        if contenders_keys != traffic.distinct_keys() {
            contenders_keys = traffic.distinct_keys();
            contenders = contenders::all(BenchLimit::OPEN, contenders_keys);
            add_all_keys(&mut contenders, contenders_keys);
        }
        for threads in [Threads::One, Threads::Two] {
            let timings = race(&mut contenders, &workload.keys, threads, length);
            print!("{}", table(workload.traffic, threads, &timings));
            goals.extend(
                PACKED.iter().flat_map(|algorithm| goals_of(algorithm.as_str(), traffic, threads, &timings)),
            );
        }
    }
    println!();
    contenders.iter().filter_map(|contender| contender.note()).for_each(|note| println!("  {note}"));
    goals
}

/// Lets every contender decide once about every key.
fn add_all_keys(contenders: &mut [Box<dyn Contender>], keys: u64) {
    let all: Vec<String> = (0..keys).map(key).collect();
    for contender in contenders {
        contender.lap_alone(Lap { keys: &all, first: 0, decisions: keys });
    }
}

fn table(traffic: Traffic, threads: Threads, timings: &[Timings]) -> Table {
    let title = format!("{}, {}: CPU time per decision, all admitted", traffic.name(), threads.name());
    let heading = ["", "min ns", "median ns", "x floor's cost", "x governor's speed", "million/s wall"];
    let mut table = Table::new(title, heading);
    let (floor, governor) = (median_of(timings, FLOOR), median_of(timings, GOVERNOR));
    let times = |ratio: Option<f64>| ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}x"));
    for one in timings {
        table.row([
            one.name.clone(),
            format!("{:.1}", one.ns_min),
            format!("{:.1}", one.ns_median),
            times(floor.map(|floor| one.ns_median / floor)),
            times(governor.map(|governor| governor / one.ns_median)),
            format!("{:.1}", one.per_second / 1e6),
        ]);
    }
    for one in timings.iter().filter(|one| one.admitted < one.decisions) {
        let denied = one.decisions - one.admitted;
        table.note(format!("{} denied {denied} of {}: not a fair figure", one.name, one.decisions));
    }
    if let Some(note) = note_not_parallel(timings) {
        table.note(note);
    }
    table
}

fn goals_of(algorithm: &str, traffic: Traffic, threads: Threads, timings: &[Timings]) -> Vec<Goal> {
    let is_sound = note_not_parallel(timings).is_none();
    let goal = |of: &str, wanted, measured| {
        let what = format!("{algorithm}, {}, {}: times {of}", traffic.name(), threads.name());
        Goal { what, wanted, measured: Some(measured), is_sound }
    };
    let mut goals = Vec::new();
    if (traffic, threads) == (Traffic::Thousand, Threads::One)
        && let (Some(own), Some(floor)) = (median_of(timings, algorithm), median_of(timings, FLOOR))
    {
        goals.push(goal("the floor's cost", Wanted::AtMost(OF_FLOOR_MAX), own / floor));
    }
    if let Some(measured) = speed_over_governor(timings, algorithm) {
        let wanted = Wanted::AtLeast(match (threads, traffic) {
            (Threads::Two, _) => OF_GOVERNOR_MIN_TWO_THREADS,
            (Threads::One, Traffic::HotKey | Traffic::Thousand) => OF_GOVERNOR_MIN_CACHED,
            (Threads::One, Traffic::Million | Traffic::MillionZipf) => OF_GOVERNOR_MIN_UNCACHED,
        });
        goals.push(goal("governor's speed", wanted, measured));
    }
    goals
}

fn median_of(timings: &[Timings], name: &str) -> Option<f64> {
    timings.iter().find(|one| one.name == name).map(|one| one.ns_median)
}

/// How many times as fast as governor a contender is; `None` without governor.
pub(super) fn speed_over_governor(timings: &[Timings], name: &str) -> Option<f64> {
    Some(median_of(timings, GOVERNOR)? / median_of(timings, name)?)
}
