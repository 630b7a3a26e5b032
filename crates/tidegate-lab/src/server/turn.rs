//! A turn: one load, and the CPU time that the server took for it.

use super::check::check_answer;
use super::load::{self, LoadSpec};
use super::load_kind::LoadKind;
use super::running::RunningServer;
use super::target::Target;
use crate::cpu::Cpu;
use crate::scratch::ScratchDir;

/// The warm-up is this fraction of a turn.
const WARM_UP_FRACTION: u64 = 10;

/// The cost of a turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerTurn {
    /// CPU seconds of the server per million requests.
    pub own: Cpu,
    /// CPU seconds of its Redis, if it has one.
    pub backing: Option<Cpu>,
    pub per_second: f64,
}

/// The length of a turn.
#[derive(Clone, Copy)]
pub(super) struct TurnSize {
    pub requests: u64,
    pub per_second: f64,
}

/// Checks one answer, then loads the server for a short time. Returns its requests per second.
pub(super) fn warm_up(
    kind: LoadKind,
    target: &Target,
    running: &RunningServer,
    requests: u64,
    scratch: &ScratchDir,
) -> Result<f64, String> {
    let port = running.port(kind.protocol());
    check_answer(&target.request, port)?;
    let in_flight = kind.in_flight();
    let requests = load::requests(kind, requests) / WARM_UP_FRACTION;
    let requests = requests.max(u64::from(in_flight.connections * in_flight.per_connection));
    let request = &target.request;
    let result = load::run(&LoadSpec { request, port, in_flight, requests, per_second: None, scratch })?;
    Ok(result.per_second)
}

/// Runs a turn. It checks an answer before and after it.
pub(super) fn take(
    kind: LoadKind,
    target: &Target,
    running: &RunningServer,
    size: TurnSize,
    scratch: &ScratchDir,
) -> Result<ServerTurn, String> {
    let port = running.port(kind.protocol());
    check_answer(&target.request, port)?;
    let ended = || "the server has ended".to_owned();
    let (before, backing_before) = (running.cpu().ok_or_else(ended)?, running.backing_cpu());
    let result = load::run(&LoadSpec {
        request: &target.request,
        port,
        in_flight: kind.in_flight(),
        requests: load::requests(kind, size.requests),
        per_second: Some(size.per_second),
        scratch,
    })?;
    let (after, backing_after) = (running.cpu().ok_or_else(ended)?, running.backing_cpu());
    check_answer(&target.request, port)?;
    let backing = backing_after
        .zip(backing_before)
        .map(|(after, before)| (after - before).per_million(result.requests));
    Ok(ServerTurn {
        own: (after - before).per_million(result.requests),
        backing,
        per_second: result.per_second,
    })
}
