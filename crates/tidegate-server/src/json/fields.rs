//! Reads objects and their fields.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use tidegate_core::text::did_you_mean;

use crate::text;

/// Maximum characters of a name shown in an error.
pub(super) const NAME_CHARS_MAX: usize = 64;

/// Reads a field into `slot`. It is an error if the field was read before.
pub(super) fn read_field<'de, A: MapAccess<'de>, S: DeserializeSeed<'de>>(
    map: &mut A,
    name: &str,
    slot: &mut Option<S::Value>,
    seed: S,
) -> Result<(), A::Error> {
    if slot.is_some() {
        return Err(A::Error::custom(format!("field `{name}` appears twice (hint: remove one)")));
    }
    *slot = Some(map.next_value_seed(seed)?);
    Ok(())
}

/// The error for an unknown field. `what` describes the object, as in `a request`.
pub(super) fn unknown_field<E: Error>(what: &str, name: &str, allowed: &[&str]) -> E {
    let hint = did_you_mean(name, allowed).unwrap_or_else(|| format!("{what} has: {}", allowed.join(", ")));
    let name = text::printable(name.as_bytes(), NAME_CHARS_MAX);
    E::custom(format!("{what} has no field `{name}` (hint: {hint})"))
}

/// A whole number that was written as `5.0`, as some languages do.
pub(super) fn whole_number(number: f64) -> Option<u64> {
    /// The smallest number that is too large.
    const TOO_LARGE: f64 = 18_446_744_073_709_551_616.0;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is whole and in range")]
    ((0.0..TOO_LARGE).contains(&number) && number.fract() == 0.0).then_some(number as u64)
}

/// Reads a field with a whole number that may be left out. Also takes `5.0`.
pub(super) fn optional_whole_number<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u64>, D::Error> {
    let number = Option::<serde_json::Number>::deserialize(deserializer)?;
    let whole = |number: serde_json::Number| {
        whole_json_number(&number)
            .ok_or_else(|| D::Error::custom(format!("{number} is not a whole number from 0")))
    };
    number.map(whole).transpose()
}

/// A number of JSON, if it is a whole number from 0.
pub(super) fn whole_json_number(number: &serde_json::Number) -> Option<u64> {
    number.as_u64().or_else(|| number.as_f64().and_then(whole_number))
}

/// A type with a derived `Deserialize`, read from an object. The derive alone would also accept a list of the fields'
/// values.
pub(crate) struct ObjectSeed<T> {
    expecting: &'static str,
    object: PhantomData<T>,
}

/// The name of a field, borrowed if it has no escapes.
pub(super) struct FieldNameSeed;

/// Text, borrowed if it has no escapes, with its name in errors.
pub(super) struct TextSeed(pub &'static str);

impl<T> ObjectSeed<T> {
    /// `expecting` is the end of the error for a value that is not an object, as in `a level (hint: ...)`.
    pub(crate) fn new(expecting: &'static str) -> Self {
        Self { expecting, object: PhantomData }
    }
}

impl<T> Clone for ObjectSeed<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for ObjectSeed<T> {}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for ObjectSeed<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectSeed<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

impl<'de> DeserializeSeed<'de> for FieldNameSeed {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        TextSeed("the name of a field").deserialize(deserializer)
    }
}

impl<'de> DeserializeSeed<'de> for TextSeed {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for TextSeed {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} as text (hint: put it in double quotes)", self.0)
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}
