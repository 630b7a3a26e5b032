//! A request as it was read.

use std::borrow::Cow;

use serde_core::de::Error;
use smallvec::SmallVec;
use tidegate::Nanos;
use tidegate::rules::{Descriptor, Entry, OwnedDescriptor, OwnedRequest};

use super::OwnedJsonRequest;

/// So many entries, of all descriptors together, need no allocation.
const ENTRIES_INLINE: usize = 4;
/// So many descriptors need no allocation.
const DESCRIPTORS_INLINE: usize = 2;

/// A request that was read. What it says is borrowed from the JSON it was read from, where that has no escapes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JsonRequest<'j> {
    /// Whose rules apply, if it says so. Not empty if the form asks for it.
    pub domain: Option<Cow<'j, str>>,
    /// How long to hold what is acquired, if it says so.
    pub ttl: Option<Ttl>,
    /// What was acquired; not empty if the form asks for it.
    pub token: Option<Cow<'j, str>>,
    /// The entries of all descriptors, one descriptor after the other.
    pub(super) entries: SmallVec<[JsonEntry<'j>; ENTRIES_INLINE]>,
    pub(super) descriptors: SmallVec<[DescriptorSpan; DESCRIPTORS_INLINE]>,
}

/// How long to hold what is acquired: a millisecond at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ttl(Nanos);

/// The shortest [`Ttl`].
const TTL_NS_MIN: u128 = 1_000_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JsonEntry<'j> {
    pub key: Cow<'j, str>,
    pub value: Cow<'j, str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DescriptorSpan {
    /// Where its entries end, and those of the next begin.
    pub entries_end: usize,
    pub cost: u64,
}

/// The entries of a request as the engine takes them. Its descriptors borrow from this.
#[derive(Debug)]
pub struct EntryRefs<'a> {
    entries: SmallVec<[Entry<'a>; ENTRIES_INLINE]>,
    descriptors: &'a [DescriptorSpan],
}

impl Ttl {
    pub(super) fn from_nanos<E: Error>(nanos: u128) -> Result<Self, E> {
        match nanos {
            TTL_NS_MIN.. => Ok(Self(Nanos::new(nanos))),
            _ => Err(E::custom(
                "the ttl is shorter than a millisecond (hint: leave it out for the limit's own)",
            )),
        }
    }

    /// As a span.
    pub fn nanos(self) -> Nanos {
        self.0
    }
}

impl JsonRequest<'_> {
    /// Lends its entries.
    ///
    /// ```
    /// use tidegate::rules::Request;
    /// use tidegate_server::request_json::{Form, read_one};
    ///
    /// let read = read_one(br#"{"domain": "api", "attributes": {"user": "42"}}"#, Form::Check).unwrap();
    /// let entries = read.entries();
    /// let request = Request { domain: read.domain(), descriptors: &entries.descriptors() };
    /// assert_eq!(request.descriptors[0].entries[0].value, "42");
    /// ```
    pub fn entry_refs(&self) -> EntryRefs<'_> {
        let entries = self.entries.iter().map(|entry| Entry { key: &entry.key, value: &entry.value });
        EntryRefs { entries: entries.collect(), descriptors: &self.descriptors }
    }

    /// Its domain; empty if it names none.
    pub fn domain(&self) -> &str {
        self.domain.as_deref().unwrap_or_default()
    }

    /// The same, to keep.
    pub fn into_owned(self) -> OwnedJsonRequest {
        let mut entries =
            self.entries.into_iter().map(|entry| (entry.key.into(), entry.value.into())).collect::<Vec<_>>();
        let mut descriptors: Vec<OwnedDescriptor> = Vec::with_capacity(self.descriptors.len());
        let mut start = 0;
        let mut rest = entries.drain(..);
        for DescriptorSpan { entries_end, cost } in self.descriptors {
            let entries = rest.by_ref().take(entries_end - start).collect();
            descriptors.push(OwnedDescriptor { entries, cost, limit: None });
            start = entries_end;
        }
        OwnedJsonRequest { domain: self.domain.map(Cow::into_owned), request: OwnedRequest { descriptors } }
    }
}

impl EntryRefs<'_> {
    /// The descriptors of the request.
    pub fn descriptors(&self) -> SmallVec<[Descriptor<'_>; DESCRIPTORS_INLINE]> {
        let mut start = 0;
        let each = self.descriptors.iter().map(|DescriptorSpan { entries_end, cost }| {
            let entries = &self.entries[start..*entries_end];
            start = *entries_end;
            Descriptor::new(entries, *cost)
        });
        each.collect()
    }
}
