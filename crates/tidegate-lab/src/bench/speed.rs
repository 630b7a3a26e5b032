//! Decisions that admit: four kinds of traffic, one thread and two.

use super::contenders::{self, Contender, FLOOR, GOVERNOR, Lap};
use super::goals::{Course, Goals};
use super::pace::Pace;
use super::race::{Figures, Threads, not_together, race};
use super::terms::Terms;
use super::workload::{Traffic, Workload, key};
use crate::table::Table;

/// Races all contenders and prints a table for each kind of traffic and number of threads.
pub(super) fn run(pace: &Pace, goals: &mut Goals) {
    let mut field: Vec<Box<dyn Contender>> = Vec::new();
    let mut field_keys = 0;
    for traffic in Traffic::ALL {
        eprintln!("speed: {}", traffic.name());
        let workload = Workload::new(traffic);
        // Both kinds of traffic over a million keys find them in the same tables.
        if field_keys != traffic.keys() {
            field_keys = traffic.keys();
            field = contenders::all(Terms::OPEN, field_keys);
            add_all_keys(&mut field, field_keys);
        }
        for threads in [Threads::One, Threads::Two] {
            let figures = race(&mut field, &workload.walk, threads, pace);
            print!("{}", table(workload.traffic, threads, &figures));
            goals.add(Course { traffic: workload.traffic, threads }, figures);
        }
    }
    println!();
    field.iter().filter_map(|contender| contender.note()).for_each(|note| println!("  {note}"));
}

/// Shows every contender every key once.
fn add_all_keys(field: &mut [Box<dyn Contender>], keys: u64) {
    let all: Vec<String> = (0..keys).map(key).collect();
    for contender in field {
        contender.lap_alone(Lap { walk: &all, first: 0, decisions: keys });
    }
}

fn table(traffic: Traffic, threads: Threads, figures: &[Figures]) -> Table {
    let title = format!("{}, {}: CPU time per decision, all admitted", traffic.name(), threads.name());
    let heading = ["", "min ns", "median ns", "x floor's cost", "x governor's speed", "million/s wall"];
    let mut table = Table::new(title, heading);
    let median_of = |name: &str| figures.iter().find(|one| one.name == name).map(|one| one.ns_median);
    let (floor, governor) = (median_of(FLOOR), median_of(GOVERNOR));
    let times = |ratio: Option<f64>| ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}x"));
    for one in figures {
        table.row([
            one.name.clone(),
            format!("{:.1}", one.ns_min),
            format!("{:.1}", one.ns_median),
            times(floor.map(|floor| one.ns_median / floor)),
            times(governor.map(|governor| governor / one.ns_median)),
            format!("{:.1}", one.per_second / 1e6),
        ]);
    }
    for one in figures.iter().filter(|one| one.admitted < one.decisions) {
        let denied = one.decisions - one.admitted;
        table.note(format!("{} denied {denied} of {}: not a fair figure", one.name, one.decisions));
    }
    if let Some(note) = not_together(figures) {
        table.note(note);
    }
    table
}
