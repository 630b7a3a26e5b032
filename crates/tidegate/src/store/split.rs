//! Plans whose charges are counted in several places: slots and servers of Redis, or this process and a shared store.
//!
//! Only one place at a time can decide its part as one. So each part is charged for itself. If every part is admitted, the
//! plan is. Else the parts that were admitted are given back. Until that is done they count, so other requests may be denied
//! meanwhile that would have been admitted; not the other way round, but for what a bucket gains meanwhile that several such
//! plans leave at once. If this process ends in between, they count until their windows are over.

use smallvec::{SmallVec, smallvec};
use tidegate_core::{Outcome, Timestamp, OutcomeKind};

use super::{LeaseReply, Reply, StoreError};
use crate::Outcomes;

/// Where the charges of a plan are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Placement<P> {
    /// All in one place.
    Whole(P),
    /// Not all in one place.
    Split(Vec<SplitPart<P>>),
}

/// The charges of a plan that are counted in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SplitPart<P> {
    pub location: P,
    /// Their positions in the plan.
    pub positions: SmallVec<[usize; 4]>,
}

impl<P: PartialEq + Copy> Placement<P> {
    /// The placement of charges by the place of each; none if there are no charges.
    pub(crate) fn from_locations(places: impl Iterator<Item = P>) -> Option<Self> {
        let mut parts: SmallVec<[SplitPart<P>; 1]> = SmallVec::new();
        for (position, place) in places.enumerate() {
            match parts.iter_mut().find(|part| part.location == place) {
                Some(part) => part.positions.push(position),
                None => parts.push(SplitPart { location: place, positions: smallvec![position] }),
            }
        }
        match &parts[..] {
            [] => None,
            [part] => Some(Self::Whole(part.location)),
            _ => Some(Self::Split(parts.into_vec())),
        }
    }
}

/// A plan in several places, each of which was asked to decide its part.
pub(crate) trait SplitPlan: Sync {
    type Location;
    /// What a place decided about its part.
    type PartReply: Send + Sync;
    /// Why a place did not answer. It may have charged its part nevertheless.
    type PartError: Send + Sync;
    /// A part on its way back.
    type PendingRefund: Send;

    fn parts(&self) -> &[SplitPart<Self::Location>];

    /// Whether a part was admitted, and when.
    fn part_decision(&self, part: &SplitPart<Self::Location>, answer: &Self::PartReply) -> (OutcomeKind, Timestamp);

    /// The outcomes of a part of a plan with this fate. A part that was admitted on its own may belong to a denied plan; what
    /// it charged is on its way back then.
    fn outcomes(&self, part: &SplitPart<Self::Location>, answer: &Self::PartReply, fate: OutcomeKind) -> Outcomes;

    /// The one lease of all parts, which were admitted. What cannot be made one is an error.
    fn merge_leases(
        &self,
        answers: &[Self::PartReply],
    ) -> impl Future<Output = Result<LeaseReply, StoreError>> + Send;

    /// Starts to give back what a part charged, or may have charged if it did not answer.
    fn refund_part(
        &self,
        part: &SplitPart<Self::Location>,
        answer: Result<&Self::PartReply, &Self::PartError>,
    ) -> Self::PendingRefund;

    /// Waits for parts on their way back, as long as there is time: a client that hears of the denial and asks for less then
    /// finds that nothing is charged.
    fn finish_refunds(&self, parts: Vec<Self::PendingRefund>) -> impl Future<Output = ()> + Send;

    fn store_error(&self, failure: &Self::PartError) -> StoreError;
}

/// Decides a plan by what each part was answered, in the order of the parts.
pub(crate) async fn decide<S: SplitPlan>(
    plan: &S,
    answers: Vec<Result<S::PartReply, S::PartError>>,
) -> Result<Reply, StoreError> {
    let answers = match all_ok(answers) {
        Ok(answers) => answers,
        Err(answers) => {
            for (part, answer) in plan.parts().iter().zip(&answers) {
                drop(plan.refund_part(part, answer.as_ref()));
            }
            let failure = answers.iter().find_map(|answer| answer.as_ref().err());
            return Err(failure.map_or(StoreError::TimedOut, |failure| plan.store_error(failure)));
        }
    };
    let parts = || plan.parts().iter().zip(&answers);
    let give_back = || parts().map(|(part, answer)| plan.refund_part(part, Ok(answer))).collect::<Vec<_>>();
    // Each place has a clock of its own. The earliest instant is the one that a refund can trust in every part.
    let decided = || parts().map(|(part, answer)| plan.part_decision(part, answer));
    let at = decided().map(|(_, at)| at).min().unwrap_or_default();
    let fate = decided().map(|(verdict, _)| verdict).max().unwrap_or(OutcomeKind::Allowed);
    if fate == OutcomeKind::Allowed {
        let outcomes = in_plan_order(parts().map(|(part, answer)| (part, plan.outcomes(part, answer, fate))));
        return match plan.merge_leases(&answers).await {
            Ok(lease) => Ok(Reply::new(at, outcomes).with_lease(lease)),
            Err(failure) => {
                drop(give_back());
                Err(failure)
            }
        };
    }
    let giving_back = give_back();
    let outcomes = in_plan_order(parts().map(|(part, answer)| (part, plan.outcomes(part, answer, fate))));
    plan.finish_refunds(giving_back).await;
    Ok(Reply::new(at, outcomes))
}

/// The answers of all parts; the answer or failure of each if one failed.
pub(crate) fn all_ok<A, F>(answers: Vec<Result<A, F>>) -> Result<Vec<A>, Vec<Result<A, F>>> {
    match answers.iter().all(Result::is_ok) {
        true => Ok(answers.into_iter().filter_map(Result::ok).collect()),
        false => Err(answers),
    }
}

/// Outcomes of parts as those of the plan.
fn in_plan_order<'a, P: 'a>(parts: impl Iterator<Item = (&'a SplitPart<P>, Outcomes)>) -> Outcomes {
    let mut placed: SmallVec<[(usize, Outcome); 8]> =
        parts.flat_map(|(part, outcomes)| part.positions.iter().copied().zip(outcomes)).collect();
    placed.sort_unstable_by_key(|(position, _)| *position);
    placed.into_iter().map(|(_, outcome)| outcome).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_with_the_same_location_form_one_part() {
        let Some(Placement::Split(parts)) = Placement::from_locations([3, 5, 3, 7, 5].into_iter()) else {
            panic!("they are apart")
        };
        let found: Vec<(u16, Vec<usize>)> =
            parts.iter().map(|part| (part.location, part.positions.to_vec())).collect();
        assert_eq!(found, [(3, vec![0, 2]), (5, vec![1, 4]), (7, vec![3])]);
        assert_eq!(Placement::from_locations([3, 3].into_iter()), Some(Placement::Whole(3)));
        assert_eq!(Placement::<u16>::from_locations([].into_iter()), None);
    }
}
