//! Decisions that deny: a hot key that is over its limit. A client that is denied often tries again at once,
//! so a flood of these is what a limiter sees when it is needed most.

use super::contenders::{self, GOVERNOR, Lap};
use super::goals::Goals;
use super::pace::Pace;
use super::race::{Figures, Threads, not_together, race};
use super::terms::Terms;
use super::workload::{Traffic, Workload};
use crate::table::Table;

/// Races Tidegate and governor on an exhausted key.
pub(super) fn run(pace: &Pace, goals: &mut Goals) {
    eprintln!("denial: one hot key over its limit");
    let workload = Workload::new(Traffic::HotKey);
    let mut field = contenders::tidegate_and_governor(Terms::EXHAUSTED);
    for contender in &mut field {
        contender.lap_alone(Lap { walk: &workload.walk, first: 0, decisions: 100 });
    }
    for threads in [Threads::One, Threads::Two] {
        let figures = race(&mut field, &workload.walk, threads, pace);
        print!("{}", table(threads, &figures));
        goals.add_denials(threads, figures);
    }
}

fn table(threads: Threads, figures: &[Figures]) -> Table {
    let title = format!("one hot key over its limit, {}: CPU time per denial", threads.name());
    let mut table = Table::new(title, ["", "min ns", "median ns", "x governor's speed", "million/s wall"]);
    let governor = figures.iter().find(|one| one.name == GOVERNOR).map(|one| one.ns_median);
    for one in figures {
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
    if let Some(note) = not_together(figures) {
        table.note(note);
    }
    table
}
