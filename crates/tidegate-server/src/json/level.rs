//! A level that a signal is to have: `{"level": 0.25}`.

use std::fmt;

use serde_core::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use tidegate::rules::Level;

use super::fields::{self, FieldNameSeed};
use super::{RequestError, read_with};

/// Reads `{"level": 0.25}`.
pub fn read_level(json: &[u8]) -> Result<Level, RequestError> {
    read_with(json, LevelSeed)
}

struct LevelSeed;

impl<'de> DeserializeSeed<'de> for LevelSeed {
    type Value = Level;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Level, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for LevelSeed {
    type Value = Level;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a level (hint: an object, as in {\"level\": 0.25})")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Level, A::Error> {
        let mut level = None;
        while let Some(name) = map.next_key_seed(FieldNameSeed)? {
            match &*name {
                "level" => fields::read_field(&mut map, &name, &mut level, LevelNumberSeed)?,
                _ => return Err(fields::unknown_field("a level", &name, &["level"])),
            }
        }
        level.ok_or_else(|| A::Error::custom("there is no `level` (hint: a number from 0 to 1, as in 0.75)"))
    }
}

struct LevelNumberSeed;

impl<'de> DeserializeSeed<'de> for LevelNumberSeed {
    type Value = Level;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Level, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for LevelNumberSeed {
    type Value = Level;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a level, which is a number from 0 to 1 (hint: 0.75)")
    }

    fn visit_u64<E: Error>(self, level: u64) -> Result<Level, E> {
        level.to_string().parse().map_err(E::custom)
    }

    // Written out again as the shortest text that means it, and read from that: levels are no floating point.
    fn visit_f64<E: Error>(self, level: f64) -> Result<Level, E> {
        level.to_string().parse().map_err(E::custom)
    }
}
