//! Requests that are held: over a limit with the action `delay` a request waits for its turn instead of being denied.
//!
//! The lines are those of a limiter ([`crate::waiting`]), one for each counter and key of a limit with that action. A
//! request stands in one of them at a time. When it is its turn it is decided as a whole, by the rules that are in
//! force then, and leaves with that answer if it passes or if a limit denies it that holds nobody. If it is another
//! limit of that kind that it has to wait for longer, it goes to that one's line. It keeps its ticket, so wherever it
//! goes it stands in front of all that came after it, and nobody is held up by somebody who waits for something else.
//!
//! What a future goes by, the rules and the signals, it reads before it locks a line. Who changes any of it counts the
//! change before waking the front of every line, and a future that is about to sleep looks whether the count is still
//! what it was: so it either sees the change or is found in line by who made it.

mod asking;
mod deciding;
mod in_line;

pub(super) use asking::{Delays, Judged, counts_denied, judge};
pub use deciding::Deciding;
pub(super) use in_line::{at_least, span};

use std::cell::Cell;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;
use tidegate_core::rules::{Answer, Delay, Request, Touches};
use tidegate_core::{Nanos, PlanFull, Timestamp};

use super::in_force::Hold;
use super::{Engine, StageTimes, shared};
use crate::blocking::block_on;
use crate::{Clock, Lease, Refusal, Timer};

/// The answer to a request that may have been held.
#[derive(Clone, Debug)]
#[must_use = "an answer that is not looked at limits nothing"]
#[non_exhaustive]
pub struct Decided<'r> {
    /// What the limits say, as of when it was its turn. A `delay` in it has not been waited for.
    pub answer: Answer<'r>,
    /// How long the request was held, from when it asked until it was due.
    pub waited: Nanos,
    /// Why it was not held, or no longer, if a limit would have held it that denied it instead.
    pub refusal: Option<Refusal>,
    /// What it holds, if it asked [to hold](Engine::acquire) what it is given.
    pub lease: Option<Lease>,
    /// How long its stages took, if it is [timed](Deciding::timed).
    pub stages: Option<StageTimes>,
}

/// Deciding, with a wait where a rule says so.
impl<C: Timer> Engine<C> {
    /// Decides a request as [`InForce::check`](super::InForce::check) does, and holds it while nothing but limits with
    /// the action `delay` keep it from passing: first come first served, for no longer than their `max_wait`, and
    /// not at all if it is known that it would have to wait for longer.
    ///
    /// The answer points into the rules in force, which are not kept from being replaced while it waits. So it is
    /// handed to `answered`, and what that makes of it is what the future comes to.
    ///
    /// It waits for its turn and for nothing else: the `delay` that a leaky bucket asks for is in the answer, for the
    /// caller to wait for or to pass on. Nothing is charged before it is its turn. Dropped before that, the future
    /// leaves no hole in the line and has charged nothing. It has to be polled when it is woken, for those behind it
    /// wait for it.
    ///
    /// Over a store that is [shared](Self::sharing) it is decided there, and by this process's share of the limits while
    /// that does not answer. Dropped while that store is asked, a request may have been charged. Those who wait in this
    /// process stand in line as they do without it; requests of other processes are in no line with them, so units may
    /// go to whoever asks first. What is given back elsewhere is seen when the one in front asks again.
    ///
    /// ```
    /// use tidegate::Engine;
    /// use tidegate::rules::{self, Descriptor, Entry, Request};
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let file = "
    /// domain: api
    /// rules:
    ///   - { name: crawl, key: [host], limit: 2 per second, action: { delay: { max_wait: 5s } } }
    /// ";
    /// let engine = Engine::new(rules::parse("api.yaml", file)?.domains)?;
    ///
    /// let entries = [Entry { key: "host", value: "example.org" }];
    /// let request = Request { domain: "api", descriptors: &[Descriptor::new(&entries, 1)] };
    /// let passes = engine.decide(&request, |decided| decided.answer.fate.passes()).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn decide<'a, R, F>(
        &'a self,
        request: &Request<'a>,
        answered: F,
    ) -> Deciding<'a, C, F, impl Future<Output = Result<R, PlanFull>> + use<'a, R, F, C>>
    where
        F: FnOnce(Decided<'_>) -> R,
    {
        Deciding::new(self, *request, answered, None, shared::decide)
    }

    /// As [`decide`](Self::decide), with the [lease](Decided::lease) of what concurrency limits gave, as of
    /// [`InForce::acquire`](super::InForce::acquire). A lease that is given back wakes the request in front.
    pub fn acquire<'a, R, F>(
        &'a self,
        request: &Request<'a>,
        ttl: Option<Nanos>,
        answered: F,
    ) -> Deciding<'a, C, F, impl Future<Output = Result<R, PlanFull>> + use<'a, R, F, C>>
    where
        F: FnOnce(Decided<'_>) -> R,
    {
        let hold = Hold { ttl, lease: Cell::new(None) };
        Deciding::new(self, *request, answered, Some(hold), shared::decide)
    }

    /// As [`decide`](Self::decide), with the thread at hand.
    pub fn decide_blocking<R>(
        &self,
        request: &Request<'_>,
        answered: impl FnOnce(Decided<'_>) -> R,
    ) -> Result<R, PlanFull> {
        block_on(self.decide(request, answered))
    }
}

impl<C: Clock> Engine<C> {
    /// Tells whoever is in front of a line for what these touches touch that units may have come back.
    pub(super) fn nudge(&self, touches: &Touches<'_>, now: Timestamp) {
        touches.lines().for_each(|delay| self.kin.nudge(&line(&delay), now));
    }

    /// The rules or a signal have changed: those who wait are to look at them.
    pub(super) fn changed(&self) {
        self.changes.fetch_add(1, Ordering::Release);
        self.queues.nudge_all(self.clock.now());
    }

    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }
}

/// What a line is known by: the counter and the key.
pub(super) type Line = SmallVec<[u8; LINE_INLINE_BYTES]>;

/// As long as the keys of a request are where they need no allocation, neither does this.
const LINE_INLINE_BYTES: usize = 200;

pub(super) fn line(delay: &Delay<'_>) -> Line {
    let mut line = Line::from_slice(&delay.counter().get().to_le_bytes());
    line.extend_from_slice(delay.key);
    line
}
