//! Looking at every rule.
#![allow(missing_docs)]

use super::{Apply, Descriptor, Rule};
pub type Matches = smallvec::SmallVec<[u32; 8]>;
#[derive(Debug)]
pub struct Index;
impl Index {
    pub fn new(_: &[Rule]) -> Self {
        Self
    }
    pub fn matching(&self, rules: &[Rule], descriptor: &Descriptor<'_>, apply: Apply, matches: &mut Matches) {
        let all = (0..).zip(rules).filter(|(_, rule)| rule.mismatch(descriptor).is_none()).map(|(n, _)| n);
        matches.extend(all.take(if apply == Apply::First { 1 } else { usize::MAX }));
    }
}
