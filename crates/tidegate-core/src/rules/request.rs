//! The request: what every listener produces.

use super::{Attribute, RequestLimit};

/// One request. It borrows from the listener that received it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The domain whose rules apply.
    pub domain: &'a str,
    /// Each descriptor is matched on its own. The charges of all descriptors are made together or not at all.
    pub descriptors: &'a [Descriptor<'a>],
}

/// Attributes of a request, in order, and its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor<'a> {
    /// The attributes. A name may occur more than once.
    pub entries: &'a [Entry<'a>],
    /// The cost in units, unless a rule sets another. With zero nothing is charged, whatever the rules say.
    pub cost: u64,
    /// A limit that applies instead of the limits of rules.
    pub limit: Option<RequestLimit>,
}

/// One attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its name.
    pub key: &'a str,
    /// Its value.
    pub value: &'a str,
}

impl<'a> Descriptor<'a> {
    /// A descriptor with these attributes and this cost, limited by rules.
    pub const fn new(entries: &'a [Entry<'a>], cost: u64) -> Self {
        Self { entries, cost, limit: None }
    }

    /// The value of an attribute. If the name occurs more than once, the first.
    pub fn value(&self, attribute: &Attribute) -> Option<&'a str> {
        self.entries.iter().find(|entry| attribute.matches_key(entry.key)).map(|entry| entry.value)
    }
}
