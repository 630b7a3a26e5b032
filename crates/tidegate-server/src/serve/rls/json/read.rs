//! The parts of a request, from the whole to its entries.

use std::fmt;

use serde_core::Deserialize;
use serde_core::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use tidegate_core::rules::RequestLimit;

use super::scalars::{OptionSeed, StringSeed, BoolSeed, UnitSeed, WholeNumberSeed};
use crate::json::{DESCRIPTORS_MAX, ENTRIES_MAX, read_field, unknown_field};
use crate::serve::rls::{RlsError, RlsUnit};

/// A request that was read, not yet checked for what a request needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JsonRlsRequest {
    pub(super) domain: String,
    pub(super) descriptors: Vec<JsonDescriptor>,
    pub(super) hits_addend: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct JsonDescriptor {
    pub entries: Vec<(String, String)>,
    pub limit: Option<RequestLimit>,
    pub hits_addend: Option<u64>,
    pub is_negative_hits: bool,
}

impl<'de> Deserialize<'de> for JsonRlsRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(RlsRequestVisitor)
    }
}

struct RlsRequestVisitor;

impl<'de> Visitor<'de> for RlsRequestVisitor {
    type Value = JsonRlsRequest;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a request (hint: {\"domain\": \"api\", \"descriptors\": [{\"entries\": [{\"key\": \"user\", \"value\": \"42\"}]}]})",
        )
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonRlsRequest, A::Error> {
        let (mut domain, mut descriptors, mut hits) = (None, None, None);
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "domain" => read_field(&mut map, &name, &mut domain, OptionSeed(StringSeed("the domain")))?,
                "descriptors" => {
                    let list =
                        ListSeed { item: RlsDescriptorSeed, max: DESCRIPTORS_MAX, full: RlsError::TooManyDescriptors };
                    read_field(&mut map, &name, &mut descriptors, OptionSeed(list))?;
                }
                "hitsAddend" | "hits_addend" => {
                    let hits_addend = WholeNumberSeed { what: "`hitsAddend` of a request", max: u32::MAX.into() };
                    read_field(&mut map, &name, &mut hits, OptionSeed(hits_addend))?;
                }
                _ => return Err(unknown_field("a request", &name, &["domain", "descriptors", "hitsAddend"])),
            }
        }
        let hits = hits.flatten().unwrap_or_default();
        Ok(JsonRlsRequest {
            domain: domain.flatten().unwrap_or_default(),
            descriptors: descriptors.flatten().unwrap_or_default(),
            hits_addend: u32::try_from(hits).unwrap_or(u32::MAX),
        })
    }
}

/// A list of so many at most.
struct ListSeed<S> {
    item: S,
    max: usize,
    full: RlsError,
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
        f.write_str("a list (hint: in [brackets], even of one)")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut all = Vec::new();
        while let Some(one) = seq.next_element_seed(self.item)? {
            if all.len() == self.max {
                return Err(A::Error::custom(self.full));
            }
            all.push(one);
        }
        Ok(all)
    }
}

#[derive(Clone, Copy)]
struct RlsDescriptorSeed;

impl<'de> DeserializeSeed<'de> for RlsDescriptorSeed {
    type Value = JsonDescriptor;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<JsonDescriptor, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for RlsDescriptorSeed {
    type Value = JsonDescriptor;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a descriptor (hint: {\"entries\": [{\"key\": \"user\", \"value\": \"42\"}]})")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonDescriptor, A::Error> {
        let (mut entries, mut limit, mut hits, mut negative) = (None, None, None, None);
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "entries" => {
                    let list = ListSeed { item: RlsEntrySeed, max: ENTRIES_MAX, full: RlsError::TooManyEntries };
                    read_field(&mut map, &name, &mut entries, OptionSeed(list))?;
                }
                "limit" => read_field(&mut map, &name, &mut limit, OptionSeed(RequestLimitSeed))?,
                "hitsAddend" | "hits_addend" => {
                    let hits_addend = WholeNumberSeed { what: "`hitsAddend` of a descriptor", max: u64::MAX };
                    read_field(&mut map, &name, &mut hits, OptionSeed(hits_addend))?;
                }
                "isNegativeHits" | "is_negative_hits" => {
                    read_field(&mut map, &name, &mut negative, OptionSeed(BoolSeed("`isNegativeHits`")))?;
                }
                _ => {
                    let known = ["entries", "limit", "hitsAddend", "isNegativeHits"];
                    return Err(unknown_field("a descriptor", &name, &known));
                }
            }
        }
        Ok(JsonDescriptor {
            entries: entries.flatten().unwrap_or_default(),
            limit: limit.flatten(),
            hits_addend: hits.flatten(),
            is_negative_hits: negative.flatten().unwrap_or_default(),
        })
    }
}

#[derive(Clone, Copy)]
struct RequestLimitSeed;

impl<'de> DeserializeSeed<'de> for RequestLimitSeed {
    type Value = RequestLimit;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<RequestLimit, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for RequestLimitSeed {
    type Value = RequestLimit;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a limit (hint: {\"requestsPerUnit\": 10, \"unit\": \"MINUTE\"})")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RequestLimit, A::Error> {
        let (mut units, mut per) = (None, None);
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "requestsPerUnit" | "requests_per_unit" => {
                    let whole = WholeNumberSeed { what: "`requestsPerUnit`", max: u32::MAX.into() };
                    read_field(&mut map, &name, &mut units, OptionSeed(whole))?;
                }
                "unit" => read_field(&mut map, &name, &mut per, OptionSeed(UnitSeed))?,
                _ => return Err(unknown_field("a limit", &name, &["requestsPerUnit", "unit"])),
            }
        }
        let unit = per.flatten().unwrap_or(RlsUnit::Unknown);
        let per = unit.to_unit().ok_or_else(|| A::Error::custom(RlsError::UnknownUnit(unit as u64)))?;
        Ok(RequestLimit {
            units: u32::try_from(units.flatten().unwrap_or_default()).unwrap_or(u32::MAX),
            per,
        })
    }
}

#[derive(Clone, Copy)]
struct RlsEntrySeed;

impl<'de> DeserializeSeed<'de> for RlsEntrySeed {
    type Value = (String, String);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for RlsEntrySeed {
    type Value = (String, String);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an entry (hint: {\"key\": \"user\", \"value\": \"42\"})")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut key, mut value) = (None, None);
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "key" => read_field(&mut map, &name, &mut key, OptionSeed(StringSeed("the key of an entry")))?,
                "value" => read_field(&mut map, &name, &mut value, OptionSeed(StringSeed("the value of an entry")))?,
                _ => return Err(unknown_field("an entry", &name, &["key", "value"])),
            }
        }
        Ok((key.flatten().unwrap_or_default(), value.flatten().unwrap_or_default()))
    }
}
