//! Units of time as the rate limit service has them.

use tidegate_core::rules::Unit;

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
    pub fn of_number(number: u64) -> Option<Self> {
        usize::try_from(number).ok().and_then(|number| Self::ALL.get(number)).copied()
    }

    /// The one that is so long.
    pub fn of_window(window_ns: u64) -> Self {
        let unit = Unit::ALL.into_iter().find(|unit| unit.nanos() == window_ns);
        unit.map_or(Self::Unknown, Self::from)
    }

    /// As the engine has it; the unknown one is none.
    pub const fn unit(self) -> Option<Unit> {
        match self {
            Self::Unknown => None,
            Self::Second => Some(Unit::Second),
            Self::Minute => Some(Unit::Minute),
            Self::Hour => Some(Unit::Hour),
            Self::Day => Some(Unit::Day),
            Self::Month => Some(Unit::Month),
            Self::Year => Some(Unit::Year),
            Self::Week => Some(Unit::Week),
        }
    }
}

impl From<Unit> for RlsUnit {
    fn from(unit: Unit) -> Self {
        match unit {
            Unit::Second => Self::Second,
            Unit::Minute => Self::Minute,
            Unit::Hour => Self::Hour,
            Unit::Day => Self::Day,
            Unit::Week => Self::Week,
            Unit::Month => Self::Month,
            Unit::Year => Self::Year,
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
            assert_eq!(RlsUnit::of_number(number as u64), Some(unit));
            if let Some(there) = unit.unit() {
                assert_eq!(RlsUnit::from(there), unit);
                assert_eq!(RlsUnit::of_window(there.nanos()), unit);
                assert_eq!(there.as_str().to_uppercase(), unit.as_str());
            }
        }
        assert_eq!(RlsUnit::of_number(8), None);
        assert_eq!(RlsUnit::of_window(5_000_000_000), RlsUnit::Unknown);
    }
}
