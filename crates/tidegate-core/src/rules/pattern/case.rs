//! Case sensitivity.

use std::cmp::Ordering;

/// Whether upper and lower case of ASCII letters differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CaseSensitivity {
    /// They differ.
    #[default]
    Sensitive,
    /// They do not differ.
    Insensitive,
}

impl CaseSensitivity {
    pub(crate) fn are_equal(self, one: &str, other: &str) -> bool {
        match self {
            Self::Sensitive => one == other,
            Self::Insensitive => one.eq_ignore_ascii_case(other),
        }
    }

    /// The text after `prefix`, if the text begins with it.
    pub(crate) fn strip_prefix<'a>(self, text: &'a str, prefix: &str) -> Option<&'a str> {
        let (head, tail) = text.split_at_checked(prefix.len())?;
        self.are_equal(head, prefix).then_some(tail)
    }

    /// The text before `suffix`, if the text ends with it.
    pub(super) fn strip_suffix<'a>(self, text: &'a str, suffix: &str) -> Option<&'a str> {
        let (head, tail) = text.split_at_checked(text.len().checked_sub(suffix.len())?)?;
        self.are_equal(tail, suffix).then_some(head)
    }

    /// The text after the first occurrence of `part`.
    pub(super) fn skip_past<'a>(self, text: &'a str, part: &str) -> Option<&'a str> {
        match self {
            Self::Sensitive => text.find(part).and_then(|at| text.get(at + part.len()..)),
            // Try every position. This is fine because patterns, methods and hosts are short.
            Self::Insensitive => (0..=text.len().checked_sub(part.len())?)
                .filter_map(|at| text.get(at..))
                .find_map(|text| self.strip_prefix(text, part)),
        }
    }
}

/// An order that ignores case.
pub(super) fn compare_ignoring_case(one: &str, other: &str) -> Ordering {
    one.bytes().map(|byte| byte.to_ascii_lowercase()).cmp(other.bytes().map(|byte| byte.to_ascii_lowercase()))
}
