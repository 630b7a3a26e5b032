//! The JSON Schema of a rules file, for editors that complete and check.

#[cfg(test)]
mod tests;
#[cfg(test)]
mod validator;

/// The JSON Schema, draft 2020-12, of Tidegate's own rules files.
///
/// It has every field, its type and a description. It does not know the relations between fields and between
/// rules; only [`load`](fn@super::load) checks those. So a file that matches the schema may still be wrong, but
/// every file that loads matches the schema.
///
/// ```
/// assert!(tidegate::rules::schema().contains("https://json-schema.org/draft/2020-12/schema"));
/// ```
pub fn schema() -> &'static str {
    include_str!("rules.schema.json")
}
