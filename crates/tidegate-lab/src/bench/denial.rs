//! Decisions that deny: a hot key over its limit. Denied clients often retry immediately, so a limiter sees floods of
//! these when it is needed most.

use super::RunLength;
use super::contenders::{self, GOVERNOR, Lap, PACKED};
use super::race::{Threads, Timings, note_not_parallel, race};
use super::speed::{OF_GOVERNOR_MIN_TWO_THREADS, speed_over_governor};
use super::workload::{BenchLimit, Traffic, Workload};
use crate::goals::{Goal, Wanted};
use crate::table::Table;

/// Races Tidegate and governor on an exhausted key, and prints the tables.
pub(super) fn run(length: &RunLength) -> Vec<Goal> {
    eprintln!("denial: one hot key over its limit");
    let workload = Workload::new(Traffic::HotKey);
    let mut contenders = contenders::tidegate_and_governor(BenchLimit::EXHAUSTED);
    for contender in &mut contenders {
        contender.lap_alone(Lap { keys: &workload.keys, first: 0, decisions: 100 });
    }
    let mut goals = Vec::new();
    for threads in [Threads::One, Threads::Two] {
        let timings = race(&mut contenders, &workload.keys, threads, length);
        print!("{}", table(threads, &timings));
        goals.extend(PACKED.iter().filter_map(|algorithm| {
            let what = format!("{algorithm}, denials, {}: times governor's speed", threads.name());
            let measured = speed_over_governor(&timings, algorithm.as_str())?;
            let is_sound = note_not_parallel(&timings).is_none();
            let wanted = Wanted::AtLeast(OF_GOVERNOR_MIN_TWO_THREADS);
            Some(Goal { what, wanted, measured: Some(measured), is_sound })
        }));
    }
    goals
}

fn table(threads: Threads, timings: &[Timings]) -> Table {
    let title = format!("one hot key over its limit, {}: CPU time per denial", threads.name());
    let mut table = Table::new(title, ["", "min ns", "median ns", "x governor's speed", "million/s wall"]);
    let governor = timings.iter().find(|one| one.name == GOVERNOR).map(|one| one.ns_median);
    for one in timings {
        table.row([
            one.name.clone(),
            format!("{:.1}", one.ns_min),
            format!("{:.1}", one.ns_median),
            governor.map_or("-".to_owned(), |governor| format!("{:.2}x", governor / one.ns_median)),
            format!("{:.1}", one.per_second / 1e6),
        ]);
        if one.admitted > 0 {
            table.note(format!("{} admitted {} of {}", one.name, one.admitted, one.decisions));
        }
    }
    if let Some(note) = note_not_parallel(timings) {
        table.note(note);
    }
    table
}
