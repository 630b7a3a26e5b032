//! The shape of a rules file, for editors that complete and check as one writes.

#[cfg(test)]
mod tests;
#[cfg(test)]
mod validator;

/// The JSON Schema, draft 2020-12, of Tidegate's own rules files.
///
/// It knows every field, its type and what it is for. What fields have to do with each other, and with other rules, only
/// [`load`](super::load) knows: a file that has this shape may still be wrong, and no file that loads does not have it.
///
/// ```
/// assert!(tidegate::rules::schema().contains("https://json-schema.org/draft/2020-12/schema"));
/// ```
pub fn schema() -> &'static str {
    include_str!("rules.schema.json")
}
