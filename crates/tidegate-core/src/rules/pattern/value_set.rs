//! A set of values.

use std::cmp::Ordering;

use super::case::compare_ignoring_case;
use super::value_pattern::check_length;
use super::{CaseSensitivity, PatternError, SET_ENTRIES_MAX};

/// Values, each once and sorted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueSet {
    /// Sorted without regard to case, and then with regard to case. So a binary search works both with and without
    /// regard to case.
    values: Box<[Box<str>]>,
}

impl ValueSet {
    /// A set of these values, without duplicates.
    pub fn new(values: impl IntoIterator<Item = impl Into<Box<str>>>) -> Result<Self, PatternError> {
        let mut checked: Vec<Box<str>> = Vec::new();
        for value in values {
            if checked.len() == SET_ENTRIES_MAX {
                return Err(PatternError::new(
                    format!("a list of more than {SET_ENTRIES_MAX} values"),
                    "split the rule into several",
                ));
            }
            let value = value.into();
            check_length(&value)?;
            checked.push(value);
        }
        if checked.is_empty() {
            return Err(PatternError::new(
                "an empty list matches nothing",
                "name at least one value, or write `{ exists: false }`",
            ));
        }
        checked.sort_unstable_by(|one, other| value_order(one, other));
        checked.dedup();
        Ok(Self { values: checked.into() })
    }

    /// The values.
    pub fn values(&self) -> &[Box<str>] {
        &self.values
    }

    pub(crate) fn contains(&self, value: &str, case: CaseSensitivity) -> bool {
        let order = match case {
            CaseSensitivity::Sensitive => value_order,
            CaseSensitivity::Insensitive => compare_ignoring_case,
        };
        self.values.binary_search_by(|other| order(other, value)).is_ok()
    }
}

fn value_order(one: &str, other: &str) -> Ordering {
    compare_ignoring_case(one, other).then_with(|| one.cmp(other))
}
