//! Which counters go when limits change, and when.

#[cfg(feature = "rules")]
use tidegate_core::rules::RuleLimit;
use tidegate_core::succession::{Change, Known, Retiring, next_end, past_ends, retire};
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

fn known<'a>(rule: &'static str, id: LimitId, counter: &'a Counter) -> Known<'a, Identity> {
    Known { identity: (rule, id), counter }
}

fn ends(retiring: &[Retiring]) -> Vec<(String, u64)> {
    let end = |old: &Retiring| (old.counter.limit().to_string(), (old.until.as_nanos() - DAY_NS) / SECOND_NS);
    retiring.iter().map(end).collect()
}

#[test]
fn the_same_shape_is_the_same_counter_and_another_retires_after_the_shorter_window() {
    let minute = counter("login", "5 per minute");
    assert_eq!(retire(&minute, &counter("login", "50 per minute burst 3"), at(0)), None);
    for (other, seconds) in [
        ("5 per hour", 60),
        ("5 per second", 1),
        ("{algorithm: fixed_window, limit: 5, per: 1m}", 60),
        ("{algorithm: concurrency, limit: 5, ttl: 10s}", 10),
    ] {
        let other = counter("login", other);
        for (old, new) in [(&minute, &other), (&other, &minute)] {
            let retiring = retire(old, new, at(7)).expect("another counter");
            assert_eq!((retiring.counter.id(), retiring.until), (old.id(), at(7 + seconds)));
        }
    }
}

/// The window of a calendar is the one that it is in, however long.
#[test]
#[cfg(feature = "calendar")]
fn a_calendar_retires_after_the_window_it_is_in() {
    let now = Timestamp::from_nanos(SHORT_DAY_NS);
    let day = counter("quota", "{algorithm: fixed_window, limit: 5, per: day, align: {tz: Europe/Paris}}");
    let retiring = retire(&day, &counter("quota", "5 per week"), now).expect("another counter");
    assert_eq!(retiring.until.as_nanos(), SHORT_DAY_NS + 23 * 3_600 * SECOND_NS);
}

#[test]
fn nothing_outlasts_representable_time() {
    let end = Timestamp::from_nanos(u64::MAX);
    let retiring = retire(&counter("login", "5 per minute"), &counter("login", "5 per hour"), end).unwrap();
    assert_eq!(retiring.until, end);
}

#[test]
fn limits_of_a_set_of_rules_follow_each_other_by_identity() {
    let place = LimitId::Place;
    let (minute, hour) = ("{algorithm: gcra, limit: 5, per: 60s}", "{algorithm: gcra, limit: 5, per: 3600s}");
    let [a, b, gone] = ["a", "b", "gone"].map(|rule| counter(rule, minute));
    let (new_a, same_b) = (counter("a", hour), counter("b", "{algorithm: gcra, limit: 9, per: 60s}"));
    let added = counter("new", hour);
    let old = [known("a", place(0), &a), known("b", place(0), &b), known("gone", place(0), &gone)];
    let new = [known("new", place(0), &added), known("b", place(0), &same_b), known("a", place(0), &new_a)];
    let retiring = Change { old: &old, new: &new, retiring: &[], now: at(0) }.retiring();
    let [only] = retiring.as_slice() else { panic!("{retiring:?}") };
    assert_eq!((only.counter.id(), only.until), (a.id(), at(60)));
    // Another place, or a name that is not its own, is another limit.
    for id in [place(1), LimitId::Name("x".into())] {
        let new = [known("a", id, &new_a)];
        assert_eq!(Change { old: &old, new: &new, retiring: &[], now: at(0) }.retiring(), []);
    }
}

/// From minutes to hours to days, and back to hours.
#[test]
fn what_was_on_its_way_out_stays_so_until_it_ends_or_is_back() {
    let limits = ["60", "3600", "86400"].map(|per| format!("{{algorithm: gcra, limit: 5, per: {per}s}}"));
    let [minute, hour, day] = limits.each_ref().map(|limit| counter("a", limit));
    let alone = |counter| [known("a", LimitId::Place(0), counter)];
    let change = |old, new, retiring: &[Retiring], seconds| {
        Change { old: &alone(old), new: &alone(new), retiring, now: at(seconds) }.retiring()
    };
    let text = |counter: &Counter| counter.limit().to_string();
    let first = change(&minute, &hour, &[], 0);
    assert_eq!(ends(&first), [(text(&minute), 60)]);
    let second = change(&hour, &day, &first, 59);
    assert_eq!(ends(&second), [(text(&hour), 3_659), (text(&minute), 60)], "the latest first");
    assert_eq!(ends(&change(&hour, &day, &first, 60)), [(text(&hour), 3_660)], "its time is over");
    let back = change(&day, &hour, &second, 59);
    assert_eq!(ends(&back), [(text(&day), 3_659), (text(&minute), 60)], "nothing retires that is in force");
}

/// Of a counter that two limits left, the longer stay counts.
#[test]
fn a_counter_retires_once() {
    let minute = counter("a", "{algorithm: gcra, limit: 5, per: 60s}");
    let (second, hour) = (counter("a", "5 per second"), counter("b", "5 per hour"));
    let (one, other) = (LimitId::Place(0), LimitId::Place(1));
    let old = [known("a", one.clone(), &minute), known("a", other.clone(), &minute)];
    let new = [known("a", one, &second), known("a", other, &hour)];
    let retiring = Change { old: &old, new: &new, retiring: &[], now: at(0) }.retiring();
    assert_eq!(retiring, [Retiring { counter: minute, until: at(60) }]);
}

#[test]
fn a_wait_goes_past_the_counters_that_end_before_it_does() {
    let retiring = [(90, "1 per hour"), (30, "1 per minute")]
        .map(|(end, limit)| Retiring { counter: counter("a", limit), until: at(end) });
    let seconds = |seconds: u64| Wait::of(Nanos::new(u128::from(seconds * SECOND_NS)));
    let go = |waits: fn(u64) -> Option<u64>| {
        let wait_at =
            |from: Timestamp| waits((from.as_nanos() - DAY_NS) / SECOND_NS).map_or(Wait::NEVER, seconds);
        past_ends(at(0), |at| next_end(&retiring, at), wait_at)
    };
    assert_eq!(go(|_| Some(29)), (at(0), seconds(29)), "over before anything ends");
    assert_eq!(go(|from| Some(if from < 30 { 30 } else { 5 })), (at(30), seconds(5)));
    assert_eq!(go(|from| if from < 90 { None } else { Some(0) }), (at(90), Wait::NONE));
    assert_eq!(go(|_| None), (at(90), Wait::NEVER), "never with what stays");
    assert_eq!(next_end(&retiring, at(30)), Some(at(90)), "one that ends now has ended");
    assert_eq!(next_end(&retiring, at(90)), None);
}

#[test]
#[cfg(feature = "rules")]
fn a_limit_is_known_by_what_it_was_its_name_or_its_place() {
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
    assert_eq!(rule_limit("5 per minute", None).identity(3), LimitId::Place(3));
    assert_eq!(rule_limit(named, None).identity(3), name("x"));
    assert_eq!(rule_limit(named, Some(name("y"))).identity(3), name("y"));
    assert_eq!(rule_limit(named, Some(LimitId::Place(1))).identity(3), LimitId::Place(1));
}
