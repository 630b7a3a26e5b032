//! Reads and writes specs.

use std::fmt;
use std::str::FromStr;

use super::{LimitError, LimitSpec, duration, parse};
use crate::algorithm::{Align, CalendarSpec};

impl FromStr for LimitSpec {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        parse::spec(text)
    }
}

/// The long form, with the fields that are set. [`str::parse`] reads the same spec from it. Nothing is checked.
impl fmt::Display for LimitSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = Fields { f, separator: "{" };
        fields.write("algorithm", self.algorithm)?;
        fields.write("limit", Some(self.limit))?;
        fields.write("per", (self.per_ns > 0).then(|| duration::write(self.per_ns)))?;
        fields.write("burst", self.burst)?;
        fields.write("queue", self.queue)?;
        fields.write("sub_windows", self.sub_windows)?;
        fields.write("strict", self.strict)?;
        fields.write("count_denied", self.count_denied)?;
        fields.write("min_interval", self.min_interval_ns.map(duration::write))?;
        fields.write("align", self.align.as_ref().map(AlignText))?;
        fields.write("ttl", self.ttl_ns.map(duration::write))?;
        fields.write("name", self.name.as_deref())?;
        f.write_str("}")
    }
}

struct Fields<'a, 'f> {
    f: &'a mut fmt::Formatter<'f>,
    separator: &'static str,
}

impl Fields<'_, '_> {
    fn write(&mut self, name: &str, value: Option<impl fmt::Display>) -> fmt::Result {
        let Some(value) = value else { return Ok(()) };
        let separator = std::mem::replace(&mut self.separator, ", ");
        write!(self.f, "{separator}{name}: {value}")
    }
}

struct AlignText<'a>(&'a Align);

impl fmt::Display for AlignText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Align::Epoch => f.write_str("epoch"),
            Align::FirstHit => f.write_str("first_hit"),
            Align::Calendar(CalendarSpec { tz, week_starts, day_of_month }) => {
                write!(f, "{{tz: {tz}")?;
                if let Some(weekday) = week_starts {
                    write!(f, ", week_starts: {}", weekday.as_str())?;
                }
                if let Some(day) = day_of_month {
                    write!(f, ", day_of_month: {day}")?;
                }
                f.write_str("}")
            }
        }
    }
}
