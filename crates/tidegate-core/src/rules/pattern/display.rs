//! Writes patterns as rule files write them.

use std::fmt::{self, Write};

use super::{Net, PathPattern, Pattern, Segment};
use crate::text::{YamlQuoted, YamlText};

/// The most characters of a text in messages.
const SHOWN_CHARS_MAX: usize = 80;

/// Text, shortened if it is long.
pub(crate) struct Shortened<'a>(pub &'a str);

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut inner = self;
        let mut closing = 0;
        while let Self::Not(negated) = inner {
            f.write_str("{ not: ")?;
            inner = negated;
            closing += 1;
        }
        write_plain(inner, f)?;
        (0..closing).try_for_each(|_| f.write_str(" }"))
    }
}

impl fmt::Display for Shortened<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.char_indices().nth(SHOWN_CHARS_MAX) {
            Some((end, _)) => write!(f, "{}...", &self.0[..end]),
            None => f.write_str(self.0),
        }
    }
}

/// Writes a pattern that is not a negation.
fn write_plain(pattern: &Pattern, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match pattern {
        Pattern::Any => f.write_str("{ exists: true }"),
        Pattern::Absent => f.write_str("{ exists: false }"),
        // Without `exact`, a path with these characters would be read as a path pattern.
        Pattern::Exact(value) if value.contains(['*', '{', '}']) => {
            write!(f, "{{ exact: {} }}", YamlText(value))
        }
        Pattern::Exact(value) => write!(f, "{}", YamlText(value)),
        Pattern::OneOf(set) => write_list(set.values().iter().map(|value| YamlText(value)), f),
        Pattern::Prefix(prefix) => write!(f, "{{ prefix: {} }}", YamlText(prefix)),
        Pattern::Wildcard(wildcard) => write!(f, "{{ wildcard: {} }}", YamlText(&wildcard.to_string())),
        Pattern::Regex(regex) => write!(f, "{{ regex: {} }}", YamlText(regex.as_str())),
        Pattern::Path(path) => f.write_str(&path_text(path)),
        Pattern::Paths(set) => write_list(set.paths().iter().map(path_text), f),
        Pattern::Nets(set) => match set.nets() {
            [net] => f.write_str(&net_text(net)),
            nets => write_list(nets.iter().map(net_text), f),
        },
        Pattern::Not(_) => Ok(()),
    }
}

fn write_list(items: impl Iterator<Item = impl fmt::Display>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_char('[')?;
    for (index, item) in items.enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        write!(f, "{comma}{item}")?;
    }
    f.write_char(']')
}

fn path_text(path: &PathPattern) -> String {
    let is_literal = |segment: &Segment| matches!(segment, Segment::Literal(_));
    if path.segments().iter().all(is_literal) && !path.is_open_ended() {
        return YamlText(&path.to_string()).to_string();
    }
    YamlQuoted(&path.to_string()).to_string()
}

/// IPv6 addresses are quoted, because they may end with a colon.
fn net_text(net: &Net) -> String {
    if net.first().is_ipv4() { net.to_string() } else { format!("\"{net}\"") }
}
