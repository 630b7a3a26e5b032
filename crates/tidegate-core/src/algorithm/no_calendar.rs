//! Replaces `calendar.rs` without the feature `calendar`: a calendar type that has no values.
//!
//! The enum variants that hold a calendar exist with and without the feature, so that enabling it breaks no `match`.
//! [`CalendarSpec::build`] is the only way to make a calendar, and here it returns an error.

use std::convert::Infallible;
use std::fmt;

use super::{CalendarSpec, CalendarWindow};
use crate::Timestamp;

/// Days, weeks or months in a time zone. Needs the feature `calendar`: without it there are no values of this type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calendar(Infallible);

impl Calendar {
    /// The window that `at` is in.
    pub fn window(&self, _at: Timestamp) -> CalendarWindow {
        match self.0 {}
    }

    /// The zone's name in the IANA time zone database.
    pub fn zone_name(&self) -> &str {
        match self.0 {}
    }

    pub(crate) fn spec(&self) -> CalendarSpec {
        match self.0 {}
    }

    pub(crate) fn unit_name(&self) -> &'static str {
        match self.0 {}
    }

    pub(crate) fn state_format(&self) -> String {
        match self.0 {}
    }
}

impl fmt::Display for Calendar {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {}
    }
}
