//! A request as it is read, from the request to its entries.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};
use tidegate_core::rules::{RequestLimit, TimeUnit};

use super::scalars::{OptionSeed, Uint32, Uint64, deserialize_or_default, deserialize_unit};
use crate::json::{ObjectSeed, request_bounds};
use crate::serve::rls::RlsError;

/// A request that was read and not yet validated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct JsonRlsRequest {
    #[serde(deserialize_with = "deserialize_or_default")]
    pub(super) domain: String,
    #[serde(deserialize_with = "deserialize_descriptors")]
    pub(super) descriptors: Vec<JsonDescriptor>,
    #[serde(deserialize_with = "deserialize_or_default", alias = "hits_addend")]
    pub(super) hits_addend: Uint32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct JsonDescriptor {
    #[serde(deserialize_with = "deserialize_entries")]
    pub entries: Vec<JsonRlsEntry>,
    #[serde(deserialize_with = "deserialize_limit")]
    pub limit: Option<JsonLimit>,
    #[serde(alias = "hits_addend")]
    pub hits_addend: Option<Uint64>,
    #[serde(deserialize_with = "deserialize_or_default", alias = "is_negative_hits")]
    pub is_negative_hits: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct JsonRlsEntry {
    #[serde(deserialize_with = "deserialize_or_default")]
    pub key: String,
    #[serde(deserialize_with = "deserialize_or_default")]
    pub value: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct JsonLimit {
    #[serde(default, deserialize_with = "deserialize_or_default", alias = "requests_per_unit")]
    pub requests_per_unit: Uint32,
    #[serde(deserialize_with = "deserialize_unit")]
    pub unit: TimeUnit,
}

impl JsonLimit {
    pub(super) fn to_request_limit(self) -> RequestLimit {
        RequestLimit { units: self.requests_per_unit.get(), per: self.unit }
    }
}

pub(super) fn request_seed() -> ObjectSeed<JsonRlsRequest> {
    ObjectSeed::new(
        "a request (hint: {\"domain\": \"api\", \"descriptors\": [{\"entries\": [{\"key\": \"user\", \"value\": \"42\"}]}]})",
    )
}

fn deserialize_descriptors<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<JsonDescriptor>, D::Error> {
    let expecting = "a descriptor (hint: {\"entries\": [{\"key\": \"user\", \"value\": \"42\"}]})";
    let list = ListSeed {
        item: ObjectSeed::new(expecting),
        len_max: request_bounds().descriptors_max,
        too_long: RlsError::TooManyDescriptors,
    };
    OptionSeed(list).deserialize(deserializer).map(Option::unwrap_or_default)
}

fn deserialize_entries<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<JsonRlsEntry>, D::Error> {
    let expecting = "an entry (hint: {\"key\": \"user\", \"value\": \"42\"})";
    let list = ListSeed {
        item: ObjectSeed::new(expecting),
        len_max: request_bounds().entries_max,
        too_long: RlsError::TooManyEntries,
    };
    OptionSeed(list).deserialize(deserializer).map(Option::unwrap_or_default)
}

fn deserialize_limit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<JsonLimit>, D::Error> {
    let expecting = "a limit (hint: {\"requestsPerUnit\": 10, \"unit\": \"MINUTE\"})";
    OptionSeed(ObjectSeed::new(expecting)).deserialize(deserializer)
}

/// A list of bounded length.
struct ListSeed<S> {
    item: S,
    len_max: usize,
    too_long: RlsError,
}

impl<'de, S: DeserializeSeed<'de> + Copy> DeserializeSeed<'de> for ListSeed<S> {
    type Value = Vec<S::Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, S: DeserializeSeed<'de> + Copy> Visitor<'de> for ListSeed<S> {
    type Value = Vec<S::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list (hint: use [brackets], even for one)")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = seq.next_element_seed(self.item)? {
            if list.len() == self.len_max {
                return Err(A::Error::custom(self.too_long));
            }
            list.push(item);
        }
        Ok(list)
    }
}
