//! A request that is decided when it is its turn.

use smallvec::SmallVec;
use tidegate_core::rules::{Action, Answer, Asked, Delay, LimitAnswer, Touches};
use tidegate_core::{Nanos, Plan, PlanFull, Timestamp};

use crate::Clock;
use crate::engine::Engine;
use crate::engine::in_force::Asking as Purpose;
use crate::engine::stages::Watch;
use crate::memory::{Foreseen, Foresight, MemoryStore, Pending};
use crate::waiting::{Attempt, Request};

/// The limits that may hold a request.
pub(super) type Delays<'t> = SmallVec<[Delay<'t>; 2]>;

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
    /// What an answer means to a request in this line.
    fn judge(&self, answer: Answer<'r>) -> Attempt<Given<'r>> {
        let mut blocking = answer.limits.iter().filter(|limit| !limit.fate.passes());
        if answer.fate.passes() {
            return Attempt::Admitted(Given::Answer(answer));
        }
        if blocking.any(|limit| !holds(limit)) {
            return Attempt::Declined(Given::Answer(answer));
        }
        // The longest wait comes first, so that it is known early if it is too long.
        let wait = |delay: &Delay<'_>| answer.limits[delay.place].outcome.retry_after;
        let longest = (0..self.delays.len()).rev().max_by_key(|place| wait(&self.delays[*place]));
        match longest {
            Some(place) if wait(&self.delays[place]) > wait(self.delay) => {
                Attempt::Declined(Given::WaitsFor(place))
            }
            _ => Attempt::Wait(wait(self.delay)),
        }
    }

    fn settle(&self, at: Timestamp, purpose: Purpose<'_>) -> Attempt<Given<'r>> {
        match self.engine.settle(self.touches, at, purpose, self.watch) {
            Ok(answer) => self.judge(answer),
            Err(full) => Attempt::Declined(Given::Full(full)),
        }
    }

    /// Whether a denied request leaves a trace.
    fn counts_denied(&self, at: Timestamp) -> bool {
        self.touches.plan(at).is_ok_and(|drawn| {
            drawn.plan.charges().iter().any(|charge| charge.counter.algorithm().counts_denied())
        })
    }
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
        if self.counts_denied(at)
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
    matches!(limit.limit.action, Action::Delay { .. }) && limit.asked == Asked::Yes && limit.cost > 0
}
