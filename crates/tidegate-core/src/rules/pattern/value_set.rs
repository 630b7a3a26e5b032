//! A set of values.

use std::cmp::Ordering;

use super::case::compare_ignoring_case;
use super::{CaseSensitivity, PatternError, SET_ENTRIES_MAX, check_length};

/// Values, each once, in an order of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueSet {
    /// Sorted without regard to case, and by case only where that leaves a tie. So one search finds a value with
    /// regard to case and without.
    values: Box<[Box<str>]>,
}

impl ValueSet {
    /// A set of these values; one that comes twice counts once.
    pub fn new(values: impl IntoIterator<Item = impl Into<Box<str>>>) -> Result<Self, PatternError> {
        let mut kept: Vec<Box<str>> = Vec::new();
        for value in values {
            if kept.len() == SET_ENTRIES_MAX {
                return Err(PatternError::new(
                    format!("a list of more than {SET_ENTRIES_MAX} values"),
                    "split the rule in several",
                ));
            }
            let value = value.into();
            check_length(&value)?;
            kept.push(value);
        }
        if kept.is_empty() {
            return Err(PatternError::new(
                "an empty list matches nothing",
                "name at least one value, or write `{ exists: false }`",
            ));
        }
        kept.sort_unstable_by(|one, other| value_order(one, other));
        kept.dedup();
        Ok(Self { values: kept.into() })
    }

    /// The values.
    pub fn values(&self) -> &[Box<str>] {
        &self.values
    }

    pub(in crate::rules) fn contains(&self, value: &str, case: CaseSensitivity) -> bool {
        let order = match case {
            CaseSensitivity::Sensitive => value_order,
            CaseSensitivity::Insensitive => compare_ignoring_case,
        };
        self.values.binary_search_by(|kept| order(kept, value)).is_ok()
    }
}

fn value_order(one: &str, other: &str) -> Ordering {
    compare_ignoring_case(one, other).then_with(|| one.cmp(other))
}
