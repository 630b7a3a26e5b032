//! The parts of a request, from the whole to its entries.

use std::fmt;

use serde_core::Deserialize;
use serde_core::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use tidegate::rules::{OwnedDescriptor, OwnedRequest};

use super::fields::{self, NAME_CHARS_MAX};
use super::{DESCRIPTORS_MAX, ENTRIES_MAX, JsonRequest};
use crate::shown;

const COST_DEFAULT: u64 = 1;

type Entries = Vec<(Box<str>, Box<str>)>;

impl<'de> Deserialize<'de> for JsonRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(RequestVisitor)
    }
}

struct RequestVisitor;

impl<'de> Visitor<'de> for RequestVisitor {
    type Value = JsonRequest;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a request (hint: an object, as in {\"attributes\": {\"user\": \"42\"}})")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonRequest, A::Error> {
        let (mut domain, mut attributes, mut descriptors, mut cost) = (None, None, None, None);
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "domain" => fields::read(&mut map, &name, &mut domain, Text("the name of a domain"))?,
                "attributes" => fields::read(&mut map, &name, &mut attributes, Attributes)?,
                "descriptors" => fields::read(&mut map, &name, &mut descriptors, Descriptors)?,
                "cost" => fields::read(&mut map, &name, &mut cost, Cost)?,
                _ => {
                    let known = ["domain", "attributes", "descriptors", "cost"];
                    return Err(fields::unknown("a request", &name, &known));
                }
            }
        }
        let descriptors = match (attributes, descriptors, cost) {
            (Some(entries), None, cost) => {
                vec![OwnedDescriptor { entries, cost: cost.unwrap_or(COST_DEFAULT) }]
            }
            (None, Some(descriptors), None) => descriptors,
            (None, Some(_), Some(_)) => {
                return Err(A::Error::custom(
                    "`cost` does not go with `descriptors` (hint: each descriptor has its own, beside its `entries`)",
                ));
            }
            (Some(_), Some(_), _) => {
                return Err(A::Error::custom(
                    "`attributes` and `descriptors` do not go together (hint: `attributes` is for one descriptor, \
                     `descriptors` for several)",
                ));
            }
            (None, None, _) => {
                return Err(A::Error::custom(
                    "the request says nothing of itself (hint: add \"attributes\": {\"user\": \"42\"})",
                ));
            }
        };
        Ok(JsonRequest { domain, request: OwnedRequest { descriptors } })
    }
}

/// Names and values, none of the names twice.
struct Attributes;

impl<'de> DeserializeSeed<'de> for Attributes {
    type Value = Entries;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Entries, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Attributes {
    type Value = Entries;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("attributes (hint: an object of names and values, as in {\"user\": \"42\"})")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
        let mut entries = Entries::new();
        while let Some(name) = map.next_key::<String>()? {
            if entries.iter().any(|(known, _)| **known == *name) {
                let name = shown::text(name.as_bytes(), NAME_CHARS_MAX);
                return Err(A::Error::custom(format!(
                    "attribute `{name}` stands twice (hint: leave one out; in `entries` of `descriptors` a key may \
                     stand twice)"
                )));
            }
            has_room(entries.len(), ENTRIES_MAX, "attributes")?;
            entries.push((name.into(), map.next_value_seed(Text("the value of an attribute"))?.into()));
        }
        Ok(entries)
    }
}

struct Descriptors;

impl<'de> DeserializeSeed<'de> for Descriptors {
    type Value = Vec<OwnedDescriptor>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Descriptors {
    type Value = Vec<OwnedDescriptor>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of descriptors (hint: [{\"entries\": [{\"key\": \"user\", \"value\": \"42\"}]}])")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut descriptors = Vec::new();
        while let Some(descriptor) = seq.next_element_seed(Descriptor)? {
            has_room(descriptors.len(), DESCRIPTORS_MAX, "descriptors")?;
            descriptors.push(descriptor);
        }
        if descriptors.is_empty() {
            return Err(A::Error::custom(
                "the list of descriptors is empty (hint: a request has at least one)",
            ));
        }
        Ok(descriptors)
    }
}

struct Descriptor;

impl<'de> DeserializeSeed<'de> for Descriptor {
    type Value = OwnedDescriptor;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<OwnedDescriptor, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Descriptor {
    type Value = OwnedDescriptor;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a descriptor (hint: {\"entries\": [{\"key\": \"user\", \"value\": \"42\"}]})")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OwnedDescriptor, A::Error> {
        let (mut entries, mut cost) = (None, None);
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "entries" => fields::read(&mut map, &name, &mut entries, EntryList)?,
                "cost" => fields::read(&mut map, &name, &mut cost, Cost)?,
                _ => return Err(fields::unknown("a descriptor", &name, &["entries", "cost"])),
            }
        }
        let hint = "a descriptor needs `entries` (hint: [{\"key\": \"user\", \"value\": \"42\"}])";
        let entries = entries.ok_or_else(|| A::Error::custom(hint))?;
        Ok(OwnedDescriptor { entries, cost: cost.unwrap_or(COST_DEFAULT) })
    }
}

struct EntryList;

impl<'de> DeserializeSeed<'de> for EntryList {
    type Value = Entries;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Entries, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for EntryList {
    type Value = Entries;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of entries (hint: [{\"key\": \"user\", \"value\": \"42\"}])")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Entries, A::Error> {
        let mut entries = Entries::new();
        while let Some(entry) = seq.next_element_seed(Entry)? {
            has_room(entries.len(), ENTRIES_MAX, "entries of a descriptor")?;
            entries.push(entry);
        }
        Ok(entries)
    }
}

struct Entry;

impl<'de> DeserializeSeed<'de> for Entry {
    type Value = (Box<str>, Box<str>);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Entry {
    type Value = (Box<str>, Box<str>);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an entry (hint: {\"key\": \"user\", \"value\": \"42\"})")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut key, mut value) = (None, None);
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "key" => fields::read(&mut map, &name, &mut key, Text("the key of an entry"))?,
                "value" => fields::read(&mut map, &name, &mut value, Text("the value of an entry"))?,
                _ => return Err(fields::unknown("an entry", &name, &["key", "value"])),
            }
        }
        let key =
            key.ok_or_else(|| A::Error::custom("an entry needs a `key` (hint: the name of an attribute)"))?;
        let value =
            value.ok_or_else(|| A::Error::custom("an entry needs a `value` (hint: text, maybe \"\")"))?;
        Ok((key.into(), value.into()))
    }
}

/// Text, and what messages call it.
struct Text(&'static str);

impl<'de> DeserializeSeed<'de> for Text {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Text {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} as text (hint: put it in double quotes)", self.0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }
}

struct Cost;

impl<'de> DeserializeSeed<'de> for Cost {
    type Value = u64;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<u64, D::Error> {
        deserializer.deserialize_u64(self)
    }
}

impl Visitor<'_> for Cost {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a cost, which is a whole number that is not negative (hint: leave it out for 1)")
    }

    fn visit_u64<E: Error>(self, cost: u64) -> Result<u64, E> {
        Ok(cost)
    }
}

/// Whether one more fits.
fn has_room<E: Error>(there: usize, most: usize, what: &str) -> Result<(), E> {
    if there < most {
        return Ok(());
    }
    Err(E::custom(format!("there are more than {most} {what} (hint: that is the most)")))
}
