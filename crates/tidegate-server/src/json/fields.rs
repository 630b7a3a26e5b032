//! The fields of an object, each of which may stand once.

use std::borrow::Cow;
use std::fmt;

use serde_core::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use tidegate_core::text::did_you_mean;

use crate::text;

/// How much of a name from outside a message shows.
pub(super) const NAME_CHARS_MAX: usize = 64;

/// Reads a field into its place, which has to be empty.
pub(crate) fn read_field<'de, A: MapAccess<'de>, S: DeserializeSeed<'de>>(
    map: &mut A,
    name: &str,
    place: &mut Option<S::Value>,
    seed: S,
) -> Result<(), A::Error> {
    if place.is_some() {
        return Err(A::Error::custom(format!("field `{name}` stands twice (hint: leave one of them out)")));
    }
    *place = Some(map.next_value_seed(seed)?);
    Ok(())
}

/// The object has no such field. `what` is what it is, like `a request`.
pub(crate) fn unknown_field<E: Error>(what: &str, name: &str, known: &[&str]) -> E {
    let hint = did_you_mean(name, known).unwrap_or_else(|| format!("{what} has: {}", known.join(", ")));
    let name = text::printable(name.as_bytes(), NAME_CHARS_MAX);
    E::custom(format!("{what} has no field `{name}` (hint: {hint})"))
}

/// A whole number that was written as `5.0`, as some languages do.
pub(super) fn whole_number(number: f64) -> Option<u64> {
    /// The first that is too large.
    const TOO_LARGE: f64 = 18_446_744_073_709_551_616.0;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is whole and in range")]
    ((0.0..TOO_LARGE).contains(&number) && number.fract() == 0.0).then_some(number as u64)
}

/// The name of a field, borrowed if it has no escapes.
pub(super) struct FieldNameSeed;

/// Text, borrowed if it has no escapes, and what messages call it.
pub(super) struct TextSeed(pub &'static str);

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
