//! Whether upper and lower case differ.

use std::cmp::Ordering;

/// Whether upper and lower case of the letters of ASCII differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CaseSensitivity {
    /// They do.
    #[default]
    Sensitive,
    /// They do not.
    Insensitive,
}

impl CaseSensitivity {
    pub(in crate::rules) fn are_equal(self, one: &str, other: &str) -> bool {
        match self {
            Self::Sensitive => one == other,
            Self::Insensitive => one.eq_ignore_ascii_case(other),
        }
    }

    /// What follows the beginning, if the text begins so.
    pub(in crate::rules) fn strip_prefix<'a>(self, text: &'a str, beginning: &str) -> Option<&'a str> {
        let (head, tail) = text.split_at_checked(beginning.len())?;
        self.are_equal(head, beginning).then_some(tail)
    }

    /// What precedes the end, if the text ends so.
    pub(super) fn strip_suffix<'a>(self, text: &'a str, end: &str) -> Option<&'a str> {
        let (head, tail) = text.split_at_checked(text.len().checked_sub(end.len())?)?;
        self.are_equal(tail, end).then_some(head)
    }

    /// What follows the first place at which the part stands.
    pub(super) fn skip_past<'a>(self, text: &'a str, part: &str) -> Option<&'a str> {
        match self {
            Self::Sensitive => text.find(part).and_then(|at| text.get(at + part.len()..)),
            // Place by place; a pattern is short, and so are methods and hosts.
            Self::Insensitive => (0..=text.len().checked_sub(part.len())?)
                .filter_map(|at| text.get(at..))
                .find_map(|text| self.strip_prefix(text, part)),
        }
    }
}

/// The order in which upper and lower case do not differ.
pub(super) fn compare_ignoring_case(one: &str, other: &str) -> Ordering {
    one.bytes().map(|byte| byte.to_ascii_lowercase()).cmp(other.bytes().map(|byte| byte.to_ascii_lowercase()))
}
