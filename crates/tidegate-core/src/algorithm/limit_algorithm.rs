//! The interface of all algorithms.

use super::CountDenied;
use crate::{ChargeDecision, Nanos, Outcome, OutcomeKind, Role, TimedCost, Timestamp, Wait};

/// What every algorithm can do with a state.
///
/// A store first asks every limit of a plan whether the cost fits, then charges all of them or none, then collects the
/// outcomes.
pub trait LimitAlgorithm {
    /// What is kept for a key. The default is a key that was never seen.
    type State: Default + Clone;

    /// Whether the cost fits now. Does not change the state.
    fn outcome_kind(&self, state: &Self::State, request: TimedCost) -> OutcomeKind;

    /// Charges the cost, whether it fits or not. The cost is at least one.
    fn charge(&self, state: &mut Self::State, request: TimedCost);

    /// Charges a request that passes although its cost does not fit, because this limit is only
    /// [observed](Role::Observed). The cost is at least one and does not fit.
    ///
    /// The limit is over afterwards. Windows and logs count every request and forget it with time, so they charge as
    /// usual. A bucket would get a debt that grows with every such request and would never recover, so it is emptied
    /// and no further. A refund does not know about this and gives back the whole cost.
    #[inline]
    fn charge_over_limit(&self, state: &mut Self::State, request: TimedCost) {
        self.charge(state, request);
    }

    /// Gives back a cost that was charged and not used, as if the newest units had not been taken. Units that were
    /// dropped because the limit was over without them do not come back.
    fn refund(&self, state: &mut Self::State, request: TimedCost);

    /// Whether the state belongs to a window that began after an instant. A charge made at that instant is then not in
    /// the window, or only in the part that is carried over from the window before.
    #[inline]
    fn window_began_after(&self, _state: &Self::State, _instant: Timestamp) -> bool {
        false
    }

    /// The instant from which a cost charged at `now` counts, given the state before the charge.
    /// [`refund_charged`](Self::refund_charged) needs it.
    #[inline]
    fn counts_from(&self, _state: &Self::State, now: Timestamp) -> Timestamp {
        now
    }

    /// Gives back a cost that [counts from](Self::counts_from) an instant, no matter how much was used since.
    /// Afterwards the state admits nothing that would be denied if the cost had never been charged. So units that
    /// cannot be told apart from later charges are not given back.
    fn refund_charged(&self, state: &mut Self::State, request: TimedCost, from: Timestamp) {
        if !self.window_began_after(state, from) {
            self.refund(state, request);
        }
    }

    /// Charges a cost that was used elsewhere since `from`, whether it fits or not. Units of a window that is over do
    /// not count any more, and a bucket has drained since then. Logs and leases count it as used now.
    fn count_since(&self, state: &mut Self::State, request: TimedCost, _from: Timestamp) {
        self.charge(state, request);
    }

    /// The largest cost that would fit now.
    fn remaining(&self, state: &Self::State, now: Timestamp) -> u64;

    /// The shortest wait, possibly none, after which the cost would fit if there were no other requests.
    fn wait(&self, state: &Self::State, request: TimedCost) -> Wait;

    /// The shortest wait after which the state equals that of a key that was never seen.
    fn reset_after(&self, state: &Self::State, now: Timestamp) -> Nanos;

    /// How long a request that was just charged must be held.
    #[inline]
    fn delay(&self, _state: &Self::State, _request: TimedCost) -> Nanos {
        Nanos::ZERO
    }

    /// The units counted beyond the limit. Zero for algorithms that do not know it.
    #[inline]
    fn over(&self, _state: &Self::State, _now: Timestamp) -> u64 {
        0
    }

    /// Which denied attempts are charged too.
    #[inline]
    fn count_denied(&self) -> CountDenied {
        CountDenied::Never
    }

    /// Whether a request is charged, given the decision on its plan. An allowed request is charged to every limit, a
    /// denied one only to limits that count denied attempts. A cost of zero is never charged.
    #[inline]
    fn is_charged(&self, request: TimedCost, charge_decision: ChargeDecision) -> bool {
        let is_due = match self.count_denied() {
            CountDenied::Never => charge_decision.decision == OutcomeKind::Allowed,
            CountDenied::Always => true,
            CountDenied::IfOver => {
                !charge_decision.is_any_over || charge_decision.outcome == OutcomeKind::Denied
            }
        };
        request.cost > 0 && is_due
    }

    /// Charges a request for which [`is_charged`](Self::is_charged) is true.
    #[inline]
    fn charge_decided(&self, state: &mut Self::State, request: TimedCost, charge_decision: ChargeDecision) {
        match (charge_decision.outcome, charge_decision.decision) {
            (OutcomeKind::Denied, OutcomeKind::Allowed) => self.charge_over_limit(state, request),
            _ => self.charge(state, request),
        }
    }

    /// Charges the request if [`is_charged`](Self::is_charged) is true.
    #[inline]
    fn charge_if_due(&self, state: &mut Self::State, request: TimedCost, charge_decision: ChargeDecision) {
        if self.is_charged(request, charge_decision) {
            self.charge_decided(state, request, charge_decision);
        }
    }

    /// The outcome of this limit, from the state after the request.
    #[inline]
    fn outcome(&self, state: &Self::State, request: TimedCost, charge_decision: ChargeDecision) -> Outcome {
        let is_delayed = charge_decision.role == Role::Enforced
            && charge_decision.decision == OutcomeKind::Allowed
            && request.cost > 0;
        Outcome {
            kind: charge_decision.outcome,
            remaining: self.remaining(state, request.now),
            retry_after: if charge_decision.has_retry_after() {
                self.wait(state, request)
            } else {
                Wait::NONE
            },
            reset_after: self.reset_after(state, request.now),
            over: self.over(state, request.now),
            delay: if is_delayed { self.delay(state, request) } else { Nanos::ZERO },
        }
    }

    /// A small state for which [`remaining`](Self::remaining) and [`reset_after`](Self::reset_after) return the same as
    /// for this one.
    #[inline]
    fn summary(&self, state: &Self::State, _now: Timestamp) -> Self::State {
        state.clone()
    }

    /// The [`outcome`](Self::outcome) that would follow [`charge_if_due`](Self::charge_if_due). Does not change the
    /// state.
    fn preview(&self, state: &Self::State, request: TimedCost, charge_decision: ChargeDecision) -> Outcome {
        if !self.is_charged(request, charge_decision) {
            return self.outcome(state, request, charge_decision);
        }
        // Only the retry time depends on more than the summary has.
        let mut after =
            if charge_decision.has_retry_after() { state.clone() } else { self.summary(state, request.now) };
        self.charge_decided(&mut after, request, charge_decision);
        self.outcome(&after, request, charge_decision)
    }

    /// Decides a request that only this limit applies to, and charges it if it passes.
    #[inline]
    fn decide(&self, state: &mut Self::State, request: TimedCost) -> Outcome {
        let charge_decision = ChargeDecision::of_one(self.outcome_kind(state, request));
        self.charge_if_due(state, request, charge_decision);
        self.outcome(state, request, charge_decision)
    }
}
