//! Values that protojson allows in more than one notation.

use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, Unexpected, Visitor};
use tidegate_core::rules::TimeUnit;

use crate::serve::rls::{RlsError, RlsUnit};
use crate::text;

/// Maximum characters of a value shown in an error.
const VALUE_CHARS_MAX: usize = 64;
/// Whole numbers up to this are exact as `f64`.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// A whole number up to `MAX`, as a number or a string.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WholeNumber<const MAX: u64>(pub u64);

pub(super) type Uint32 = WholeNumber<{ u32::MAX as u64 }>;
pub(super) type Uint64 = WholeNumber<{ u64::MAX }>;

/// `null`, or a value.
pub(super) struct OptionSeed<S>(pub S);

/// A value, or `null` for its default.
pub(super) fn deserialize_or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// A time unit, by name or number.
pub(super) fn deserialize_unit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TimeUnit, D::Error> {
    deserializer.deserialize_any(UnitVisitor)
}

impl Uint32 {
    pub(super) fn get(self) -> u32 {
        u32::try_from(self.0).unwrap_or(u32::MAX)
    }
}

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

impl<'de, const MAX: u64> Deserialize<'de> for WholeNumber<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WholeNumberVisitor::<MAX>)
    }
}

struct WholeNumberVisitor<const MAX: u64>;

impl<const MAX: u64> Visitor<'_> for WholeNumberVisitor<MAX> {
    type Value = WholeNumber<MAX>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from 0 to {MAX}")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        if number > MAX {
            return Err(E::invalid_value(Unexpected::Unsigned(number), &self));
        }
        Ok(WholeNumber(number))
    }

    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is whole and not negative"
    )]
    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        // `1e3` and `3.0` are whole.
        if (0.0..=EXACT_MAX).contains(&number) && number.fract() == 0.0 {
            return self.visit_u64(number as u64);
        }
        Err(E::invalid_value(Unexpected::Float(number), &self))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        // `parse` would accept a plus sign.
        match text.parse().ok().filter(|_| !text.starts_with('+')) {
            Some(number) => self.visit_u64(number),
            None => Err(invalid_text(text, &self)),
        }
    }
}

struct UnitVisitor;

impl UnitVisitor {
    fn known_unit<E: Error>(unit: RlsUnit) -> Result<TimeUnit, E> {
        unit.to_unit().ok_or_else(|| E::custom(RlsError::UnknownUnit(unit as u64)))
    }
}

impl Visitor<'_> for UnitVisitor {
    type Value = TimeUnit;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a unit (hint: SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR)")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<TimeUnit, E> {
        let unit = RlsUnit::from_number(number);
        unit.map_or_else(|| Err(E::invalid_value(Unexpected::Unsigned(number), &self)), Self::known_unit)
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<TimeUnit, E> {
        let unit = RlsUnit::ALL.into_iter().find(|unit| unit.as_str() == name);
        unit.map_or_else(|| Err(invalid_text(name, &self)), Self::known_unit)
    }
}

fn invalid_text<'de, E: Error>(text: &str, visitor: &impl Visitor<'de>) -> E {
    E::invalid_value(Unexpected::Str(&text::printable(text.as_bytes(), VALUE_CHARS_MAX)), visitor)
}
