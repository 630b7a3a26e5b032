//! What every listener produces.

use super::RequestLimit;

/// One request: a domain and what is known of it, borrowed from whoever received it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Whose rules apply.
    pub domain: &'a str,
    /// Each is matched by itself; what all of them touch is charged together or not at all.
    pub descriptors: &'a [Descriptor<'a>],
}

/// Attributes of a request, in their order, and what it costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor<'a> {
    /// The attributes. A name may stand twice.
    pub entries: &'a [Entry<'a>],
    /// Units, where a rule does not say otherwise. Zero asks without charging, whatever rules say.
    pub cost: u64,
    /// A limit of its own, instead of those of rules.
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
    /// These attributes, at this cost, limited by rules.
    pub const fn new(entries: &'a [Entry<'a>], cost: u64) -> Self {
        Self { entries, cost, limit: None }
    }
}
