//! Units of time as the rate limit service has them.

use tidegate_core::rules::TimeUnit;

/// A unit of time, by the number it has in `RateLimitResponse.RateLimit.Unit` and `envoy.type.v3.RateLimitUnit`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum RlsUnit {
    /// None of them.
    #[default]
    Unknown = 0,
    /// A second.
    Second = 1,
    /// 60 seconds.
    Minute = 2,
    /// 60 minutes.
    Hour = 3,
    /// 24 hours.
    Day = 4,
    /// 30 days.
    Month = 5,
    /// 365 days.
    Year = 6,
    /// 7 days. Limits of requests may have it too, though `envoy.type.v3.RateLimitUnit` has no name for it.
    Week = 7,
}

impl RlsUnit {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Unknown,
        Self::Second,
        Self::Minute,
        Self::Hour,
        Self::Day,
        Self::Month,
        Self::Year,
        Self::Week,
    ];

    /// Its name in protobuf.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "UNKNOWN",
            Self::Second => "SECOND",
            Self::Minute => "MINUTE",
            Self::Hour => "HOUR",
            Self::Day => "DAY",
            Self::Month => "MONTH",
            Self::Year => "YEAR",
            Self::Week => "WEEK",
        }
    }

    /// The one with this number.
    pub fn from_number(number: u64) -> Option<Self> {
        usize::try_from(number).ok().and_then(|number| Self::ALL.get(number)).copied()
    }

    /// The one that is so long.
    pub fn from_window(window_ns: u64) -> Self {
        let unit = TimeUnit::ALL.into_iter().find(|unit| unit.nanos() == window_ns);
        unit.map_or(Self::Unknown, Self::from)
    }

    /// As the engine has it; the unknown one is none.
    pub const fn to_unit(self) -> Option<TimeUnit> {
        match self {
            Self::Unknown => None,
            Self::Second => Some(TimeUnit::Second),
            Self::Minute => Some(TimeUnit::Minute),
            Self::Hour => Some(TimeUnit::Hour),
            Self::Day => Some(TimeUnit::Day),
            Self::Month => Some(TimeUnit::Month),
            Self::Year => Some(TimeUnit::Year),
            Self::Week => Some(TimeUnit::Week),
        }
    }
}

impl From<TimeUnit> for RlsUnit {
    fn from(unit: TimeUnit) -> Self {
        match unit {
            TimeUnit::Second => Self::Second,
            TimeUnit::Minute => Self::Minute,
            TimeUnit::Hour => Self::Hour,
            TimeUnit::Day => Self::Day,
            TimeUnit::Week => Self::Week,
            TimeUnit::Month => Self::Month,
            TimeUnit::Year => Self::Year,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_windows_and_back() {
        for (number, unit) in RlsUnit::ALL.into_iter().enumerate() {
            assert_eq!(unit as usize, number);
            assert_eq!(RlsUnit::from_number(number as u64), Some(unit));
            if let Some(there) = unit.to_unit() {
                assert_eq!(RlsUnit::from(there), unit);
                assert_eq!(RlsUnit::from_window(there.nanos()), unit);
                assert_eq!(there.as_str().to_uppercase(), unit.as_str());
            }
        }
        assert_eq!(RlsUnit::from_number(8), None);
        assert_eq!(RlsUnit::from_window(5_000_000_000), RlsUnit::Unknown);
    }
}
