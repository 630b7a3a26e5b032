//! A request as it was read.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error};
use smallvec::SmallVec;
use tidegate::Nanos;
use tidegate::rules::{Descriptor, Entry, OwnedDescriptor, OwnedRequest};

use super::OwnedJsonRequest;
use super::fields::TextSeed;

/// Up to this many entries, of all descriptors together, need no allocation.
const ENTRIES_INLINE: usize = 4;
/// Up to this many descriptors need no allocation.
const DESCRIPTORS_INLINE: usize = 2;

/// A request that was read. It borrows text without escapes from the JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JsonRequest<'j> {
    /// The domain whose rules apply. Not empty if the form requires it.
    pub domain: Option<Cow<'j, str>>,
    /// How long to hold what is acquired, if given.
    pub ttl: Option<Ttl>,
    /// The token of what was acquired. Not empty if the form requires it.
    pub token: Option<Cow<'j, str>>,
    /// The entries of all descriptors, one descriptor after the other.
    pub(super) entries: SmallVec<[JsonEntry<'j>; ENTRIES_INLINE]>,
    pub(super) descriptors: SmallVec<[DescriptorSpan; DESCRIPTORS_INLINE]>,
}

/// How long to hold what is acquired: at least a millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ttl(Nanos);

/// The shortest [`Ttl`].
const TTL_NS_MIN: u128 = 1_000_000;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JsonEntry<'j> {
    #[serde(borrow, deserialize_with = "deserialize_text")]
    pub key: Cow<'j, str>,
    #[serde(borrow, deserialize_with = "deserialize_text")]
    pub value: Cow<'j, str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DescriptorSpan {
    /// Index where its entries end and those of the next descriptor begin.
    pub entries_end: usize,
    pub cost: u64,
}

/// The entries of a request for the engine. The descriptors borrow from it.
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
                "the ttl is shorter than a millisecond (hint: omit it to use the ttl of the limit)",
            )),
        }
    }

    /// As nanoseconds.
    pub fn nanos(self) -> Nanos {
        self.0
    }
}

impl JsonRequest<'_> {
    /// Borrows its entries.
    ///
    /// ```
    /// use tidegate::rules::Request;
    /// use tidegate_server::json::{RequestForm, read_single};
    ///
    /// let read = read_single(br#"{"domain": "api", "attributes": {"user": "42"}}"#, RequestForm::Check).unwrap();
    /// let entries = read.entry_refs();
    /// let request = Request { domain: read.domain(), descriptors: &entries.descriptors() };
    /// assert_eq!(request.descriptors[0].entries[0].value, "42");
    /// ```
    pub fn entry_refs(&self) -> EntryRefs<'_> {
        let entries = self.entries.iter().map(|entry| Entry { key: &entry.key, value: &entry.value });
        EntryRefs { entries: entries.collect(), descriptors: &self.descriptors }
    }

    /// The domain, or an empty string.
    pub fn domain(&self) -> &str {
        self.domain.as_deref().unwrap_or_default()
    }

    /// Converts it to a request that owns its text.
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
        let descriptors = self.descriptors.iter().map(|DescriptorSpan { entries_end, cost }| {
            let entries = &self.entries[start..*entries_end];
            start = *entries_end;
            Descriptor::new(entries, *cost)
        });
        descriptors.collect()
    }
}

/// Borrows the text if it has no escapes.
fn deserialize_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Cow<'de, str>, D::Error> {
    TextSeed("a key or value").deserialize(deserializer)
}
