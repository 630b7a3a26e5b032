//! Which counters are superseded when limits change, and until when.

use tidegate_core::migration::{
    IdentifiedCounter, LimitMigration, SupersededCounter, next_expiry, supersede, wait_past_superseded,
};
#[cfg(feature = "rules")]
use tidegate_core::rules::RuleLimit;
use tidegate_core::{Counter, LimitId, Nanos, Timestamp, Wait};

const SECOND_NS: u64 = 1_000_000_000;
const DAY_NS: u64 = 86_400 * SECOND_NS;
/// 30 March 2025 in Paris: a day of 23 hours.
#[cfg(feature = "calendar")]
const SHORT_DAY_NS: u64 = 1_743_289_200 * SECOND_NS;

/// A rule's name and a limit's identity in it.
type Identity = (&'static str, LimitId);

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_nanos(DAY_NS + seconds * SECOND_NS)
}

fn counter(rule: &str, limit: &str) -> Counter {
    Counter::new(rule, 0, limit.parse().expect(limit))
}

fn identified<'a>(rule: &'static str, id: LimitId, counter: &'a Counter) -> IdentifiedCounter<'a, Identity> {
    IdentifiedCounter { identity: (rule, id), counter }
}

fn ends(superseded: &[SupersededCounter]) -> Vec<(String, u64)> {
    let end = |old: &SupersededCounter| {
        (old.counter.limit().to_string(), (old.until.as_nanos() - DAY_NS) / SECOND_NS)
    };
    superseded.iter().map(end).collect()
}

#[test]
fn a_changed_limit_supersedes_the_counter_for_the_shorter_window() {
    let minute = counter("login", "5 per minute");
    assert_eq!(supersede(&minute, &counter("login", "50 per minute burst 3"), at(0)), None);
    for (other, seconds) in [
        ("5 per hour", 60),
        ("5 per second", 1),
        ("{algorithm: fixed_window, limit: 5, per: 1m}", 60),
        ("{algorithm: concurrency, limit: 5, ttl: 10s}", 10),
    ] {
        let other = counter("login", other);
        for (old, new) in [(&minute, &other), (&other, &minute)] {
            let superseded = supersede(old, new, at(7)).expect("another counter");
            assert_eq!((superseded.counter.id(), superseded.until), (old.id(), at(7 + seconds)));
        }
    }
}

/// For a calendar, the window is the current one, whatever its length.
#[test]
#[cfg(feature = "calendar")]
fn a_calendar_counter_is_superseded_until_its_window_ends() {
    let now = Timestamp::from_nanos(SHORT_DAY_NS);
    let day = counter("quota", "{algorithm: fixed_window, limit: 5, per: day, align: {tz: Europe/Paris}}");
    let superseded = supersede(&day, &counter("quota", "5 per week"), now).expect("another counter");
    assert_eq!(superseded.until.as_nanos(), SHORT_DAY_NS + 23 * 3_600 * SECOND_NS);
}

#[test]
fn superseded_counters_end_within_representable_time() {
    let end = Timestamp::from_nanos(u64::MAX);
    let superseded =
        supersede(&counter("login", "5 per minute"), &counter("login", "5 per hour"), end).unwrap();
    assert_eq!(superseded.until, end);
}

#[test]
fn limits_migrate_by_identity() {
    let position = LimitId::Position;
    let (minute, hour) = ("{algorithm: gcra, limit: 5, per: 60s}", "{algorithm: gcra, limit: 5, per: 3600s}");
    let [a, b, gone] = ["a", "b", "gone"].map(|rule| counter(rule, minute));
    let (new_a, same_b) = (counter("a", hour), counter("b", "{algorithm: gcra, limit: 9, per: 60s}"));
    let added = counter("new", hour);
    let old = [
        identified("a", position(0), &a),
        identified("b", position(0), &b),
        identified("gone", position(0), &gone),
    ];
    let new = [
        identified("new", position(0), &added),
        identified("b", position(0), &same_b),
        identified("a", position(0), &new_a),
    ];
    let superseded = LimitMigration { old: &old, new: &new, superseded: &[], now: at(0) }.superseded();
    let [only] = superseded.as_slice() else { panic!("{superseded:?}") };
    assert_eq!((only.counter.id(), only.until), (a.id(), at(60)));
    // Another position, or another name, is another limit.
    for id in [position(1), LimitId::Name("x".into())] {
        let new = [identified("a", id, &new_a)];
        assert_eq!(LimitMigration { old: &old, new: &new, superseded: &[], now: at(0) }.superseded(), []);
    }
}

