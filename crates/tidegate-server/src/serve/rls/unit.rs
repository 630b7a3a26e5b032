//! Time units of the rate limit service.

use tidegate_core::rules::TimeUnit;

/// The values of `RateLimitResponse.RateLimit.Unit` and `envoy.type.v3.RateLimitUnit`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum RlsUnit {
    /// No unit.
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
    /// 7 days. Limits in requests may use it too, although `envoy.type.v3.RateLimitUnit` does not name it.
    Week = 7,
}

impl RlsUnit {
    /// All units, by number.
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

    /// The name in protobuf.
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

    /// The unit with this number.
    pub fn from_number(number: u64) -> Option<Self> {
        usize::try_from(number).ok().and_then(|number| Self::ALL.get(number)).copied()
    }

    /// The unit of this length, else `Unknown`.
    pub fn from_window(window_ns: u64) -> Self {
        let unit = TimeUnit::ALL.into_iter().find(|unit| unit.nanos() == window_ns);
        unit.map_or(Self::Unknown, Self::from)
    }

    /// The engine's unit; `None` for `Unknown`.
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
            if let Some(engine_unit) = unit.to_unit() {
                assert_eq!(RlsUnit::from(engine_unit), unit);
                assert_eq!(RlsUnit::from_window(engine_unit.nanos()), unit);
                assert_eq!(engine_unit.as_str().to_uppercase(), unit.as_str());
            }
        }
        assert_eq!(RlsUnit::from_number(8), None);
        assert_eq!(RlsUnit::from_window(5_000_000_000), RlsUnit::Unknown);
    }
}
