//! Why a rule does not match, for people.

use std::fmt;

use super::pattern::Shortened;
use super::{Attribute, Entry, EntryPatterns, Pattern};
use crate::text::YamlText;

/// The most values of a descriptor or a set in a message.
const SHOWN_VALUES_MAX: usize = 4;

/// Why a rule does not match a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mismatch<'a> {
    /// An attribute does not match a condition.
    Attribute {
        /// The attribute.
        attribute: &'a Attribute,
        /// The pattern of the condition.
        expected: &'a Pattern,
        /// The values of the attribute.
        actual: AttributeValues<'a>,
    },
    /// There are too few entries, or too many.
    EntryCount {
        /// The patterns of the entries.
        entries: &'a EntryPatterns,
        /// The number of entries.
        actual: usize,
    },
    /// An entry has another name.
    EntryName {
        /// The index of the entry, from 0.
        index: usize,
        /// The expected name.
        expected: &'a str,
        /// The actual name.
        actual: &'a str,
    },
    /// An entry has another value.
    EntryValue {
        /// The index of the entry, from 0.
        index: usize,
        /// The name of the entry.
        name: &'a str,
        /// The expected value.
        expected: &'a Pattern,
        /// The actual value.
        actual: &'a str,
    },
}

/// The values of an attribute in a descriptor: none, one, or several if the name occurs more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttributeValues<'a> {
    attribute: &'a Attribute,
    entries: &'a [Entry<'a>],
}

/// The actual values, and the pattern that they do not match.
struct Difference<'a, V> {
    actual: V,
    expected: &'a Pattern,
}

impl<'a> AttributeValues<'a> {
    pub(super) fn new(attribute: &'a Attribute, entries: &'a [Entry<'a>]) -> Self {
        Self { attribute, entries }
    }

    /// The values as the request has them.
    pub fn values(self) -> impl Iterator<Item = &'a str> + Clone {
        let named = move |entry: &&Entry<'_>| self.attribute.matches_key(entry.key);
        self.entries.iter().filter(named).map(|entry| entry.value)
    }
}

impl fmt::Display for Mismatch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Attribute { attribute, expected, actual } => {
                if actual.values().next().is_none() {
                    return write!(f, "{attribute} is missing");
                }
                write!(f, "{attribute} {}", Difference { actual: actual.values(), expected })
            }
            Self::EntryCount { entries, actual } => {
                let (expected, at_least) =
                    (entries.patterns.len(), if entries.allows_more { "at least " } else { "" });
                let s = if actual == 1 { "y" } else { "ies" };
                write!(f, "has {actual} entr{s}, not {at_least}{expected}")
            }
            Self::EntryName { index, expected, actual } => {
                write!(
                    f,
                    "entry {} is named {}, not {}",
                    index + 1,
                    quoted_value(actual),
                    quoted_value(expected)
                )
            }
            Self::EntryValue { index, name, expected, actual } => {
                let actual = std::iter::once(actual);
                write!(f, "entry {}, {}, {}", index + 1, quoted_value(name), Difference { actual, expected })
            }
        }
    }
}

impl<'a, V: Iterator<Item = &'a str> + Clone> fmt::Display for Difference<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "is {}", joined(self.actual.clone().map(quoted_value), " and "))?;
        match self.expected {
            // Any value matches, so this cannot happen.
            Pattern::Any => Ok(()),
            Pattern::Absent => f.write_str(", but must be absent"),
            Pattern::Exact(value) => write!(f, ", not {}", quoted_value(value)),
            Pattern::OneOf(set) => {
                write!(f, ", not {}", joined(set.values().iter().map(|v| quoted_value(v)), " or "))
            }
            Pattern::Prefix(prefix) => {
                write!(f, ", which does not begin with {}", quoted_value(prefix))
            }
            Pattern::Wildcard(wildcard) => write!(f, ", not like {}", Shortened(&wildcard.to_string())),
            Pattern::Regex(regex) => write!(f, ", which does not match {}", Shortened(regex.as_str())),
            Pattern::Path(path) => write!(f, ", which does not match {}", Shortened(&path.to_string())),
            Pattern::Paths(set) => {
                let paths = set.paths().iter().map(|path| Shortened(&path.to_string()).to_string());
                write!(f, ", which does not match {}", joined(paths, " or "))
            }
            Pattern::Nets(set) => write!(f, ", not in {}", joined(set.nets().iter(), " or ")),
            Pattern::Not(excluded) => match &**excluded {
                Pattern::OneOf(_) | Pattern::Paths(_) | Pattern::Nets(_) => {
                    f.write_str(", which is excluded")
                }
                _ => write!(f, ", which {} excludes", Shortened(&self.expected.to_string())),
            },
        }
    }
}

/// A value in a message: quoted if it could be read as something else, and shortened.
fn quoted_value(value: &str) -> impl fmt::Display {
    YamlText(&Shortened(value).to_string()).to_string()
}

/// The first few values, and the number of the others.
fn joined(mut items: impl Iterator<Item = impl fmt::Display>, last: &str) -> String {
    let mut parts: Vec<String> = items.by_ref().take(SHOWN_VALUES_MAX).map(|item| item.to_string()).collect();
    let more = items.count();
    if more > 0 {
        parts.push(format!("{more} more"));
    }
    match parts.pop() {
        Some(end) if !parts.is_empty() => format!("{}{last}{end}", parts.join(", ")),
        only => only.unwrap_or_default(),
    }
}
