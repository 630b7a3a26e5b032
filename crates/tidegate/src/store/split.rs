//! Plans whose charges are counted in several places: slots and servers of Redis, or this process and a shared store.
//!
//! Only one place at a time can decide its part as one. So each part is charged for itself. If every part is admitted, the
//! plan is. Else the parts that were admitted are given back. Until that is done they count, so other requests may be denied
//! meanwhile that would have been admitted; not the other way round, but for what a bucket gains meanwhile that several such
//! plans leave at once. If this process ends in between, they count until their windows are over.

use smallvec::{SmallVec, smallvec};
use tidegate_core::{Outcome, Timestamp, Verdict};

use super::{LeaseReply, Reply, StoreFailure};
use crate::Outcomes;

/// Where the charges of a plan are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Placement<P> {
    /// All in one place.
    Whole(P),
    /// Not all in one place.
    Split(Vec<Part<P>>),
}

/// The charges of a plan that are counted in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part<P> {
    pub place: P,
    /// Their positions in the plan.
    pub positions: SmallVec<[usize; 4]>,
}

impl<P: PartialEq + Copy> Placement<P> {
    /// The placement of charges by the place of each; none if there are no charges.
    pub(crate) fn of(places: impl Iterator<Item = P>) -> Option<Self> {
        let mut parts: SmallVec<[Part<P>; 1]> = SmallVec::new();
        for (position, place) in places.enumerate() {
            match parts.iter_mut().find(|part| part.place == place) {
                Some(part) => part.positions.push(position),
                None => parts.push(Part { place, positions: smallvec![position] }),
            }
        }
        match &parts[..] {
            [] => None,
            [part] => Some(Self::Whole(part.place)),
            _ => Some(Self::Split(parts.into_vec())),
        }
    }
}

impl<P> Part<P> {
    /// The charges of this part, out of all of the plan.
    #[cfg(feature = "redis")]
    pub(crate) fn charges_of<'a, C>(&'a self, charges: &'a [C]) -> impl Iterator<Item = &'a C> {
        self.positions.iter().filter_map(|position| charges.get(*position))
    }
}

/// A plan in several places, each of which was asked to decide its part.
pub(crate) trait SplitPlan: Sync {
    type Place;
    /// What a place decided about its part.
    type Answer: Send + Sync;
    /// Why a place did not answer. It may have charged its part nevertheless.
    type Failure: Send + Sync;
    /// A part on its way back.
    type GivingBack: Send;

    fn parts(&self) -> &[Part<Self::Place>];

    /// Whether a part was admitted, and when.
    fn decided(&self, part: &Part<Self::Place>, answer: &Self::Answer) -> (Verdict, Timestamp);

    /// The outcomes of a part of a plan with this fate. A part that was admitted on its own may belong to a denied plan; what
    /// it charged is on its way back then.
    fn outcomes(&self, part: &Part<Self::Place>, answer: &Self::Answer, fate: Verdict) -> Outcomes;

    /// The one lease of all parts, which were admitted. What cannot be made one is an error.
    fn one_lease(
        &self,
        answers: &[Self::Answer],
    ) -> impl Future<Output = Result<LeaseReply, StoreFailure>> + Send;

    /// Starts to give back what a part charged, or may have charged if it did not answer.
    fn give_back(
        &self,
        part: &Part<Self::Place>,
        answer: Result<&Self::Answer, &Self::Failure>,
    ) -> Self::GivingBack;

    /// Waits for parts on their way back, as long as there is time: a client that hears of the denial and asks for less then
    /// finds that nothing is charged.
    fn given_back(&self, parts: Vec<Self::GivingBack>) -> impl Future<Output = ()> + Send;

    fn failure(&self, failure: &Self::Failure) -> StoreFailure;
}

/// Decides a plan by what each part was answered, in the order of the parts.
pub(crate) async fn decide<S: SplitPlan>(
    plan: &S,
    answers: Vec<Result<S::Answer, S::Failure>>,
) -> Result<Reply, StoreFailure> {
    let answers = match all(answers) {
        Ok(answers) => answers,
        Err(answers) => {
            for (part, answer) in plan.parts().iter().zip(&answers) {
                drop(plan.give_back(part, answer.as_ref()));
            }
            let failure = answers.iter().find_map(|answer| answer.as_ref().err());
            return Err(failure.map_or(StoreFailure::TimedOut, |failure| plan.failure(failure)));
        }
    };
    let parts = || plan.parts().iter().zip(&answers);
    let give_back = || parts().map(|(part, answer)| plan.give_back(part, Ok(answer))).collect::<Vec<_>>();
    // Each place has a clock of its own. The earliest instant is the one that a refund can trust in every part.
    let decided = || parts().map(|(part, answer)| plan.decided(part, answer));
    let at = decided().map(|(_, at)| at).min().unwrap_or_default();
    let fate = decided().map(|(verdict, _)| verdict).max().unwrap_or(Verdict::Allowed);
    if fate == Verdict::Allowed {
        let outcomes = in_order(parts().map(|(part, answer)| (part, plan.outcomes(part, answer, fate))));
        return match plan.one_lease(&answers).await {
            Ok(lease) => Ok(Reply::decided(at, outcomes).with_lease(lease)),
            Err(failure) => {
                drop(give_back());
                Err(failure)
            }
        };
    }
    let giving_back = give_back();
    let outcomes = in_order(parts().map(|(part, answer)| (part, plan.outcomes(part, answer, fate))));
    plan.given_back(giving_back).await;
    Ok(Reply::decided(at, outcomes))
}

/// The answers of all parts; the answer or failure of each if one failed.
pub(crate) fn all<A, F>(answers: Vec<Result<A, F>>) -> Result<Vec<A>, Vec<Result<A, F>>> {
    match answers.iter().all(Result::is_ok) {
        true => Ok(answers.into_iter().filter_map(Result::ok).collect()),
        false => Err(answers),
    }
}

/// Outcomes of parts as those of the plan.
fn in_order<'a, P: 'a>(parts: impl Iterator<Item = (&'a Part<P>, Outcomes)>) -> Outcomes {
    let mut placed: SmallVec<[(usize, Outcome); 8]> =
        parts.flat_map(|(part, outcomes)| part.positions.iter().copied().zip(outcomes)).collect();
    placed.sort_unstable_by_key(|(position, _)| *position);
    placed.into_iter().map(|(_, outcome)| outcome).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_of_one_place_are_one_part_wherever_they_are_in_the_plan() {
        let Some(Placement::Split(parts)) = Placement::of([3, 5, 3, 7, 5].into_iter()) else {
            panic!("they are apart")
        };
        let found: Vec<(u16, Vec<usize>)> =
            parts.iter().map(|part| (part.place, part.positions.to_vec())).collect();
        assert_eq!(found, [(3, vec![0, 2]), (5, vec![1, 4]), (7, vec![3])]);
        assert_eq!(Placement::of([3, 3].into_iter()), Some(Placement::Whole(3)));
        assert_eq!(Placement::<u16>::of([].into_iter()), None);
    }
}
