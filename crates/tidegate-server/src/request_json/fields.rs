//! The fields of an object, each of which may stand once.

use serde_core::de::{DeserializeSeed, Error, MapAccess};
use tidegate_core::text::did_you_mean;

use crate::shown;

/// How much of a name from outside a message shows.
pub(super) const NAME_CHARS_MAX: usize = 64;

/// Reads a field into its place, which has to be empty.
pub(crate) fn read<'de, A: MapAccess<'de>, S: DeserializeSeed<'de>>(
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
pub(crate) fn unknown<E: Error>(what: &str, name: &str, known: &[&str]) -> E {
    let hint = did_you_mean(name, known).unwrap_or_else(|| format!("{what} has: {}", known.join(", ")));
    let name = shown::text(name.as_bytes(), NAME_CHARS_MAX);
    E::custom(format!("{what} has no field `{name}` (hint: {hint})"))
}
