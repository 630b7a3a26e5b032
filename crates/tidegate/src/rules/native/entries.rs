//! Reads the entries of a descriptor, in order.

use tidegate_core::rules::{Attribute, EntryPatterns, Pattern};

use super::key::EntryCount;
use super::pattern;
use crate::rules::diagnostic::Diagnostic;
use crate::rules::yaml::{Node, NodeKind, Reader};

/// Matches all further entries.
const REST: &str = "...";
/// Entries of a rule at most.
const ENTRIES_MAX: usize = 64;

/// `[ { database: users }, { user: }, "..." ]`
pub(super) fn read(reader: &mut Reader<'_>, node: &Node) -> Option<EntryPatterns> {
    let items = reader.list(node)?;
    if items.is_empty() || items.len() > ENTRIES_MAX {
        let diagnostic =
            Diagnostic::error("bad-entries", node.span, format!("there are {} entries", items.len()));
        reader.push(
            diagnostic
                .hint(format!("write 1 to {ENTRIES_MAX} entries, for example `[ {{ database: users }} ]`")),
        );
        return None;
    }
    let last = items.len() - 1;
    let mut entries = EntryPatterns { patterns: Vec::new(), allows_more: false };
    let mut is_valid = true;
    for (index, item) in items.iter().enumerate() {
        if item.text() == Some(REST) {
            entries.allows_more = true;
            if index < last {
                let diagnostic = Diagnostic::error("bad-entries", item.span, "`...` is not the last entry");
                reader.push(diagnostic.hint("it matches all further entries; move it to the end"));
                is_valid = false;
            }
            continue;
        }
        match entry(reader, item) {
            Some(entry) => entries.patterns.push(entry),
            None => is_valid = false,
        }
    }
    is_valid.then_some(entries)
}

/// How many entries a key can refer to.
pub(super) fn count(entries: &EntryPatterns) -> EntryCount {
    if entries.allows_more { EntryCount::AtLeast } else { EntryCount::Exactly(entries.patterns.len()) }
}

/// `{ user: }` for any value, `{ user: ann }` for this one.
fn entry(reader: &mut Reader<'_>, item: &Node) -> Option<(Box<str>, Pattern)> {
    let NodeKind::Map(fields) = &item.kind else {
        reader.wrong_type_hint(
            item,
            "an entry",
            "write `{ user: }` for any value, or `{ user: ann }` for this one",
        );
        return None;
    };
    let [(key, value)] = &**fields else {
        let diagnostic =
            Diagnostic::error("bad-entries", item.span, format!("an entry has {} names", fields.len()));
        reader.push(diagnostic.hint("an entry has one name; write `[ { database: users }, { user: } ]`"));
        return None;
    };
    let name = reader.name(key)?;
    let pattern = match &value.kind {
        NodeKind::Null => Pattern::Any,
        // As in a descriptor, `ip` and `path` have no special meaning here.
        _ => pattern::read(reader, value, &Attribute::Plain(name.into()))?,
    };
    Some((name.into(), pattern))
}
