//! Why a rule does not match, for people.

use std::fmt;

use crate::rules::pattern::Shortened;
use crate::rules::{Attribute, EntryPatterns, Entry, Pattern};
use crate::text::YamlText;

/// How many values of a descriptor, or of a set, are shown.
const SHOWN_VALUES_MAX: usize = 4;

/// What keeps a rule from matching a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mismatch<'a> {
    /// An attribute is not what a condition wants.
    Attribute {
        /// The attribute.
        attribute: &'a Attribute,
        /// What it has to be.
        expected: &'a Pattern,
        /// What it is.
        actual: AttributeValues<'a>,
    },
    /// There are too few entries, or too many.
    EntryCount {
        /// What they have to be.
        entries: &'a EntryPatterns,
        /// How many there are.
        actual: usize,
    },
    /// An entry has another name.
    EntryName {
        /// Which, counted from 0.
        index: usize,
        /// The name it has to have.
        expected: &'a str,
        /// The name it has.
        actual: &'a str,
    },
    /// An entry has another value.
    EntryValue {
        /// Which, counted from 0.
        index: usize,
        /// Its name.
        name: &'a str,
        /// What its value has to be.
        expected: &'a Pattern,
        /// Its value.
        actual: &'a str,
    },
}

/// The values that a descriptor has for an attribute: none, one, or several if the name stands several times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttributeValues<'a> {
    attribute: &'a Attribute,
    entries: &'a [Entry<'a>],
}

/// What was found, and what was wanted instead.
struct Difference<'a, V> {
    actual: V,
    expected: &'a Pattern,
}

impl<'a> AttributeValues<'a> {
    pub(super) fn new(attribute: &'a Attribute, entries: &'a [Entry<'a>]) -> Self {
        Self { attribute, entries }
    }

    /// The values, as the request gave them.
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
                let (wanted, at_least) = (entries.patterns.len(), if entries.allows_more { "at least " } else { "" });
                let s = if actual == 1 { "y" } else { "ies" };
                write!(f, "has {actual} entr{s}, not {at_least}{wanted}")
            }
            Self::EntryName { index, expected, actual } => {
                write!(f, "entry {} is named {}, not {}", index + 1, quoted_value(actual), quoted_value(expected))
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
            // Whatever is there is any value.
            Pattern::Any => Ok(()),
            Pattern::Absent => f.write_str(", and has to be missing"),
            Pattern::Exact(wanted) => write!(f, ", not {}", quoted_value(wanted)),
            Pattern::OneOf(set) => {
                write!(f, ", not {}", joined(set.values().iter().map(|v| quoted_value(v)), " or "))
            }
            Pattern::Prefix(beginning) => write!(f, ", which does not begin with {}", quoted_value(beginning)),
            Pattern::Wildcard(wildcard) => write!(f, ", not like {}", Shortened(&wildcard.to_string())),
            Pattern::Regex(regex) => write!(f, ", which does not match {}", Shortened(regex.as_str())),
            Pattern::Path(path) => write!(f, ", not of the shape {}", Shortened(&path.to_string())),
            Pattern::Paths(set) => {
                let shapes = set.paths().iter().map(|path| Shortened(&path.to_string()).to_string());
                write!(f, ", not of the shape {}", joined(shapes, " or "))
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

/// A value in a message: quoted where it would be read as something else, and not too long.
fn quoted_value(value: &str) -> impl fmt::Display {
    YamlText(&Shortened(value).to_string()).to_string()
}

/// The first of some values, and how many more there are.
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
