//! The outcomes of a plan.

use std::fmt;
use std::ops::{Deref, DerefMut};

use smallvec::SmallVec;
use tidegate_core::Outcome;

/// Most plans have one or two charges.
type OutcomeVec = SmallVec<[Outcome; 2]>;

/// One outcome per charge of a plan, in the plan's order. Dereferences to a slice. Up to two outcomes need no
/// allocation.
///
/// A store builds it with `collect`.
#[derive(Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct Outcomes(OutcomeVec);

/// The outcomes of a plan, by value.
#[derive(Clone, Debug)]
pub struct OutcomesIntoIter(smallvec::IntoIter<[Outcome; 2]>);

impl Outcomes {
    /// The outcomes of an empty plan.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Deref for Outcomes {
    type Target = [Outcome];

    #[inline]
    fn deref(&self) -> &[Outcome] {
        &self.0
    }
}

impl DerefMut for Outcomes {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Outcome] {
        &mut self.0
    }
}

impl FromIterator<Outcome> for Outcomes {
    #[inline]
    fn from_iter<I: IntoIterator<Item = Outcome>>(outcomes: I) -> Self {
        Self(outcomes.into_iter().collect())
    }
}

impl Extend<Outcome> for Outcomes {
    #[inline]
    fn extend<I: IntoIterator<Item = Outcome>>(&mut self, outcomes: I) {
        self.0.extend(outcomes);
    }
}

impl IntoIterator for Outcomes {
    type Item = Outcome;
    type IntoIter = OutcomesIntoIter;

    #[inline]
    fn into_iter(self) -> OutcomesIntoIter {
        OutcomesIntoIter(self.0.into_iter())
    }
}

impl<'a> IntoIterator for &'a Outcomes {
    type Item = &'a Outcome;
    type IntoIter = std::slice::Iter<'a, Outcome>;

    #[inline]
    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl Iterator for OutcomesIntoIter {
    type Item = Outcome;

    #[inline]
    fn next(&mut self) -> Option<Outcome> {
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for OutcomesIntoIter {}

impl fmt::Debug for Outcomes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}
