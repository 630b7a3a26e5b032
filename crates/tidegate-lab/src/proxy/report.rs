//! The table and the goals.

use super::contender::{AxumKind, Contender, NginxKind, NginxTask};
use crate::cpu::Cpu;
use crate::goals::{Goal, Wanted};
use crate::measure::median;
use crate::table::Table;

/// One turn of a contender.
pub(super) struct Turn {
    /// CPU seconds per million requests.
    pub cpu: Cpu,
    pub per_second: f64,
}

/// All turns of a contender.
pub(super) struct ContenderTurns {
    pub contender: Contender,
    pub turns: Vec<Turn>,
    pub failed: Option<String>,
}

impl ContenderTurns {
    pub fn new(contender: Contender) -> Self {
        Self { contender, turns: Vec::new(), failed: None }
    }

    /// The median CPU time per request, in seconds per million. None if it failed.
    pub fn cost_s(&self) -> Option<f64> {
        let is_measured = self.failed.is_none() && !self.turns.is_empty();
        is_measured.then(|| median(self.turns.iter().map(|turn| turn.cpu.total_s())))
    }
}

fn cost_s(turns: &[ContenderTurns], contender: Contender) -> Option<f64> {
    turns.iter().find(|turns| turns.contender == contender)?.cost_s()
}

pub(super) fn table(all: &[ContenderTurns], missing: &[String]) -> Table {
    let heading = ["", "CPU us", "user", "system", "least-most", "x plain", "requests/s"];
    let mut table = Table::new("CPU time per request, of all processes", heading);
    for turns in all {
        let name = turns.contender.name().to_owned();
        let Some(total_s) = turns.cost_s() else {
            table.row([name, "failed".to_owned()]);
            continue;
        };
        let of = |figure: fn(&Turn) -> f64| median(turns.turns.iter().map(figure));
        let totals = || turns.turns.iter().map(|turn| turn.cpu.total_s());
        let (least, most) = (totals().fold(f64::INFINITY, f64::min), totals().fold(0.0, f64::max));
        let ratio = cost_s(all, turns.contender.plain()).map(|plain_s| format!("{:.2}", total_s / plain_s));
        table.row([
            name,
            format!("{total_s:.2}"),
            format!("{:.2}", of(|turn| turn.cpu.user_s)),
            format!("{:.2}", of(|turn| turn.cpu.system_s)),
            format!("{least:.2}-{most:.2}"),
            ratio.unwrap_or_default(),
            format!("{:.0}", of(|turn| turn.per_second)),
        ]);
    }
    let failed = all.iter().filter_map(|turns| {
        turns.failed.as_ref().map(|why| format!("{} failed: {why}", turns.contender.name()))
    });
    failed
        .chain(missing.iter().map(|missing| format!("not measured: {missing}")))
        .for_each(|note| table.note(note));
    table
}

/// Each goal: a contender, what it is compared with, and the most that the ratio may be.
/// The layer is compared as it is by default too, although it then sends more headers than the other one.
const GOALS: [(Contender, Contender, f64); 5] = {
    use AxumKind::{Governor, GovernorHeaders, Limits, LimitsNoHeaders, LimitsXRatelimit};
    const fn nginx(task: NginxTask) -> (Contender, Contender, f64) {
        (Contender::Nginx(task, NginxKind::AuthRequest), Contender::Nginx(task, NginxKind::Plain), 1.6)
    }
    [
        (Contender::Axum(LimitsNoHeaders), Contender::Axum(Governor), 1.0),
        (Contender::Axum(LimitsXRatelimit), Contender::Axum(GovernorHeaders), 1.0),
        (Contender::Axum(Limits), Contender::Axum(GovernorHeaders), 1.0),
        nginx(NginxTask::Proxy),
        nginx(NginxTask::File),
    ]
};

pub(super) fn goals(all: &[ContenderTurns]) -> Vec<Goal> {
    let goal = |(own, other, most): (Contender, Contender, f64)| Goal {
        what: format!("{}: times the CPU of {}", own.name(), other.name()),
        wanted: Wanted::AtMost(most),
        measured: cost_s(all, own).zip(cost_s(all, other)).map(|(own, other)| own / other),
        is_sound: true,
    };
    GOALS.into_iter().map(goal).collect()
}
