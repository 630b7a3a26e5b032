//! Entries of a descriptor, one by one and in their order.

use tidegate_core::rules::{Attribute, EntryPatterns, Pattern};

use super::super::diagnostic::Diagnostic;
use super::super::reader::Reader;
use super::super::yaml::{NodeKind, Node};
use super::key::EntryCount;
use super::pattern;

/// What stands for anything that follows.
const REST: &str = "...";
/// The most entries of a rule.
const ENTRIES_MAX: usize = 64;

/// `[ { database: users }, { user: }, "..." ]`
pub(super) fn read(reader: &mut Reader<'_>, node: &Node) -> Option<EntryPatterns> {
    let items = reader.list(node)?;
    if items.is_empty() || items.len() > ENTRIES_MAX {
        let found = Diagnostic::error("bad-entries", node.span, format!("there are {} entries", items.len()));
        reader.push(
            found.hint(format!("name 1 to {ENTRIES_MAX} of them, for example `[ {{ database: users }} ]`")),
        );
        return None;
    }
    let (last, before) = (items.len() - 1, items);
    let mut entries = EntryPatterns { patterns: Vec::new(), allows_more: false };
    let mut sound = true;
    for (at, item) in before.iter().enumerate() {
        if item.text() == Some(REST) {
            entries.allows_more = true;
            if at < last {
                let found =
                    Diagnostic::error("bad-entries", item.span, "`...` is not the last of the entries");
                reader.push(found.hint("it stands for all that follows; move it to the end"));
                sound = false;
            }
            continue;
        }
        match entry(reader, item) {
            Some(entry) => entries.patterns.push(entry),
            None => sound = false,
        }
    }
    sound.then_some(entries)
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
        let found =
            Diagnostic::error("bad-entries", item.span, format!("an entry of {} names", fields.len()));
        reader.push(found.hint("an entry has one name; write `[ { database: users }, { user: } ]`"));
        return None;
    };
    let name = reader.name(key)?;
    let pattern = match &value.kind {
        NodeKind::Null => Pattern::Any,
        // As in the descriptor, where `ip` or `path` is text like any other.
        _ => pattern::read(reader, value, &Attribute::Plain(name.into()))?,
    };
    Some((name.into(), pattern))
}
