//! Says where a limit came from: which override, which version, who set it, and until when.

use serde_json::{Value, json};
use tidegate_core::rules::{AppliedOverride, Ruleset};
use tidegate_core::text::write_date;

use super::key_name::KeyName;

/// As a field of answers that were made with these rules.
pub fn provenance_json(applied: &AppliedOverride, rules: &Ruleset) -> Value {
    let one = applied.get();
    json!({
        "id": id(applied, rules),
        "version": applied.entry.version,
        "author": one.author,
        "expires_at_ns": one.expires_at.map(|at| at.as_nanos()),
        "note": one.note,
    })
}

/// For people.
pub fn provenance_text(applied: &AppliedOverride, rules: &Ruleset) -> String {
    let one = applied.get();
    let mut text = format!("{}, version {}", id(applied, rules), applied.entry.version);
    if let Some(author) = &one.author {
        text.push_str(&format!(", by {author}"));
    }
    if let Some(at) = one.expires_at {
        text.push_str(&format!(", until {}", write_date(at)));
    }
    if let Some(note) = &one.note {
        text.push_str(&format!(", note {note:?}"));
    }
    text
}

/// The key of the override as operators write it, with the name of its limit if it has one.
fn id(applied: &AppliedOverride, rules: &Ruleset) -> String {
    let key = KeyName::of_applied(applied, rules).map_or_else(String::new, |name| name.to_string());
    match &applied.get().limit_name {
        Some(limit) => format!("{key}#{limit}"),
        None => key,
    }
}
