//! Plans whose keys are in several slots or servers.
//!
//! Redis decides a call as one only where all its keys are in one place. So each part of such a plan is checked for itself,
//! all at the same time. If every part is admitted the plan is. Else those parts that were admitted are given back, and for
//! as long as that takes they count: others may be denied meanwhile that would have been admitted, and not the other way
//! round, but for what a bucket gains meanwhile that several such plans leave at once. If this process ends in between, they count until their windows are over.

use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_core::{Op, Outcome, Verdict};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::deny_cache::Denials;
use super::desk::{Answer, Answered, Effect, Unanswered};
use super::giving_back::{GivenBack, UnderWay, give_back};
use super::leasing::{Unclaimed, holds_leases};
use super::order::{Order, OrderCharge};
use super::parts::Part;
use super::script::{Seen, counts_from, outcomes_of};
use super::store::{Asking, Inner, Patience};
use crate::store::{LeaseReply, Reply};
use crate::{Outcomes, StoreFailure};

/// A plan in several places.
pub(super) struct Split {
    pub inner: Arc<Inner>,
    pub order: Order,
    pub parts: Vec<Part>,
    pub patience: Patience,
}

impl Split {
    /// Decides the plan; changes nothing if it is only looked at.
    pub(super) fn decide(self) -> JoinHandle<Result<(Reply, Unclaimed), StoreFailure>> {
        let asked = self.ask();
        let under_way = UnderWay::begin(&self.inner);
        // It goes on whether or not anybody waits for it: what was charged for nothing has to be given back.
        self.inner.runtime.clone().spawn(async move {
            match all(asked).await {
                Ok(answers) => {
                    let (reply, releases) = self.settle(answers).await?;
                    Ok((reply, Unclaimed::new(under_way, releases)))
                }
                Err(answers) => {
                    let parts = || self.parts.iter().zip(&answers);
                    drop(
                        self.give_back(
                            parts().filter_map(|(part, answer)| Some((part, answer.as_ref().ok()?))),
                        ),
                    );
                    let is_unknown = |answer: &Answer| {
                        answer.as_ref().is_err_and(|unanswered| unanswered.effect == Effect::Unknown)
                    };
                    let unknown = parts().filter(|(_, answer)| is_unknown(answer));
                    let releases = unknown.filter_map(|(part, _)| self.release(part));
                    releases.for_each(|release| drop(give_back(&self.inner, release)));
                    Err(failure_of(&answers))
                }
            }
        })
    }

    /// Does to each part what can be done to each for itself.
    pub(super) fn change(self) -> JoinHandle<Result<(), StoreFailure>> {
        let asked = self.ask();
        self.inner
            .runtime
            .spawn(async move { all(asked).await.map(|_| ()).map_err(|answers| failure_of(&answers)) })
    }

    /// Puts an order for each part, now.
    pub(super) fn ask(&self) -> Vec<Asking> {
        self.inner.office.counters.splits.add(1);
        // What is to be learned from a denial is known when all parts are.
        let patience = Patience { denials: Denials::NotKept, ..self.patience };
        let ask = |part: &Part| self.inner.put(part.place, self.part(part, self.order.op), patience);
        self.parts.iter().map(ask).collect()
    }

    fn part(&self, part: &Part, op: Op) -> Order {
        // All may turn out to be denied because one part is, and then the states say what that means for each.
        Order::keeping_states(op, part.charges_of(&self.order).cloned().collect()).owned_by(self.order.owner)
    }

