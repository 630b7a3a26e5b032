//! A turn: a load, and the processor time that the server took for it.

use super::contender::Contender;
use super::cpu::Cpu;
use super::running::Running;
use super::scratch::Scratch;
use super::shape::Shape;
use super::{ask, load};

/// A server is warm after this part of a turn.
const WARM_UP_PART: u64 = 10;

/// What a turn took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    /// Of the server, seconds per million requests.
    pub own: Cpu,
    /// Of what it cannot do without; none if it needs nothing.
    pub backing: Option<Cpu>,
    pub per_second: f64,
}

/// How long a turn is.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub requests: u64,
    pub per_second: f64,
}

/// Asks once, then loads the server for a short while. Hands out how many requests it does in a second.
pub(super) fn warm_up(
    shape: Shape,
    contender: &Contender,
    running: &Running,
    requests: u64,
    scratch: &Scratch,
) -> Result<f64, String> {
    let port = running.port(shape.wire());
    ask::ask(&contender.question, port)?;
    let requests = load::requests(shape, requests) / WARM_UP_PART;
    let requests = requests.max(u64::from(shape.width().connections * shape.width().at_once));
    let (question, width) = (&contender.question, shape.width());
    let done = load::run(&load::Order { question, port, width, requests, per_second: None, scratch })?;
    Ok(done.per_second)
}

/// One turn, between two requests whose answers are checked.
pub(super) fn take(
    shape: Shape,
    contender: &Contender,
    running: &Running,
    size: Size,
    scratch: &Scratch,
) -> Result<Turn, String> {
    let port = running.port(shape.wire());
    ask::ask(&contender.question, port)?;
    let gone = || "the server has ended".to_owned();
    let (before, backing_before) = (running.cpu().ok_or_else(gone)?, running.backing_cpu());
    let done = load::run(&load::Order {
        question: &contender.question,
        port,
        width: shape.width(),
        requests: load::requests(shape, size.requests),
        per_second: Some(size.per_second),
        scratch,
    })?;
    let (after, backing_after) = (running.cpu().ok_or_else(gone)?, running.backing_cpu());
    ask::ask(&contender.question, port)?;
    let backing =
        backing_after.zip(backing_before).map(|(after, before)| (after - before).per_million(done.requests));
    Ok(Turn { own: (after - before).per_million(done.requests), backing, per_second: done.per_second })
}
