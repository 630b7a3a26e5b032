//! Values that protojson writes in more than one way.

use std::fmt;

use serde_core::de::{DeserializeSeed, Deserializer, Error, Unexpected, Visitor};

use crate::serve::rls::RlsUnit;
use crate::text;

/// How much of a value from outside a message shows.
const VALUE_CHARS_MAX: usize = 64;
/// Whole numbers up to here are exact as floating point.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// `null`, or what is read by the other.
pub(super) struct OptionSeed<S>(pub S);

/// Text, and what messages call it.
pub(super) struct StringSeed(pub &'static str);

/// A whole number, as a number or as text, up to `max`.
pub(super) struct WholeNumberSeed {
    pub what: &'static str,
    pub max: u64,
}

/// `true` or `false`, and what messages call it.
pub(super) struct BoolSeed(pub &'static str);

/// A unit of time by name or number.
pub(super) struct UnitSeed;

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for OptionSeed<S> {
    type Value = Option<S::Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de, S: DeserializeSeed<'de>> Visitor<'de> for OptionSeed<S> {
    type Value = Option<S::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or null")
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        self.0.deserialize(deserializer).map(Some)
    }
}

impl<'de> DeserializeSeed<'de> for StringSeed {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for StringSeed {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} as text (hint: put it in double quotes)", self.0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }
}

impl<'de> DeserializeSeed<'de> for BoolSeed {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_bool(self)
    }
}

impl Visitor<'_> for BoolSeed {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, which is true or false (hint: without quotes)", self.0)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<bool, E> {
        Ok(value)
    }
}

impl<'de> DeserializeSeed<'de> for WholeNumberSeed {
    type Value = u64;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<u64, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for WholeNumberSeed {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, which is a whole number from 0 to {}", self.what, self.max)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<u64, E> {
        if number > self.max {
            return Err(E::invalid_value(Unexpected::Unsigned(number), &self));
        }
        Ok(number)
    }

    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is whole and not negative"
    )]
    fn visit_f64<E: Error>(self, number: f64) -> Result<u64, E> {
        // `1e3` and `3.0` are whole.
        if (0.0..=EXACT_MAX).contains(&number) && number.fract() == 0.0 {
            return self.visit_u64(number as u64);
        }
        Err(E::invalid_value(Unexpected::Float(number), &self))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
        // A plus sign would be read too.
        match text.parse().ok().filter(|_| !text.starts_with('+')) {
            Some(number) => self.visit_u64(number),
            None => {
                Err(E::invalid_value(Unexpected::Str(&text::printable(text.as_bytes(), VALUE_CHARS_MAX)), &self))
            }
        }
    }
}

impl<'de> DeserializeSeed<'de> for UnitSeed {
    type Value = RlsUnit;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<RlsUnit, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for UnitSeed {
    type Value = RlsUnit;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a unit (hint: SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR)")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<RlsUnit, E> {
        RlsUnit::from_number(number).ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<RlsUnit, E> {
        let unit = RlsUnit::ALL.into_iter().find(|unit| unit.as_str() == name);
        unit.ok_or_else(|| {
            E::invalid_value(Unexpected::Str(&text::printable(name.as_bytes(), VALUE_CHARS_MAX)), &self)
        })
    }
}