    /// What comes of it if every part was answered, and what gives back the lease in it if nobody takes that.
    async fn settle(&self, answers: Vec<Answered>) -> Result<(Reply, Vec<GivenBack>), StoreFailure> {
        // Each server has a clock of its own. The earliest instant is the one that a refund can trust in every part.
        let at = answers.iter().map(|answer| answer.seen.at).min().unwrap_or_default();
        if answers.iter().all(is_admitted) {
            let outcomes = self.in_order(answers.iter().map(|answer| answer.seen.outcomes.clone()));
            return match self.one_lease(&answers).await {
                Ok(lease) => {
                    let releases = self.parts.iter().filter_map(|part| self.release(part)).collect();
                    let lease = lease.map_or(LeaseReply::None, LeaseReply::Held);
                    Ok((Reply::decided(at, outcomes).with_lease(lease), releases))
                }
                Err(why) => {
                    drop(self.give_back(self.parts.iter().zip(&answers)));
                    Err(why)
                }
            };
        }
        let outcomes = self.parts.iter().zip(&answers).map(|(part, answer)| self.denied(part, answer));
        let outcomes = self.in_order(outcomes);
        let given_back = self.give_back(self.parts.iter().zip(&answers));
        // Who hears of the denial and asks for less finds that all is as it was, if there is the time.
        let _ = timeout_at(self.patience.just_before(Instant::now()), async {
            for given_back in given_back {
                let _ = given_back.await;
            }
        })
        .await;
        Ok((Reply::decided(at, outcomes), Vec::new()))
    }

    /// The outcomes of a part of a plan that is denied, whatever this part alone was told.
    fn denied(&self, part: &Part, answer: &Answered) -> Outcomes {
        let seen = &answer.seen;
        let charges: Charges = part.charges_of(&self.order).cloned().collect();
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

    /// Outcomes of parts as those of the plan.
    fn in_order(&self, parts: impl Iterator<Item = Outcomes>) -> Outcomes {
        let placed = self.parts.iter().zip(parts);
        let mut placed: SmallVec<[(usize, Outcome); 8]> =
            placed.flat_map(|(part, outcomes)| part.charges.clone().into_iter().zip(outcomes)).collect();
        placed.sort_unstable_by_key(|(at, _)| *at);
        placed.into_iter().map(|(_, outcome)| outcome).collect()
    }

    /// Gives back what parts were charged for nothing, but for what counts denied attempts. Those that were denied were
    /// charged nothing.
    fn give_back<'a>(&self, answered: impl Iterator<Item = (&'a Part, &'a Answered)>) -> Vec<JoinHandle<()>> {
        let charges = matches!(self.order.op, Op::Check | Op::Acquire { .. });
        let charged = answered.filter(|(_, answer)| charges && is_admitted(answer));
        let orders = charged.flat_map(|(part, answer)| {
            let order = Order::new(Op::Refund { charged_at: None }, self.refunded(part, &answer.seen));
            // Denials are kept only of plans of which every charge is refunded, so there is a state for each.
            let states = answer.seen.states.clone().filter(|_| self.patience.denials == Denials::Kept);
            let before = states.map(|states| (states, answer.when));
            let refund = GivenBack { place: part.place, order, before };
            let refund = Some(refund).filter(|refund| !refund.order.charges.is_empty());
            [refund, self.release(part)].into_iter().flatten()
        });
        orders.map(|part| give_back(&self.inner, part)).collect()
    }

    /// The charges of a part that was admitted, but for those that stay or are released. One that only looked on and did
    /// not fit took less than its cost, so it stays.
    fn refunded(&self, part: &Part, seen: &Seen) -> Charges {
        let states = seen.states.as_deref().unwrap_or(&[]);
        let charges = part.charges_of(&self.order).zip(states).zip(&seen.outcomes);
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

type Charges = SmallVec<[OrderCharge; 2]>;

fn is_admitted(answer: &Answered) -> bool {
    answer.seen.admitted == Verdict::Allowed
}

/// What all parts were answered; if one was not, what became of each.
pub(super) async fn all(asked: Vec<Asking>) -> Result<Vec<Answered>, Vec<Answer>> {
    let mut answers: Vec<Answer> = Vec::with_capacity(asked.len());
    for asking in asked {
        let lost = Unanswered::unasked(StoreFailure::RuntimeGone);
        answers.push(asking.await.unwrap_or(Err(lost)));
    }
    match answers.iter().all(Result::is_ok) {
        true => Ok(answers.into_iter().flatten().collect()),
        false => Err(answers),
    }
}

/// Why not all of them were answered.
pub(super) fn failure_of(answers: &[Answer]) -> StoreFailure {
    let unanswered = answers.iter().find_map(|answer| answer.as_ref().err());
    unanswered.map_or(StoreFailure::TimedOut, |unanswered| unanswered.why.clone())
}
