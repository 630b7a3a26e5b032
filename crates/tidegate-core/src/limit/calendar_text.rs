//! Reads calendars in limits.

use std::str::FromStr;

use super::{LimitError, parse};
#[cfg(not(feature = "calendar"))]
use crate::algorithm::Calendar;
use crate::algorithm::{CalendarSpec, Weekday};

const FIELDS: [&str; 3] = ["tz", "week_starts", "day_of_month"];

#[cfg(not(feature = "calendar"))]
impl CalendarSpec {
    /// Always an error: calendar windows need the feature `calendar`.
    pub fn build(&self, _per_ns: u64) -> Result<Calendar, LimitError> {
        Err(LimitError::new(
            "calendar windows are not part of this build",
            "enable the feature `calendar` of the crate `tidegate`",
        )
        .with_field("align"))
    }
}

/// Reads the text between the braces of `align: {tz: Europe/Paris, week_starts: sunday}`.
pub(super) fn parse(fields: &str) -> Result<CalendarSpec, LimitError> {
    let mut spec = CalendarSpec::default();
    for (name, value) in parse::fields(fields)? {
        match name {
            "tz" => value.clone_into(&mut spec.tz),
            "week_starts" => spec.week_starts = Some(value.parse()?),
            "day_of_month" => spec.day_of_month = Some(parse::number(name, value)?),
            _ => return Err(LimitError::unknown("field of align", name, &FIELDS)),
        }
    }
    Ok(spec)
}

impl FromStr for Weekday {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        Self::ALL
            .into_iter()
            .find(|weekday| weekday.as_str() == text)
            .ok_or_else(|| LimitError::unknown("weekday", text, &Self::ALL.map(Self::as_str)))
    }
}

#[cfg(all(test, not(feature = "calendar")))]
mod tests {
    use crate::Limit;

    #[test]
    fn an_error_names_the_feature_that_a_calendar_needs() {
        let error_for = |align: &str| {
            let text = format!("{{algorithm: fixed_window, limit: 5, per: month, align: {align}}}");
            text.parse::<Limit>().unwrap_err()
        };
        let error = error_for("{tz: Europe/Paris}");
        assert_eq!(
            error.to_string(),
            "calendar windows are not part of this build \
             (hint: enable the feature `calendar` of the crate `tidegate`)"
        );
        assert_eq!(error.field(), Some("align"));
        assert!(error_for("month").hint().contains("with the feature `calendar`"));
        assert_eq!(error_for("first_hits").hint(), "did you mean `first_hit`?");
    }
}
