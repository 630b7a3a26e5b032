//! The rules that an index found.

use std::ops::Deref;

use smallvec::SmallVec;

/// The indices of the matching rules in the slice that was indexed, in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleMatches(SmallVec<[u32; 8]>);

impl RuleMatches {
    /// No rules.
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    /// All indices.
    #[inline]
    pub fn as_slice(&self) -> &[u32] {
        &self.0
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    #[inline]
    pub(super) fn push(&mut self, rule: u32) {
        self.0.push(rule);
    }
}

impl Deref for RuleMatches {
    type Target = [u32];

    #[inline]
    fn deref(&self) -> &[u32] {
        &self.0
    }
}

impl Extend<u32> for RuleMatches {
    #[inline]
    fn extend<I: IntoIterator<Item = u32>>(&mut self, rules: I) {
        self.0.extend(rules);
    }
}

impl FromIterator<u32> for RuleMatches {
    fn from_iter<I: IntoIterator<Item = u32>>(rules: I) -> Self {
        Self(rules.into_iter().collect())
    }
}

impl<'a> IntoIterator for &'a RuleMatches {
    type Item = &'a u32;
    type IntoIter = std::slice::Iter<'a, u32>;

    #[inline]
    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}
