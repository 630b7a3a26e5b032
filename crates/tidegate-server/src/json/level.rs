//! Reads the level of a signal: `{"level": 0.25}`.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use tidegate::rules::Level;

use super::{ObjectSeed, RequestError, read_with};

/// Reads `{"level": 0.25}`.
pub fn read_level(json: &[u8]) -> Result<Level, RequestError> {
    let seed = ObjectSeed::<LevelObject>::new("a level (hint: an object, as in {\"level\": 0.25})");
    read_with(json, seed).map(|object| object.level)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LevelObject {
    #[serde(deserialize_with = "deserialize_level")]
    level: Level,
}

fn deserialize_level<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Level, D::Error> {
    deserializer.deserialize_any(LevelVisitor)
}

struct LevelVisitor;

impl Visitor<'_> for LevelVisitor {
    type Value = Level;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a level, which is a number from 0 to 1 (hint: 0.75)")
    }

    fn visit_u64<E: Error>(self, level: u64) -> Result<Level, E> {
        level.to_string().parse().map_err(E::custom)
    }

    // Formats the number as the shortest text and parses that, because levels are not floating-point numbers.
    fn visit_f64<E: Error>(self, level: f64) -> Result<Level, E> {
        level.to_string().parse().map_err(E::custom)
    }
}
