//! Decisions that admit: four kinds of traffic, one thread and two.

use tidegate::AlgorithmName;

use super::RunLength;
use super::contenders::{self, Call, Contender, FLOOR, GOVERNOR, Lap, PACKED};
use super::race::{Threads, Timings, note_not_parallel, race};
use super::workload::{BenchLimit, Traffic, Workload, key};
use crate::goals::{Goal, Wanted};
use crate::process::{self, CpuVendor};
use crate::table::Table;

/// Times governor's speed on two threads, and for denials.
pub(super) const OF_GOVERNOR_MIN_TWO_THREADS: f64 = 1.0;

/// What one thread should reach on one kind of traffic. Processors differ: on some the floor and governor wait for a locked
/// instruction for most of the time, and Tidegate's further instructions cost little; on others they cost more.
struct OneThreadGoals {
    /// Times the floor's cost, for a whole answer.
    answer_of_floor_max: f64,
    /// Times governor's speed, for a whole answer and for a verdict alone.
    answer_of_governor_min: f64,
    verdict_of_governor_min: f64,
}

/// The same for `check_many`, on a million keys that are equally likely.
const MANY_OF_FLOOR_MAX: f64 = 1.2;

impl OneThreadGoals {
    fn new(vendor: CpuVendor, traffic: Traffic) -> Self {
        let (answer_of_floor_max, answer_of_governor_min, verdict_of_governor_min) = match (vendor, traffic) {
            (CpuVendor::Amd, Traffic::HotKey | Traffic::Thousand) => (1.6, 1.6, 1.9),
            (CpuVendor::Amd, Traffic::Million | Traffic::MillionZipf) => (2.0, 3.0, 3.0),
            (CpuVendor::Other, Traffic::HotKey | Traffic::Thousand) => (1.3, 1.9, 2.0),
            (CpuVendor::Other, Traffic::Million | Traffic::MillionZipf) => (1.3, 2.0, 2.0),
        };
        Self { answer_of_floor_max, answer_of_governor_min, verdict_of_governor_min }
    }

    fn many_of_governor_min(vendor: CpuVendor) -> f64 {
        match vendor {
            CpuVendor::Amd => 4.0,
            CpuVendor::Other => 2.2,
        }
    }
}

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
            goals
                .extend(PACKED.iter().flat_map(|algorithm| goals_of(*algorithm, traffic, threads, &timings)));
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

fn goals_of(algorithm: AlgorithmName, traffic: Traffic, threads: Threads, timings: &[Timings]) -> Vec<Goal> {
    let is_sound = note_not_parallel(timings).is_none();
    let mut goals = Vec::new();
    let mut add = |call: Call, of: &str, wanted: Wanted, measured: Option<f64>| {
        if measured.is_some() {
            let row = call.row(algorithm);
            let what = format!("{row}, {}, {}: times {of}", traffic.name(), threads.name());
            goals.push(Goal { what, wanted, measured, is_sound });
        }
    };
    let floor_cost = |call: Call| cost_over_floor(timings, &call.row(algorithm));
    let governor_speed = |call: Call| speed_over_governor(timings, &call.row(algorithm));
    let (floor, governor) = ("the floor's cost", "governor's speed");
    if threads == Threads::Two {
        add(
            Call::Answer,
            governor,
            Wanted::AtLeast(OF_GOVERNOR_MIN_TWO_THREADS),
            governor_speed(Call::Answer),
        );
        return goals;
    }
    let vendor = process::cpu_vendor();
    let wanted = OneThreadGoals::new(vendor, traffic);
    add(Call::Answer, floor, Wanted::AtMost(wanted.answer_of_floor_max), floor_cost(Call::Answer));
    add(Call::Answer, governor, Wanted::AtLeast(wanted.answer_of_governor_min), governor_speed(Call::Answer));
    add(
        Call::Verdict,
        governor,
        Wanted::AtLeast(wanted.verdict_of_governor_min),
        governor_speed(Call::Verdict),
    );
    if traffic == Traffic::Million {
        let of_governor = OneThreadGoals::many_of_governor_min(vendor);
        add(Call::Many, floor, Wanted::AtMost(MANY_OF_FLOOR_MAX), floor_cost(Call::Many));
        add(Call::Many, governor, Wanted::AtLeast(of_governor), governor_speed(Call::Many));
    }
    goals
}

fn median_of(timings: &[Timings], name: &str) -> Option<f64> {
    timings.iter().find(|one| one.name == name).map(|one| one.ns_median)
}

/// How many times the floor's cost a contender takes; `None` if it did not run.
fn cost_over_floor(timings: &[Timings], name: &str) -> Option<f64> {
    Some(median_of(timings, name)? / median_of(timings, FLOOR)?)
}

/// How many times as fast as governor a contender is; `None` without governor.
pub(super) fn speed_over_governor(timings: &[Timings], name: &str) -> Option<f64> {
    Some(median_of(timings, GOVERNOR)? / median_of(timings, name)?)
}
