//! Entries of a descriptor, one by one and in their order.

use tidegate_core::rules::{Attribute, Entries, Pattern};

use super::super::diagnostic::Diagnostic;
use super::super::reader::Reader;
use super::super::yaml::{Kind, Node};
use super::key::EntryCount;
use super::pattern;

/// What stands for anything that follows.
const REST: &str = "...";
/// The most entries of a rule.
const ENTRIES_MAX: usize = 64;

/// `[ { database: users }, { user: }, "..." ]`
pub(super) fn read(reader: &mut Reader<'_>, node: &Node) -> Option<Entries> {
    let items = reader.list(node)?;
    if items.is_empty() || items.len() > ENTRIES_MAX {
        let found = Diagnostic::error("bad-entries", node.span, format!("there are {} entries", items.len()));
        reader.note(
            found.hint(format!("name 1 to {ENTRIES_MAX} of them, for example `[ {{ database: users }} ]`")),
        );
        return None;
    }
    let (last, before) = (items.len() - 1, items);
    let mut entries = Entries { each: Vec::new(), open: false };
    let mut sound = true;
    for (at, item) in before.iter().enumerate() {
        if item.text() == Some(REST) {
            entries.open = true;
            if at < last {
                let found =
                    Diagnostic::error("bad-entries", item.span, "`...` is not the last of the entries");
                reader.note(found.hint("it stands for all that follows; move it to the end"));
                sound = false;
            }
            continue;
        }
        match entry(reader, item) {
            Some(entry) => entries.each.push(entry),
            None => sound = false,
        }
    }
    sound.then_some(entries)
}

/// How many entries a key can refer to.
pub(super) fn count(entries: &Entries) -> EntryCount {
    if entries.open { EntryCount::AtLeast } else { EntryCount::Exactly(entries.each.len()) }
}

/// `{ user: }` for any value, `{ user: ann }` for this one.
fn entry(reader: &mut Reader<'_>, item: &Node) -> Option<(Box<str>, Pattern)> {
    let Kind::Map(fields) = &item.kind else {
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
        reader.note(found.hint("an entry has one name; write `[ { database: users }, { user: } ]`"));
        return None;
    };
    let name = reader.name(key)?;
    let pattern = match &value.kind {
        Kind::Null => Pattern::Any,
        // As in the descriptor, where `ip` or `path` is text like any other.
        _ => pattern::read(reader, value, &Attribute::Plain(name.into()))?,
    };
    Some((name.into(), pattern))
}
