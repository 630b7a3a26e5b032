//! Changes and revisions for people.

use std::fmt::Write as _;

use serde_json::Value;

/// The changes of a push or a rollback, one per line, and the revision.
pub fn changes(done: &Value) -> String {
    let mut out = String::new();
    let listed = done["changes"].as_array().map_or(&[][..], Vec::as_slice);
    for change in listed {
        // Writing to a string does not fail.
        let _ = writeln!(out, "{}", change_line(change));
        for field in change["fields"].as_array().into_iter().flatten() {
            let name = field["field"].as_str().unwrap_or_default();
            let _ = match (&field["before"], &field["after"]) {
                (Value::Null, Value::Null) => writeln!(out, "    {name}"),
                (before, after) => writeln!(out, "    {name}: {} -> {}", value(before), value(after)),
            };
        }
    }
    let in_all = done["changes_in_all"].as_u64().unwrap_or_default();
    if in_all > listed.len() as u64 {
        let _ = writeln!(out, "... and {} more changes", in_all - listed.len() as u64);
    }
    let _ = match (done["revision"].as_u64(), in_all) {
        (Some(revision), 0) => writeln!(out, "revision {revision}: the active rules were the same"),
        (Some(revision), 1) => writeln!(out, "revision {revision}: 1 change"),
        (Some(revision), number) => writeln!(out, "revision {revision}: {number} changes"),
        (None, 0) => writeln!(out, "no changes"),
        (None, 1) => writeln!(out, "1 change (nothing was changed)"),
        (None, number) => writeln!(out, "{number} changes (nothing was changed)"),
    };
    out
}

/// What to say if the server does not use the rules in the store.
pub fn unused_note(done: &Value) -> Option<&'static str> {
    (done["used_by_this_node"] == false).then_some(
        "note: this server has its rules from files, so it does not use what was pushed (hint: start it with --rules store)",
    )
}

/// `7  2026-01-01T00:00:00Z  push  by ann  active  "#4711"`.
pub fn revision(revision: &Value) -> String {
    let text = |name: &str| revision[name].as_str().map(str::to_owned);
    let kind = match (revision["rollback_to"].as_u64(), text("kind")) {
        (Some(to), _) => Some(format!("rollback to {to}")),
        (None, kind) => kind,
    };
    let parts = [
        revision["revision"].as_u64().map(|number| number.to_string()),
        text("at"),
        kind,
        text("expires_at").map(|at| format!("until {at}")),
        text("author").map(|author| format!("by {author}")),
        (revision["active"] == true).then(|| "active".to_owned()),
        text("note").map(|note| format!("{note:?}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("  ")
}

fn change_line(change: &Value) -> String {
    let (sign, domain) = (change["change"].as_str(), change["domain"].as_str().unwrap_or_default());
    let sign = match sign {
        Some("added") => '+',
        Some("removed") => '-',
        _ => '~',
    };
    match change["rule"].as_str() {
        Some(rule) => format!("{sign} {domain}/{rule}"),
        None => format!("{sign} domain {domain}"),
    }
}

fn value(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
