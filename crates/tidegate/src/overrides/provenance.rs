//! Says where a limit came from: which override, which version, who set it, and until when.

use serde_json::{Value, json};
use tidegate_core::rules::AppliedOverride;

use super::key_name::KeyName;

/// As a field of answers.
pub fn provenance_json(applied: &AppliedOverride) -> Value {
    let one = applied.get();
    json!({
        "id": id(applied),
        "version": applied.entry.version,
        "author": one.author,
        "expires_at_ns": one.expires_at.map(|at| at.as_nanos()),
        "note": one.note,
    })
}

/// For people.
pub fn provenance_text(applied: &AppliedOverride) -> String {
    let one = applied.get();
    let mut text = format!("{}, version {}", id(applied), applied.entry.version);
    if let Some(author) = &one.author {
        text.push_str(&format!(", by {author}"));
    }
    if let Some(note) = &one.note {
        text.push_str(&format!(", note {note:?}"));
    }
    text
}

/// The key of the override as operators write it, with the name of its limit if it has one.
fn id(applied: &AppliedOverride) -> String {
    let key = KeyName::decode(&applied.entry.id)
        .map_or_else(|_| applied.entry.id.to_string(), |name| name.to_string());
    match &applied.get().limit_name {
        Some(limit) => format!("{key}#{limit}"),
        None => key,
    }
}