/// From minutes to hours to days, and back to hours.
#[test]
fn a_superseded_counter_stays_until_it_expires_or_is_current_again() {
    let limits = ["60", "3600", "86400"].map(|per| format!("{{algorithm: gcra, limit: 5, per: {per}s}}"));
    let [minute, hour, day] = limits.each_ref().map(|limit| counter("a", limit));
    let alone = |counter| [identified("a", LimitId::Position(0), counter)];
    let change = |old, new, superseded: &[SupersededCounter], seconds| {
        LimitMigration { old: &alone(old), new: &alone(new), superseded, now: at(seconds) }.superseded()
    };
    let text = |counter: &Counter| counter.limit().to_string();
    let first = change(&minute, &hour, &[], 0);
    assert_eq!(ends(&first), [(text(&minute), 60)]);
    let second = change(&hour, &day, &first, 59);
    assert_eq!(ends(&second), [(text(&hour), 3_659), (text(&minute), 60)], "the latest comes first");
    assert_eq!(ends(&change(&hour, &day, &first, 60)), [(text(&hour), 3_660)], "it has ended");
    let back = change(&day, &hour, &second, 59);
    assert_eq!(ends(&back), [(text(&day), 3_659), (text(&minute), 60)], "the current one is not listed");
}

/// If two limits leave the same counter, the later end applies.
#[test]
fn a_counter_is_superseded_once() {
    let minute = counter("a", "{algorithm: gcra, limit: 5, per: 60s}");
    let (second, hour) = (counter("a", "5 per second"), counter("b", "5 per hour"));
    let (one, other) = (LimitId::Position(0), LimitId::Position(1));
    let old = [identified("a", one.clone(), &minute), identified("a", other.clone(), &minute)];
    let new = [identified("a", one, &second), identified("a", other, &hour)];
    let superseded = LimitMigration { old: &old, new: &new, superseded: &[], now: at(0) }.superseded();
    assert_eq!(superseded, [SupersededCounter { counter: minute, until: at(60) }]);
}

#[test]
fn a_wait_ignores_counters_that_expire_before_it_ends() {
    let superseded = [(90, "1 per hour"), (30, "1 per minute")]
        .map(|(end, limit)| SupersededCounter { counter: counter("a", limit), until: at(end) });
    let seconds = |seconds: u64| Wait::of(Nanos::new(u128::from(seconds * SECOND_NS)));
    let wait_with = |waits: fn(u64) -> Option<u64>| {
        let wait_at =
            |from: Timestamp| waits((from.as_nanos() - DAY_NS) / SECOND_NS).map_or(Wait::NEVER, seconds);
        wait_past_superseded(at(0), |at| next_expiry(&superseded, at), wait_at)
    };
    assert_eq!(wait_with(|_| Some(29)), (at(0), seconds(29)), "the wait ends before a counter does");
    assert_eq!(wait_with(|from| Some(if from < 30 { 30 } else { 5 })), (at(30), seconds(5)));
    assert_eq!(wait_with(|from| if from < 90 { None } else { Some(0) }), (at(90), Wait::NONE));
    assert_eq!(wait_with(|_| None), (at(90), Wait::NEVER), "never, by the current counters");
    assert_eq!(next_expiry(&superseded, at(30)), Some(at(90)), "a counter that ends now has ended");
    assert_eq!(next_expiry(&superseded, at(90)), None);
}

#[test]
#[cfg(feature = "rules")]
fn a_limit_id_is_its_former_id_its_name_or_its_position() {
    let rule_limit = |limit: &str, was: Option<LimitId>| RuleLimit {
        limit: limit.parse().expect(limit),
        was,
        key: Default::default(),
        missing: Default::default(),
        cost: Default::default(),
        action: Default::default(),
    };
    let named = "{limit: 5, per: 1m, name: x}";
    let name = |name: &str| LimitId::Name(name.into());
    assert_eq!(rule_limit("5 per minute", None).counter_id(3), LimitId::Position(3));
    assert_eq!(rule_limit(named, None).counter_id(3), name("x"));
    assert_eq!(rule_limit(named, Some(name("y"))).counter_id(3), name("y"));
    assert_eq!(rule_limit(named, Some(LimitId::Position(1))).counter_id(3), LimitId::Position(1));
}
