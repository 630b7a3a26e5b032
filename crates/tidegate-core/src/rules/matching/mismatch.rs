//! Why a rule does not match, for people.

use std::fmt;

use crate::rules::pattern::Shortened;
use crate::rules::{Attribute, Entries, Entry, Pattern};
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
        wanted: &'a Pattern,
        /// What it is.
        found: Found<'a>,
    },
    /// There are too few entries, or too many.
    Count {
        /// What they have to be.
        entries: &'a Entries,
        /// How many there are.
        found: usize,
    },
    /// An entry has another name.
    EntryName {
        /// Which, counted from 0.
        place: usize,
        /// The name it has to have.
        wanted: &'a str,
        /// The name it has.
        found: &'a str,
    },
    /// An entry has another value.
    EntryValue {
        /// Which, counted from 0.
        place: usize,
        /// Its name.
        name: &'a str,
        /// What its value has to be.
        wanted: &'a Pattern,
        /// Its value.
        found: &'a str,
    },
}

/// The values that a descriptor has for an attribute: none, one, or several if the name stands several times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<'a> {
    attribute: &'a Attribute,
    entries: &'a [Entry<'a>],
}

/// What was found, and what was wanted instead.
struct Difference<'a, V> {
    found: V,
    wanted: &'a Pattern,
}

impl<'a> Found<'a> {
    pub(super) fn new(attribute: &'a Attribute, entries: &'a [Entry<'a>]) -> Self {
        Self { attribute, entries }
    }

    /// The values, as the request gave them.
    pub fn values(self) -> impl Iterator<Item = &'a str> + Clone {
        let named = move |entry: &&Entry<'_>| self.attribute.is_named(entry.key);
        self.entries.iter().filter(named).map(|entry| entry.value)
    }
}

impl fmt::Display for Mismatch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Attribute { attribute, wanted, found } => {
                if found.values().next().is_none() {
                    return write!(f, "{attribute} is missing");
                }
                write!(f, "{attribute} {}", Difference { found: found.values(), wanted })
            }
            Self::Count { entries, found } => {
                let (wanted, at_least) = (entries.each.len(), if entries.open { "at least " } else { "" });
                let s = if found == 1 { "y" } else { "ies" };
                write!(f, "has {found} entr{s}, not {at_least}{wanted}")
            }
            Self::EntryName { place, wanted, found } => {
                write!(f, "entry {} is named {}, not {}", place + 1, shown(found), shown(wanted))
            }
            Self::EntryValue { place, name, wanted, found } => {
                let found = std::iter::once(found);
                write!(f, "entry {}, {}, {}", place + 1, shown(name), Difference { found, wanted })
            }
        }
    }
}

impl<'a, V: Iterator<Item = &'a str> + Clone> fmt::Display for Difference<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "is {}", listed(self.found.clone().map(shown), " and "))?;
        match self.wanted {
            // Whatever is there is any value.
            Pattern::Any => Ok(()),
            Pattern::Absent => f.write_str(", and has to be missing"),
            Pattern::Exact(wanted) => write!(f, ", not {}", shown(wanted)),
            Pattern::OneOf(set) => {
                write!(f, ", not {}", listed(set.values().iter().map(|v| shown(v)), " or "))
            }
            Pattern::Prefix(beginning) => write!(f, ", which does not begin with {}", shown(beginning)),
            Pattern::Wildcard(wildcard) => write!(f, ", not like {}", Shortened(&wildcard.to_string())),
            Pattern::Regex(regex) => write!(f, ", which does not match {}", Shortened(regex.as_str())),
            Pattern::Path(path) => write!(f, ", not of the shape {}", Shortened(&path.to_string())),
            Pattern::Paths(set) => {
                let shapes = set.paths().iter().map(|path| Shortened(&path.to_string()).to_string());
                write!(f, ", not of the shape {}", listed(shapes, " or "))
            }
            Pattern::Nets(set) => write!(f, ", not in {}", listed(set.nets().iter(), " or ")),
            Pattern::Not(excluded) => match &**excluded {
                Pattern::OneOf(_) | Pattern::Paths(_) | Pattern::Nets(_) => {
                    f.write_str(", which is excluded")
                }
                _ => write!(f, ", which {} excludes", Shortened(&self.wanted.to_string())),
            },
        }
    }
}

/// A value in a message: quoted where it would be read as something else, and not too long.
fn shown(value: &str) -> impl fmt::Display {
    YamlText(&Shortened(value).to_string()).to_string()
}

/// The first of some values, and how many more there are.
fn listed(mut items: impl Iterator<Item = impl fmt::Display>, last: &str) -> String {
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
