//! Plans whose keys are in several slots or servers: a call of the script needs all its keys in one slot of one server.
//!
//! All parts are asked at the same time. What becomes of the plan then is decided in [`split`](crate::store::split).

use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_core::{Op, Outcome, Timestamp, Verdict};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::deny_cache::Denials;
use super::desk::{Answer, Answered, Effect, Unanswered};
use super::giving_back::{GivenBack, UnderWay, give_back};
use super::leasing::{Unclaimed, holds_leases};
use super::order::{Order, OrderCharge};
use super::script::{Seen, counts_from, outcomes_of};
use super::servers::Place;
use super::store::{Asking, Inner, Patience};
use crate::store::split::{Part, SplitPlan, all, decide};
use crate::store::{LeaseReply, Reply};
use crate::{Outcomes, StoreFailure};

/// A plan in several slots or servers.
pub(super) struct Split {
    pub inner: Arc<Inner>,
    pub order: Order,
    pub parts: Vec<Part<Place>>,
    pub patience: Patience,
}

impl Split {
    /// Decides the plan; changes nothing if it is only looked at.
    pub(super) fn decide(self) -> JoinHandle<Result<(Reply, Unclaimed), StoreFailure>> {
        let asked = self.ask();
        let under_way = UnderWay::begin(&self.inner);
        // It goes on whether or not anybody waits for it: what was charged for nothing has to be given back.
        self.inner.runtime.clone().spawn(async move {
            let reply = decide(&self, answers(asked).await).await?;
            // The lease is given back if the caller does not take it.
            let releases = match reply.lease {
                LeaseReply::Held(_) => self.parts.iter().filter_map(|part| self.release(part)).collect(),
                _ => Vec::new(),
            };
            Ok((reply, Unclaimed::new(under_way, releases)))
        })
    }

    /// Does to each part what can be done to each for itself.
    pub(super) fn change(self) -> JoinHandle<Result<(), StoreFailure>> {
        let asked = self.ask();
        self.inner.runtime.spawn(async move { all_answered(asked).await.map(drop) })
    }

    /// Puts an order for each part, now.
    pub(super) fn ask(&self) -> Vec<Asking> {
        self.inner.office.counters.splits.add(1);
        // What is to be learned from a denial is known when all parts are.
        let patience = Patience { denials: Denials::NotKept, ..self.patience };
        let ask = |part: &Part<Place>| self.inner.put(part.place, self.part(part, self.order.op), patience);
        self.parts.iter().map(ask).collect()
    }

    fn part(&self, part: &Part<Place>, op: Op) -> Order {
        // All may turn out to be denied because one part is, and then the states say what that means for each.
        Order::keeping_states(op, self.charges(part).cloned().collect()).owned_by(self.order.owner)
    }

    pub(super) fn charges<'a>(&'a self, part: &'a Part<Place>) -> impl Iterator<Item = &'a OrderCharge> {
        part.positions.iter().filter_map(|position| self.order.charges.get(*position))
    }

    /// The charges of a part that was admitted, but for those that stay or are released. One that only looked on and did
    /// not fit took less than its cost, so it stays.
    fn refunded(&self, part: &Part<Place>, seen: &Seen) -> Charges {
        let states = seen.states.as_deref().unwrap_or(&[]);
        let charges = self.charges(part).zip(states).zip(&seen.outcomes);
        let is_refunded = |charge: &OrderCharge, outcome: &Outcome| {
            outcome.verdict == Verdict::Allowed && !charge.algorithm.counts_denied() && !holds_leases(charge)
        };
        charges
            .filter(|((charge, _), outcome)| is_refunded(charge, outcome))
            .map(|((charge, state), _)| OrderCharge {
                counts_from: Some(counts_from(charge, state, seen.at)),
                ..charge.clone()
            })
            .collect()
    }
}

impl SplitPlan for Split {
    type Place = Place;
    type Answer = Answered;
    type Failure = Unanswered;
    type GivingBack = Vec<JoinHandle<()>>;

    fn parts(&self) -> &[Part<Place>] {
        &self.parts
    }

    fn decided(&self, _: &Part<Place>, answer: &Answered) -> (Verdict, Timestamp) {
        (answer.seen.admitted, answer.seen.at)
    }

    fn outcomes(&self, part: &Part<Place>, answer: &Answered, fate: Verdict) -> Outcomes {
        let seen = &answer.seen;
        if fate == Verdict::Allowed {
            return seen.outcomes.clone();
        }
        let charges: Charges = self.charges(part).cloned().collect();
        let states = seen.states.as_deref().unwrap_or(&[]);
        match seen.admitted {
            Verdict::Denied => {
                if self.patience.denials == Denials::Kept {
                    self.inner.office.deny_cache.keep(&charges, states, answer.when);
                }
                seen.outcomes.clone()
            }
            Verdict::Allowed => outcomes_of(&charges, states, seen.at, Verdict::Denied),
        }
    }

    async fn one_lease(&self, answers: &[Answered]) -> Result<LeaseReply, StoreFailure> {
        Ok(self.lease_of(answers).await?.map_or(LeaseReply::None, LeaseReply::Held))
    }

    /// Gives back what a part was charged for nothing, but for what counts denied attempts. A part that was denied was charged
    /// nothing. Of a part that did not answer only leases are given back: a release does nothing where there is none.
    fn give_back(&self, part: &Part<Place>, answer: Result<&Answered, &Unanswered>) -> Vec<JoinHandle<()>> {
        let (refund, release) = match answer {
            Ok(answer) if self.order.op.charges() && answer.seen.admitted == Verdict::Allowed => {
                let order = Order::new(Op::Refund { charged_at: None }, self.refunded(part, &answer.seen));
                // Denials are kept only of plans of which every charge is refunded, so there is a state for each.
                let states = answer.seen.states.clone().filter(|_| self.patience.denials == Denials::Kept);
                let before = states.map(|states| (states, answer.when));
                let refund = GivenBack { place: part.place, order, before };
                (Some(refund).filter(|refund| !refund.order.charges.is_empty()), self.release(part))
            }
            Err(Unanswered { effect: Effect::Unknown, .. }) => (None, self.release(part)),
            _ => (None, None),
        };
        [refund, release].into_iter().flatten().map(|part| give_back(&self.inner, part)).collect()
    }

    async fn given_back(&self, parts: Vec<Vec<JoinHandle<()>>>) {
        let _ = timeout_at(self.patience.just_before(Instant::now()), async {
            for part in parts.into_iter().flatten() {
                let _ = part.await;
            }
        })
        .await;
    }

    fn failure(&self, failure: &Unanswered) -> StoreFailure {
        failure.why.clone()
    }
}

type Charges = SmallVec<[OrderCharge; 2]>;

/// What each part was answered.
async fn answers(asked: Vec<Asking>) -> Vec<Answer> {
    let mut answers: Vec<Answer> = Vec::with_capacity(asked.len());
    for asking in asked {
        let lost = Unanswered::unasked(StoreFailure::RuntimeGone);
        answers.push(asking.await.unwrap_or(Err(lost)));
    }
    answers
}

/// What all parts were answered, or why one was not.
pub(super) async fn all_answered(asked: Vec<Asking>) -> Result<Vec<Answered>, StoreFailure> {
    all(answers(asked).await).map_err(|answers| {
        let unanswered = answers.into_iter().find_map(Result::err);
        unanswered.map_or(StoreFailure::TimedOut, |unanswered| unanswered.why)
    })
}
