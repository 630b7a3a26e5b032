//! The goals of a benchmark. A missed goal fails nothing: a bad figure is worth knowing too.

use crate::table::Table;

/// A goal and what the run measured.
pub(crate) struct Goal {
    /// The contender and the figure.
    pub what: String,
    pub wanted: Wanted,
    /// `None` if a contender is missing or failed.
    pub measured: Option<f64>,
    /// Whether the machine was quiet enough for the figure to mean what the goal says.
    pub is_sound: bool,
}

/// The bound that a goal sets.
#[derive(Clone, Copy)]
pub(crate) enum Wanted {
    AtMost(f64),
    AtLeast(f64),
}

const MET: &str = "met";
const MISSED: &str = "missed";
const UNSURE: &str = "unsure";
const NOT_MEASURED: &str = "not measured";

impl Goal {
    fn result(&self) -> &'static str {
        let Some(measured) = self.measured else { return NOT_MEASURED };
        let is_met = match self.wanted {
            Wanted::AtMost(most) => measured <= most,
            Wanted::AtLeast(least) => measured >= least,
        };
        match (self.is_sound, is_met) {
            (false, _) => UNSURE,
            (true, true) => MET,
            (true, false) => MISSED,
        }
    }
}

/// Prints all goals of a run, if there are any.
pub(crate) fn print(goals: &[Goal]) {
    if goals.is_empty() {
        return;
    }
    let count = |result: &str| goals.iter().filter(|goal| goal.result() == result).count();
    let results = [MET, MISSED, UNSURE, NOT_MEASURED].map(|result| format!("{} {result}", count(result)));
    let mut table = Table::new(
        format!("goals, by medians: {}", results.join(", ")),
        ["", "wanted", "measured", "result"],
    );
    for goal in goals {
        let wanted = match goal.wanted {
            Wanted::AtMost(most) => format!("<= {most:.2}"),
            Wanted::AtLeast(least) => format!(">= {least:.2}"),
        };
        let measured = goal.measured.map_or_else(|| "-".to_owned(), |measured| format!("{measured:.2}"));
        table.row([goal.what.clone(), wanted, measured, goal.result().to_owned()]);
    }
    if count(UNSURE) > 0 {
        table.note("unsure: the two threads did not run at the same time; repeat on an idle machine.");
    }
    print!("{table}");
}

#[cfg(test)]
mod tests {
    use super::{Goal, Wanted};

    #[test]
    fn a_goal_is_met_up_to_its_bound() {
        let result =
            |wanted, measured, is_sound| Goal { what: String::new(), wanted, measured, is_sound }.result();
        assert_eq!(result(Wanted::AtMost(1.3), Some(1.3), true), "met");
        assert_eq!(result(Wanted::AtMost(1.3), Some(1.31), true), "missed");
        assert_eq!(result(Wanted::AtLeast(2.0), Some(2.0), true), "met");
        assert_eq!(result(Wanted::AtLeast(2.0), Some(1.99), true), "missed");
        assert_eq!(result(Wanted::AtLeast(2.0), Some(3.0), false), "unsure");
        assert_eq!(result(Wanted::AtLeast(2.0), None, true), "not measured");
    }
}
