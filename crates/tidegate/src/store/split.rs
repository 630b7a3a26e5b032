//! Plans with charges in several locations: slots and servers of Redis, or this process and a shared store.
//!
//! A location can decide only its own part atomically, so each part is charged separately. If every part is admitted,
//! the plan is admitted. Otherwise the admitted parts are refunded. Until then they count, so other requests may be
//! denied meanwhile that would have been admitted. The reverse does not happen, with one exception: a bucket may gain a
//! few milliseconds of refill if several such plans leave it at the same time. If this process ends before the refund,
//! the parts count until their windows are over.
//!
//! Other requests may be charged before the refund arrives. Therefore a refund says from when on the charge counts,
//! which follows from the states before it, and it does not affect later charges (`LimitAlgorithm::refund_charged`).

use smallvec::{SmallVec, smallvec};
use tidegate_core::{Outcome, OutcomeKind, Timestamp};

use super::{LeaseReply, Reply, StoreError};
use crate::Outcomes;

/// Where the charges of a plan are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Placement<P> {
    /// All in one location.
    Whole(P),
    /// In several locations.
    Split(Vec<SplitPart<P>>),
}

/// The charges of a plan in one location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SplitPart<P> {
    pub location: P,
    /// Their positions in the plan.
    pub positions: SmallVec<[usize; 4]>,
}

impl<P: PartialEq + Copy> Placement<P> {
    /// Groups the charges of a plan by location. None if there are no charges.
    pub(crate) fn from_locations(locations: impl Iterator<Item = P>) -> Option<Self> {
        let mut parts: SmallVec<[SplitPart<P>; 1]> = SmallVec::new();
        for (position, location) in locations.enumerate() {
            match parts.iter_mut().find(|part| part.location == location) {
                Some(part) => part.positions.push(position),
                None => parts.push(SplitPart { location, positions: smallvec![position] }),
            }
        }
        match &parts[..] {
            [] => None,
            [part] => Some(Self::Whole(part.location)),
            _ => Some(Self::Split(parts.into_vec())),
        }
    }
}

/// A plan in several locations, each of which was asked to decide its part.
pub(crate) trait SplitPlan: Sync {
    type Location;
    /// The decision of a location about its part.
    type PartReply: Send + Sync;
    /// Why a location did not answer. It may have charged its part nevertheless.
    type PartError: Send + Sync;
    /// A refund of a part that was started.
    type PendingRefund: Send;

    fn parts(&self) -> &[SplitPart<Self::Location>];

    /// Whether a part was admitted, and when.
    fn part_decision(
        &self,
        part: &SplitPart<Self::Location>,
        reply: &Self::PartReply,
    ) -> (OutcomeKind, Timestamp);

    /// The outcomes of a part, given the decision of the whole plan. A part that was admitted may belong to a denied
    /// plan. Then its refund has been started.
    fn outcomes(
        &self,
        part: &SplitPart<Self::Location>,
        reply: &Self::PartReply,
        decision: OutcomeKind,
    ) -> Outcomes;

    /// Merges the leases of all parts, which were admitted. Fails if they cannot be merged.
    fn merge_leases(
        &self,
        replies: &[Self::PartReply],
    ) -> impl Future<Output = Result<LeaseReply, StoreError>> + Send;

    /// Starts to refund what a part charged, or may have charged if it did not answer.
    fn refund_part(
        &self,
        part: &SplitPart<Self::Location>,
        reply: Result<&Self::PartReply, &Self::PartError>,
    ) -> Self::PendingRefund;

    /// Waits for refunds, as long as there is time. A client that sees the denial and then asks for less finds nothing
    /// charged.
    fn finish_refunds(&self, parts: Vec<Self::PendingRefund>) -> impl Future<Output = ()> + Send;

    fn store_error(&self, failure: &Self::PartError) -> StoreError;
}

/// Decides a plan from the replies of its parts, in the order of the parts.
pub(crate) async fn decide<S: SplitPlan>(
    plan: &S,
    replies: Vec<Result<S::PartReply, S::PartError>>,
) -> Result<Reply, StoreError> {
    let replies = match all_ok(replies) {
        Ok(replies) => replies,
        Err(replies) => {
            for (part, reply) in plan.parts().iter().zip(&replies) {
                drop(plan.refund_part(part, reply.as_ref()));
            }
            let failure = replies.iter().find_map(|reply| reply.as_ref().err());
            return Err(failure.map_or(StoreError::TimedOut, |failure| plan.store_error(failure)));
        }
    };
    let parts = || plan.parts().iter().zip(&replies);
    let start_refunds = || parts().map(|(part, reply)| plan.refund_part(part, Ok(reply))).collect::<Vec<_>>();
    // Each location has its own clock. The earliest instant is safe for a refund in every part.
    let part_decisions = || parts().map(|(part, reply)| plan.part_decision(part, reply));
    let at = part_decisions().map(|(_, at)| at).min().unwrap_or_default();
    let decision = part_decisions().map(|(kind, _)| kind).max().unwrap_or(OutcomeKind::Allowed);
    if decision == OutcomeKind::Allowed {
        let outcomes =
            in_plan_order(parts().map(|(part, reply)| (part, plan.outcomes(part, reply, decision))));
        return match plan.merge_leases(&replies).await {
            Ok(lease) => Ok(Reply::new(at, outcomes).with_lease(lease)),
            Err(failure) => {
                drop(start_refunds());
                Err(failure)
            }
        };
    }
    let refunds = start_refunds();
    let outcomes = in_plan_order(parts().map(|(part, reply)| (part, plan.outcomes(part, reply, decision))));
    plan.finish_refunds(refunds).await;
    Ok(Reply::new(at, outcomes))
}

/// The replies of all parts. If a part failed, all results.
pub(crate) fn all_ok<A, F>(replies: Vec<Result<A, F>>) -> Result<Vec<A>, Vec<Result<A, F>>> {
    match replies.iter().all(Result::is_ok) {
        true => Ok(replies.into_iter().filter_map(Result::ok).collect()),
        false => Err(replies),
    }
}

/// The outcomes of the parts, in the order of the plan.
pub(crate) fn in_plan_order<'a, P: 'a>(
    parts: impl Iterator<Item = (&'a SplitPart<P>, Outcomes)>,
) -> Outcomes {
    let mut ordered: SmallVec<[(usize, Outcome); 8]> =
        parts.flat_map(|(part, outcomes)| part.positions.iter().copied().zip(outcomes)).collect();
    ordered.sort_unstable_by_key(|(position, _)| *position);
    ordered.into_iter().map(|(_, outcome)| outcome).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_with_the_same_location_form_one_part() {
        let Some(Placement::Split(parts)) = Placement::from_locations([3, 5, 3, 7, 5].into_iter()) else {
            panic!("the charges are in several locations")
        };
        let grouped: Vec<(u16, Vec<usize>)> =
            parts.iter().map(|part| (part.location, part.positions.to_vec())).collect();
        assert_eq!(grouped, [(3, vec![0, 2]), (5, vec![1, 4]), (7, vec![3])]);
        assert_eq!(Placement::from_locations([3, 3].into_iter()), Some(Placement::Whole(3)));
        assert_eq!(Placement::<u16>::from_locations([].into_iter()), None);
    }
}
