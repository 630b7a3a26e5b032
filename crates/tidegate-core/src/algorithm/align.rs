//! Where the windows of a limit begin, before it is checked.

/// Where windows begin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Align {
    /// At multiples of the window since the Unix epoch: the same edges for every key.
    #[default]
    Epoch,
    /// At the key's first request after its last window ended.
    FirstHit,
    /// With the days, weeks or months of a time zone: the same edges for every key.
    Calendar(CalendarSpec),
}

/// The days, weeks or months of a time zone, before they are checked. The limit's window says which: one day, seven
/// days or thirty days.
///
/// ```
/// # #[cfg(feature = "calendar")] {
/// use tidegate_core::algorithm::{Align, CalendarSpec};
/// use tidegate_core::{AlgorithmName, LimitSpec};
///
/// let billing = CalendarSpec { day_of_month: Some(15), ..CalendarSpec::in_zone("Europe/Paris") };
/// let month_ns = 30 * 86_400_000_000_000;
/// let limit = LimitSpec {
///     algorithm: Some(AlgorithmName::FixedWindow),
///     align: Some(Align::Calendar(billing)),
///     ..LimitSpec::new(1000, month_ns)
/// };
/// assert_eq!(
///     limit.build()?.to_string(),
///     "{algorithm: fixed_window, limit: 1000, per: month, align: {tz: Europe/Paris, day_of_month: 15}}"
/// );
/// # }
/// # Ok::<(), tidegate_core::LimitError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CalendarSpec {
    /// The time zone, by its name in the IANA time zone database: `Europe/Paris`.
    pub tz: String,
    /// The first day of the week, if windows are weeks. Monday by default.
    pub week_starts: Option<Weekday>,
    /// The first day of the month, 1 to 31, if windows are months. 1 by default. In a month that is too short, the
    /// window begins on the last day.
    pub day_of_month: Option<u64>,
}

impl CalendarSpec {
    /// The calendar of a time zone, with defaults for everything else.
    pub fn in_zone(tz: impl Into<String>) -> Self {
        Self { tz: tz.into(), week_starts: None, day_of_month: None }
    }
}

/// The calendar of UTC.
impl Default for CalendarSpec {
    fn default() -> Self {
        Self::in_zone("UTC")
    }
}

/// A day of the week.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum Weekday {
    #[default]
    Monday,
    Tuesday,
    Wednesday,
    Thursday,
    Friday,
    Saturday,
    Sunday,
}

impl Weekday {
    /// All seven, starting with Monday.
    pub const ALL: [Self; 7] = [
        Self::Monday,
        Self::Tuesday,
        Self::Wednesday,
        Self::Thursday,
        Self::Friday,
        Self::Saturday,
        Self::Sunday,
    ];

    /// As it is written in a limit.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Monday => "monday",
            Self::Tuesday => "tuesday",
            Self::Wednesday => "wednesday",
            Self::Thursday => "thursday",
            Self::Friday => "friday",
            Self::Saturday => "saturday",
            Self::Sunday => "sunday",
        }
    }
}
