//! A request that is decided when it is its turn.

use smallvec::SmallVec;
use tidegate_core::rules::{Action, Answer, Asked, Delay, Fate, LimitAnswer, Touches};
use tidegate_core::{Nanos, Plan, PlanFull, Timestamp, Wait};

use crate::Clock;
use crate::engine::Engine;
use crate::engine::in_force::Purpose;
use crate::engine::stages::Watch;
use crate::memory::{Foreseen, Foresight, MemoryStore, Pending};
use crate::waiting::{Attempt, Request};

/// The limits that may hold a request.
pub(in crate::engine) type Delays<'t> = SmallVec<[Delay<'t>; 2]>;

/// A request in the line of one of the limits that may hold it.
pub(super) struct Asking<'p, 't, 'r, C> {
    pub engine: &'p Engine<C>,
    pub touches: &'p Touches<'r>,
    pub delays: &'p [Delay<'t>],
    /// The one whose line it is in.
    pub delay: &'p Delay<'t>,
    pub line: &'p [u8],
    /// When it gives up.
    pub deadline: Timestamp,
    /// What it asks for when it is its turn.
    pub purpose: Purpose<'p>,
    pub watch: Watch<'p>,
}

/// What it leaves the line with.
#[allow(clippy::large_enum_variant, reason = "it stays on the stack, where a box would be an allocation")]
pub(super) enum Given<'r> {
    /// What the limits said.
    Answer(Answer<'r>),
    /// It touches too many.
    Full(PlanFull),
    /// It has to wait for the limit at this place among those that may hold it.
    WaitsFor(usize),
    /// It was asked too late.
    Late,
}

impl<'r, C: Clock> Asking<'_, '_, 'r, C> {
    fn settle(&self, at: Timestamp, purpose: Purpose<'_>) -> Attempt<Given<'r>> {
        let answer = match self.engine.settle(self.touches, at, purpose, self.watch) {
            Ok(answer) => answer,
            Err(full) => return Attempt::Declined(Given::Full(full)),
        };
        match judge(&answer, self.delays, self.delay) {
            Judged::Passes => Attempt::Admitted(Given::Answer(answer)),
            Judged::Denied => Attempt::Declined(Given::Answer(answer)),
            Judged::WaitsFor(place) => Attempt::Declined(Given::WaitsFor(place)),
            Judged::Waits(wait) => Attempt::Wait(wait),
        }
    }
}

/// What an answer means to a request that stands in line.
pub(in crate::engine) enum Judged {
    /// It passes.
    Passes,
    /// It does not, and need not wait.
    Denied,
    /// It has to wait for the limit at this place among those that may hold it.
    WaitsFor(usize),
    /// It has to wait where it is.
    Waits(Wait),
}

/// What an answer means to a request that stands in line for `delay`, one of the limits that may hold it.
pub(in crate::engine) fn judge(answer: &Answer<'_>, delays: &[Delay<'_>], delay: &Delay<'_>) -> Judged {
    if answer.fate.passes() {
        return Judged::Passes;
    }
    let mut blocking = answer.limits.iter().filter(|limit| !limit.fate.passes());
    if blocking.any(|limit| !holds(limit)) {
        return Judged::Denied;
    }
    // The longest wait comes first, so that it is known early if it is too long.
    let wait = |delay: &Delay<'_>| answer.limits[delay.place].outcome.retry_after;
    let longest = (0..delays.len()).rev().max_by_key(|place| wait(&delays[*place]));
    match longest {
        Some(place) if wait(&delays[place]) > wait(delay) => Judged::WaitsFor(place),
        _ => Judged::Waits(wait(delay)),
    }
}

/// Whether a denied request leaves a trace.
pub(in crate::engine) fn counts_denied(touches: &Touches<'_>, at: Timestamp) -> bool {
    touches.plan(at).is_ok_and(|drawn| {
        drawn.plan.charges().iter().any(|charge| charge.counter.algorithm().counts_denied())
    })
}

impl<'r, C: Clock> Request for Asking<'_, '_, 'r, C> {
    type Given = Given<'r>;

    fn line(&self) -> &[u8] {
        self.line
    }

    fn attempt(&self, at: Timestamp) -> Attempt<Given<'r>> {
        if self.deadline < at {
            return Attempt::Declined(Given::Late);
        }
        // A request that waits makes one attempt, when it leaves: it asks without asking until then.
        if counts_denied(self.touches, at)
            && let waits @ (Attempt::Wait(_) | Attempt::Declined(Given::WaitsFor(_))) =
                self.settle(at, Purpose::Look)
        {
            return waits;
        }
        self.settle(at, self.purpose)
    }

    /// It waits for its turn alone.
    fn held(&self, _: &Given<'r>) -> Nanos {
        Nanos::ZERO
    }

    /// It goes when it is admitted, so there is never anything to give back.
    fn give_back(&self, _: &Given<'r>) {}

    fn store(&self) -> &MemoryStore {
        &self.engine.store
    }

    fn plan(&self, now: Timestamp) -> Plan<'_> {
        self.delay.plan(now)
    }

    fn retires(&self, now: Timestamp) -> Option<Timestamp> {
        self.delay.retires(now)
    }

    fn admit(&self, foresight: &mut Foresight, plan: &Plan<'_>, pending: Pending) -> Foreseen {
        foresight.admit_undelayed(plan, pending)
    }
}

/// Whether a request that this limit denies waits for it.
fn holds(limit: &LimitAnswer<'_>) -> bool {
    let may_hold = matches!(limit.limit.action, Action::Delay { .. }) && limit.cost > 0;
    may_hold && limit.asked == Asked::Yes && limit.fate != Fate::Unavailable
}
