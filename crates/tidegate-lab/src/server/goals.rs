//! The goals for `tidegate serve`.

use super::load_kind::LoadKind;
use super::report::LoadReport;
use crate::goals::{Goal, Wanted};

pub(super) const EMPTY: &str = "empty server";
pub(super) const THROTTLE: &str = "tidegate CL.THROTTLE";
pub(super) const CHECK: &str = "tidegate check";
pub(super) const REDIS_CELL: &str = "redis-cell CL.THROTTLE";
pub(super) const THROTTLECRAB: &str = "throttlecrab-server";
pub(super) const RATELIMIT: &str = "envoyproxy/ratelimit";
pub(super) const GUBERNATOR: &str = "gubernator";

/// A comparison of two servers under one load.
struct ServerGoal {
    load: LoadKind,
    own: &'static str,
    other: &'static str,
    ratio: Ratio,
}

#[derive(Clone, Copy)]
enum Ratio {
    /// Own CPU time / other CPU time, at most this.
    CpuAtMost(f64),
    /// Other CPU time / own CPU time, at least this.
    CpuLessBy(f64),
    /// Own requests per second / other requests per second, at least this.
    RateAtLeast(f64),
}

const GOALS: [ServerGoal; 16] = {
    use LoadKind::{GrpcDeep, GrpcWide, Http, Resp, RespPipelined};
    use Ratio::{CpuAtMost, CpuLessBy, RateAtLeast};
    const fn goal(load: LoadKind, own: &'static str, other: &'static str, ratio: Ratio) -> ServerGoal {
        ServerGoal { load, own, other, ratio }
    }
    [
        goal(Resp, THROTTLE, EMPTY, CpuAtMost(1.15)),
        goal(Resp, CHECK, EMPTY, CpuAtMost(1.15)),
        goal(RespPipelined, THROTTLE, EMPTY, CpuAtMost(2.0)),
        goal(RespPipelined, CHECK, EMPTY, CpuAtMost(2.0)),
        goal(RespPipelined, THROTTLE, REDIS_CELL, RateAtLeast(2.0)),
        goal(RespPipelined, CHECK, REDIS_CELL, RateAtLeast(2.0)),
        goal(Http, CHECK, EMPTY, CpuAtMost(1.15)),
        goal(Http, CHECK, THROTTLECRAB, CpuLessBy(1.25)),
        goal(GrpcWide, CHECK, EMPTY, CpuLessBy(1.0)),
        goal(GrpcWide, CHECK, THROTTLECRAB, CpuLessBy(1.0)),
        goal(GrpcWide, CHECK, RATELIMIT, CpuLessBy(3.0)),
        goal(GrpcWide, CHECK, GUBERNATOR, CpuLessBy(3.0)),
        goal(GrpcDeep, CHECK, EMPTY, CpuLessBy(1.0)),
        goal(GrpcDeep, CHECK, THROTTLECRAB, CpuLessBy(1.0)),
        goal(GrpcDeep, CHECK, RATELIMIT, CpuLessBy(3.0)),
        goal(GrpcDeep, CHECK, GUBERNATOR, CpuLessBy(3.0)),
    ]
};

/// The goals for the measured loads.
pub(super) fn goals(reports: &[LoadReport]) -> Vec<Goal> {
    let of_load = |load: LoadKind| GOALS.iter().filter(move |goal| goal.load == load);
    reports.iter().flat_map(|report| of_load(report.load).map(|goal| goal.compare(report))).collect()
}

impl ServerGoal {
    fn compare(&self, report: &LoadReport) -> Goal {
        let costs = report.cost(self.own).zip(report.cost(self.other));
        let (ratio, wanted, measured) = match self.ratio {
            Ratio::CpuAtMost(most) => (
                "times the CPU of",
                Wanted::AtMost(most),
                costs.map(|(own, other)| own.total_s / other.total_s),
            ),
            Ratio::CpuLessBy(least) => (
                "times less CPU than",
                Wanted::AtLeast(least),
                costs.map(|(own, other)| other.total_s / own.total_s),
            ),
            Ratio::RateAtLeast(least) => (
                "times the requests/s of",
                Wanted::AtLeast(least),
                costs.map(|(own, other)| own.per_second / other.per_second),
            ),
        };
        let what = format!("{}, {}: {ratio} {}", self.load.name(), self.own, self.other);
        Goal { what, wanted, measured, is_sound: true }
    }
}
