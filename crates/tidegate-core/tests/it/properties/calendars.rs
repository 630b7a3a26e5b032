//! Calendar windows: they match the model and leave no gaps.

use proptest::prelude::*;
use proptest::sample::select;
use tidegate_core::Timestamp;
use tidegate_core::algorithm::{CalendarSpec, CalendarWindow, Weekday};

use crate::models::calendar::{Calendar, Window};
use crate::properties::limits::{CALENDAR_ZONES, calendar};
use crate::properties::proptest_config;

const DAY_NS: u64 = 86_400_000_000_000;

/// Zones with unusual clock changes, in addition to those that the model knows.
const ODD_ZONES: [&str; 12] = [
    "Africa/Casablanca",
    "Africa/Monrovia",
    "America/Goose_Bay",
    "America/Nuuk",
    "Antarctica/Troll",
    "Antarctica/Vostok",
    "Asia/Gaza",
    "Asia/Pyongyang",
    "Europe/Dublin",
    "Pacific/Chatham",
    "Pacific/Kiritimati",
    "Etc/GMT+12",
];

/// An instant near a clock change, near an end of time, or anywhere.
fn instant(zone: &str) -> impl Strategy<Value = u64> + use<> {
    let zone = Calendar { spec: CalendarSpec::in_zone(zone), window: DAY_NS };
    let changes = [vec![0], zone.changes()].concat();
    let near_change =
        (select(changes), -40 * 24..40 * 24_i64, -1..=1_i64).prop_map(|(change, hours, off)| {
            u64::try_from((i128::from(change) + i128::from(hours) * 3_600) * 1_000_000_000 + i128::from(off))
                .unwrap_or(0)
        });
    prop_oneof![
        4 => near_change,
        1 => 0..100 * DAY_NS,
        1 => (0..100 * DAY_NS).prop_map(|before| u64::MAX - before),
        1 => select(vec![0, 1, u64::MAX - 1, u64::MAX]),
        3 => 0..70 * 365 * DAY_NS,
        3 => any::<u64>(),
    ]
}

fn calendar_and_instant(
    calendar: impl Strategy<Value = (CalendarSpec, u64)>,
) -> impl Strategy<Value = (CalendarSpec, u64, u64)> {
    calendar.prop_flat_map(|(spec, per_ns)| {
        let instant = instant(&spec.tz);
        (Just(spec), Just(per_ns), instant)
    })
}

fn window(spec: &CalendarSpec, per_ns: u64, at_ns: u64) -> CalendarWindow {
    let calendar = spec.build(per_ns).unwrap_or_else(|error| panic!("{spec:?}: {error}"));
    calendar.window(Timestamp::from_nanos(at_ns))
}

proptest! {
    #![proptest_config(proptest_config(1_500))]

    #[test]
    fn windows_are_those_of_the_model((spec, per_ns, at_ns) in calendar_and_instant(calendar())) {
        let CalendarWindow { start, end_ns } = window(&spec, per_ns, at_ns);
        let model = Calendar { spec, window: per_ns }.window(at_ns.into());
        prop_assert_eq!(Window { start: start.as_nanos().into(), end: end_ns }, model);
    }

    /// For every zone and instant: the window contains the instant, and the next window begins where this one ends.
    #[test]
    fn windows_are_contiguous((spec, per_ns, at_ns) in calendar_and_instant(
        (calendar(), select([&CALENDAR_ZONES[..], &ODD_ZONES[..]].concat()))
            .prop_map(|((spec, per_ns), tz)| (CalendarSpec { tz: tz.to_owned(), ..spec }, per_ns)),
    )) {
        let CalendarWindow { start, end_ns } = window(&spec, per_ns, at_ns);
        prop_assert!(start.as_nanos() <= at_ns && u128::from(at_ns) < end_ns);
        // The longest window: a month plus a day that occurs twice because a zone moved across the date line.
        prop_assert!(end_ns - u128::from(start.as_nanos()) <= 32 * u128::from(DAY_NS));
        if let Ok(end_ns) = u64::try_from(end_ns) {
            let next = window(&spec, per_ns, end_ns);
            prop_assert_eq!(next.start.as_nanos(), end_ns);
            prop_assert!(next.end_ns > u128::from(end_ns));
            prop_assert_eq!(window(&spec, per_ns, end_ns - 1), CalendarWindow { start, end_ns: end_ns.into() });
        }
        if let Some(before_ns) = start.as_nanos().checked_sub(1) {
            prop_assert_eq!(window(&spec, per_ns, before_ns).end_ns, u128::from(start.as_nanos()));
        }
    }
}

/// Every midnight and every clock change of every zone until 2040: the last instant before it, and some minutes later,
/// when a clock that was set back over midnight shows the previous date.
#[test]
fn days_are_those_of_the_model_one_by_one() {
    const UNTIL_NS: u128 = 70 * 365 * 86_400 * 1_000_000_000;
    const MINUTES_NS: u128 = 30 * 60 * 1_000_000_000;
    for tz in CALENDAR_ZONES {
        let model = Calendar { spec: CalendarSpec::in_zone(tz), window: DAY_NS };
        let calendar = model.spec.build(DAY_NS).expect("a valid spec");
        let changes =
            model.changes().into_iter().map(|at| u128::try_from(at).expect("since 1970") * 1_000_000_000);
        for instant in model.midnights().chain(changes).filter(|instant| *instant < UNTIL_NS) {
            for at in [instant.saturating_sub(1), instant, instant + MINUTES_NS] {
                let at_ns = u64::try_from(at).expect("before 2040");
                let CalendarWindow { start, end_ns } = calendar.window(Timestamp::from_nanos(at_ns));
                let window = Window { start: start.as_nanos().into(), end: end_ns };
                assert_eq!(window, model.window(at), "{tz} at {at}");
            }
        }
    }
}

/// The first day of a week, and of a month.
#[test]
fn the_defaults_are_monday_and_the_first() {
    for (per_ns, spec) in [
        (7 * DAY_NS, CalendarSpec { week_starts: Some(Weekday::Monday), ..CalendarSpec::default() }),
        (30 * DAY_NS, CalendarSpec { day_of_month: Some(1), ..CalendarSpec::default() }),
    ] {
        assert_eq!(CalendarSpec::default().build(per_ns), spec.build(per_ns));
    }
}
