//! Which figures are good enough.

use std::fmt;

use super::report::Measured;
use super::shape::Shape;
use crate::table::Table;

pub(super) const EMPTY: &str = "empty server";
pub(super) const THROTTLE: &str = "tidegate CL.THROTTLE";
pub(super) const CHECK: &str = "tidegate check";
pub(super) const REDIS_CELL: &str = "redis-cell CL.THROTTLE";
pub(super) const THROTTLECRAB: &str = "throttlecrab-server";
pub(super) const RATELIMIT: &str = "envoyproxy/ratelimit";
pub(super) const GUBERNATOR: &str = "gubernator";

/// What was measured, held against what was wanted.
#[derive(Default)]
pub(super) struct Goals {
    measured: Vec<Measured>,
}

/// What is wanted of one server beside another.
struct Goal {
    shape: Shape,
    ours: &'static str,
    other: &'static str,
    wanted: Wanted,
}

#[derive(Clone, Copy)]
enum Wanted {
    /// Our processor time is at most so many times theirs.
    CpuAtMost(f64),
    /// Their processor time is at least so many times ours.
    CpuAhead(f64),
    /// Our requests per second are at least so many times theirs.
    RateAtLeast(f64),
}

const GOALS: [Goal; 16] = {
    use Shape::{GrpcDeep, GrpcWide, Http, Resp, RespPipelined};
    use Wanted::{CpuAhead, CpuAtMost, RateAtLeast};
    const fn goal(shape: Shape, ours: &'static str, other: &'static str, wanted: Wanted) -> Goal {
        Goal { shape, ours, other, wanted }
    }
    [
        goal(Resp, THROTTLE, EMPTY, CpuAtMost(1.15)),
        goal(Resp, CHECK, EMPTY, CpuAtMost(1.15)),
        goal(RespPipelined, THROTTLE, EMPTY, CpuAtMost(2.0)),
        goal(RespPipelined, CHECK, EMPTY, CpuAtMost(2.0)),
        goal(RespPipelined, THROTTLE, REDIS_CELL, RateAtLeast(2.0)),
        goal(RespPipelined, CHECK, REDIS_CELL, RateAtLeast(2.0)),
        goal(Http, CHECK, EMPTY, CpuAtMost(1.15)),
        goal(Http, CHECK, THROTTLECRAB, CpuAhead(1.25)),
        goal(GrpcWide, CHECK, EMPTY, CpuAhead(1.0)),
        goal(GrpcWide, CHECK, THROTTLECRAB, CpuAhead(1.0)),
        goal(GrpcWide, CHECK, RATELIMIT, CpuAhead(3.0)),
        goal(GrpcWide, CHECK, GUBERNATOR, CpuAhead(3.0)),
        goal(GrpcDeep, CHECK, EMPTY, CpuAhead(1.0)),
        goal(GrpcDeep, CHECK, THROTTLECRAB, CpuAhead(1.0)),
        goal(GrpcDeep, CHECK, RATELIMIT, CpuAhead(3.0)),
        goal(GrpcDeep, CHECK, GUBERNATOR, CpuAhead(3.0)),
    ]
};

impl Goals {
    pub(super) fn take(&mut self, measured: Measured) {
        self.measured.push(measured);
    }

    /// The ratio that a goal is about; none if one of the two was not measured.
    fn ratio(&self, goal: &Goal) -> Option<f64> {
        let measured = self.measured.iter().find(|measured| measured.shape == goal.shape)?;
        let (ours, other) = (measured.figures(goal.ours)?, measured.figures(goal.other)?);
        Some(match goal.wanted {
            Wanted::CpuAtMost(_) => ours.total_s / other.total_s,
            Wanted::CpuAhead(_) => other.total_s / ours.total_s,
            Wanted::RateAtLeast(_) => ours.per_second / other.per_second,
        })
    }
}

impl Wanted {
    fn is_met(self, ratio: f64) -> &'static str {
        let met = match self {
            Self::CpuAtMost(most) => ratio <= most,
            Self::CpuAhead(least) | Self::RateAtLeast(least) => ratio >= least,
        };
        if met { "met" } else { "missed" }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CpuAtMost(most) => write!(f, "CPU <= {most:.2} x"),
            Self::CpuAhead(least) => write!(f, "CPU {least:.2} x ahead of"),
            Self::RateAtLeast(least) => write!(f, "requests/s >= {least:.2} x"),
        }
    }
}

impl fmt::Display for Goals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let about: Vec<&Goal> = GOALS
            .iter()
            .filter(|goal| self.measured.iter().any(|measured| measured.shape == goal.shape))
            .collect();
        let verdicts: Vec<(Option<f64>, &str)> = about
            .iter()
            .map(|goal| {
                let ratio = self.ratio(goal);
                (ratio, ratio.map_or("not measured", |ratio| goal.wanted.is_met(ratio)))
            })
            .collect();
        let count = |wanted: &str| verdicts.iter().filter(|(_, verdict)| *verdict == wanted).count();
        let [met, missed, unknown] = ["met", "missed", "not measured"].map(count);
        let title = format!("goals, by medians: {met} met, {missed} missed, {unknown} not measured");
        let mut table = Table::new(title, ["", "wanted", "than", "measured", "verdict"]);
        for (goal, (ratio, verdict)) in about.iter().zip(&verdicts) {
            let measured = ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
            let whose = format!("{}, {}", goal.shape.name(), goal.ours);
            table.row([
                whose,
                goal.wanted.to_string(),
                goal.other.to_owned(),
                measured,
                (*verdict).to_owned(),
            ]);
        }
        table.fmt(f)
    }
}
