//! Plans, the identity of counters, and decisions.

use tidegate_core::{
    Charge, Counter, CounterId, Decision, Limit, LimitId, Nanos, Outcome, OutcomeKind, PLAN_CHARGES_MAX,
    Plan, PlanFull, Role, Wait,
};

fn counter(rule: &str, position: usize, limit: &str) -> Counter {
    let limit: Limit = limit.parse().unwrap_or_else(|error| panic!("{limit}: {error}"));
    Counter::new(rule, position, limit)
}

fn id(limit: &str) -> CounterId {
    counter("rule", 0, limit).id()
}

/// Identified by the rule alone: each key has one arrival time, whatever limit a request comes with.
#[test]
fn shared_gcra_counters_are_identified_by_rule() {
    let shared = |rule: &str, limit: &str| Counter::shared_gcra(rule, limit.parse().expect(limit));
    let first = shared("throttle", "5 per minute burst 9").expect("it is gcra");
    for limit in ["5 per minute", "7 per minute burst 9", "5 per hour", "1/s"] {
        let other = shared("throttle", limit).expect("it is gcra");
        assert_eq!((other.id(), other.limit()), (first.id(), &limit.parse().unwrap()), "{limit}");
        assert_ne!(other.id(), counter("throttle", 0, limit).id(), "{limit}");
    }
    assert_ne!(shared("another", "5 per minute").unwrap().id(), first.id());
    for limit in
        ["{algorithm: token_bucket, limit: 5, per: 1m}", "{algorithm: fixed_window, limit: 5, per: 1m}"]
    {
        assert_eq!(shared("throttle", limit), None, "{limit}: its state has no meaning under another rate");
    }
}

mod plan {
    use super::*;

    /// The key, counter and cost of every charge.
    fn charges(plan: &Plan<'_>) -> Vec<(String, CounterId, u64)> {
        let fields = |charge: &Charge<'_>| {
            (String::from_utf8_lossy(charge.key).into_owned(), charge.counter.id(), charge.cost)
        };
        plan.charges().iter().map(fields).collect()
    }

    #[test]
    fn the_same_key_on_the_same_counter_is_one_charge() {
        let (minute, hour) = (counter("login", 0, "5 per minute"), counter("login", 1, "50 per hour"));
        let mut plan = Plan::new();
        for (key, counter, cost) in [
            ("ann", &minute, 1),
            ("bob", &minute, 2),
            ("ann", &hour, 4),
            ("ann", &minute, 8),
            ("ann", &hour, 0),
        ] {
            plan.add(Charge::new(key.as_bytes(), counter, cost)).expect("room");
        }
        let expected = [("ann", minute.id(), 9), ("bob", minute.id(), 2), ("ann", hour.id(), 4)];
        assert_eq!(charges(&plan), expected.map(|(key, id, cost)| (key.to_owned(), id, cost)));
    }

    /// A charge is enforced if one of its limits is.
    #[test]
    fn of_two_roles_the_enforced_one_wins() {
        let minute = counter("login", 0, "5 per minute");
        let (enforced, observed) = (Role::Enforced, Role::Observed);
        for (roles, expected) in [
            ([enforced, observed], enforced),
            ([observed, enforced], enforced),
            ([observed, observed], observed),
        ] {
            let mut plan = Plan::new();
            for role in roles {
                plan.add(Charge { role, ..Charge::new(b"ann", &minute, 2) }).expect("room");
            }
            let [charge] = plan.charges() else { panic!("one charge") };
            assert_eq!((charge.role, charge.cost), (expected, 4));
            assert_eq!(plan.enforced().count(), usize::from(expected == enforced));
        }
    }

    /// A sum that overflows exceeds every limit. It must not wrap around to a small one.
    #[test]
    fn summed_costs_do_not_wrap() {
        let minute = counter("login", 0, "5 per minute");
        let mut plan = Plan::new();
        for cost in [u64::MAX, 3] {
            plan.add(Charge::new(b"ann", &minute, cost)).expect("room");
        }
        assert_eq!(plan.charges()[0].cost, u64::MAX);
    }

    /// Equal counters are the same counter, even if they are different values.
    #[test]
    fn counters_are_the_same_by_identity() {
        let (one, other) = (counter("login", 0, "5 per minute"), counter("login", 0, "5 per minute"));
        let mut plan = Plan::new();
        for counter in [&one, &other] {
            plan.add(Charge::new(b"ann", counter, 1)).expect("room");
        }
        assert_eq!(plan.charges().len(), 1);
    }

    #[test]
    fn a_plan_is_bounded() {
        let minute = counter("login", 0, "5 per minute");
        let keys: Vec<String> = (0..=PLAN_CHARGES_MAX).map(|number| format!("key {number}")).collect();
        let charge = |key: usize| Charge::new(keys[key].as_bytes(), &minute, 1);
        let mut plan = Plan::new();
        for key in 0..PLAN_CHARGES_MAX {
            plan.add(charge(key)).expect("room");
        }
        assert_eq!(plan.add(charge(PLAN_CHARGES_MAX)), Err(PlanFull));
        assert_eq!(plan.charges().len(), PLAN_CHARGES_MAX);
        assert_eq!(plan.add(charge(0)), Ok(0), "a charge that is already in the plan takes no room");
        assert_eq!(plan.charges()[0].cost, 2);
        assert_eq!(
            PlanFull.to_string(),
            "the request falls under too many limits; let fewer rules match it",
            "the bound is part of the message"
        );
    }
}

mod identity {
    use super::*;

    /// Stored state is found by these numbers. If this test fails, every limit starts empty after an upgrade.
    ///
    /// They are SipHash-1-3 with key zero, little endian, of the rule, the name or position (as a 64-bit number), and
    /// the state format (`gcra per 60000000000ns`), each after its length as a 64-bit number.
    #[test]
    fn is_the_same_in_every_version() {
        assert_eq!(counter("login", 0, "5 per minute").id().get(), 8_959_308_482_727_961_986);
        assert_eq!(
            counter("api", 1, "{algorithm: sub_windows, limit: 10, per: 1h, name: hourly}").id().get(),
            15_278_936_499_514_835_463
        );
        let weeks = "{algorithm: fixed_window, limit: 5, per: 7d}";
        assert_eq!(counter("quota", 0, weeks).id().get(), 9_674_298_828_855_456_879);
    }

    #[test]
    #[cfg(feature = "calendar")]
    fn of_a_calendar_is_the_same_in_every_version() {
        for (options, id) in [
            ("per: day, align: {tz: Europe/Paris}", 16_609_079_292_957_906_252),
            ("per: week, align: {tz: UTC}", 6_909_483_428_035_803_216),
            ("per: month, align: {tz: Europe/Paris, day_of_month: 15}", 11_817_734_125_696_945_318),
        ] {
            let limit = format!("{{algorithm: fixed_window, limit: 5, {options}}}");
            assert_eq!(counter("quota", 0, &limit).id().get(), id, "{options}");
        }
    }

    /// The same numbers for limits whose identity is not their current name and position.
    #[test]
    fn is_the_former_id_of_the_limit() {
        let id = |rule, id: LimitId, limit: &str| {
            Counter::with_id(rule, &id, limit.parse::<Limit>().expect(limit)).id().get()
        };
        let (position, name) = (LimitId::Position(0), LimitId::Name("hourly".into()));
        let renamed = "{limit: 7, per: 1m, name: gentle}";
        assert_eq!(id("login", position, renamed), 8_959_308_482_727_961_986);
        let nameless = "{algorithm: sub_windows, limit: 10, per: 1h}";
        assert_eq!(id("api", name, nameless), 15_278_936_499_514_835_463);
    }

    /// Changing these options keeps every count.
    #[test]
    fn does_not_depend_on_limit_and_burst() {
        assert_eq!(id("5 per minute"), id("500 per minute burst 7"));
        for (one, other) in [
            (
                "{algorithm: leaky_bucket, limit: 5, per: 1m}",
                "{algorithm: leaky_bucket, limit: 6, per: 1m, queue: 9}",
            ),
            (
                "{algorithm: fixed_window, limit: 5, per: 1m}",
                "{algorithm: fixed_window, limit: 6, per: 1m, count_denied: true, align: epoch}",
            ),
            #[cfg(feature = "calendar")]
            (
                "{algorithm: fixed_window, limit: 5, per: month, align: {tz: Europe/Paris}}",
                "{algorithm: fixed_window, limit: 6, per: 30d, align: {tz: europe/paris, day_of_month: 1}}",
            ),
            (
                "{algorithm: sliding_log, limit: 5, per: 1m}",
                "{algorithm: sliding_log, limit: 6, per: 1m, min_interval: 1s}",
            ),
            (
                "{algorithm: sliding_window, limit: 5, per: 1m}",
                "{algorithm: sliding_window, limit: 6, per: 60s}",
            ),
            (
                "{algorithm: sub_windows, limit: 5, per: 1m}",
                "{algorithm: sub_windows, limit: 6, per: 1m, sub_windows: 60}",
            ),
        ] {
            assert_eq!(id(one), id(other), "{one} and {other}");
        }
    }

    /// A state is never read in the wrong format.
    #[test]
    fn depends_on_what_the_state_means() {
        let limits = [
            "{algorithm: gcra, limit: 5, per: 1m}",
            "{algorithm: gcra, limit: 5, per: 61s}",
            "{algorithm: token_bucket, limit: 5, per: 1m}",
            "{algorithm: leaky_bucket, limit: 5, per: 1m}",
            "{algorithm: fixed_window, limit: 5, per: 1m}",
            "{algorithm: fixed_window, limit: 5, per: 1m, align: first_hit}",
            "{algorithm: fixed_window, limit: 5, per: 61s, align: first_hit}",
            "{algorithm: fixed_window, limit: 5, per: 1d}",
            "{algorithm: fixed_window, limit: 5, per: 1d, align: first_hit}",
            #[cfg(feature = "calendar")]
            "{algorithm: fixed_window, limit: 5, per: day, align: {tz: UTC}}",
            #[cfg(feature = "calendar")]
            "{algorithm: fixed_window, limit: 5, per: day, align: {tz: Europe/Paris}}",
            #[cfg(feature = "calendar")]
            "{algorithm: fixed_window, limit: 5, per: week, align: {tz: Europe/Paris}}",
            #[cfg(feature = "calendar")]
            "{algorithm: fixed_window, limit: 5, per: week, align: {tz: Europe/Paris, week_starts: sunday}}",
            #[cfg(feature = "calendar")]
            "{algorithm: fixed_window, limit: 5, per: month, align: {tz: Europe/Paris}}",
            #[cfg(feature = "calendar")]
            "{algorithm: fixed_window, limit: 5, per: month, align: {tz: Europe/Paris, day_of_month: 15}}",
            "{algorithm: sliding_log, limit: 5, per: 1m}",
            "{algorithm: sliding_window, limit: 5, per: 1m}",
            "{algorithm: sub_windows, limit: 5, per: 1m}",
            "{algorithm: sub_windows, limit: 5, per: 1m, sub_windows: 6}",
        ];
        for (index, one) in limits.iter().enumerate() {
            for other in &limits[..index] {
                assert_ne!(id(one), id(other), "{one} and {other}");
            }
        }
    }

    #[test]
    fn is_the_rule_and_the_position_unless_there_is_a_name() {
        let plain = "5 per minute";
        assert_ne!(counter("login", 0, plain).id(), counter("login", 1, plain).id());
        assert_ne!(counter("login", 0, plain).id(), counter("logout", 0, plain).id());

        let named = "{limit: 5, per: 1m, name: gentle}";
        let renamed = "{limit: 5, per: 1m, name: harsh}";
        assert_eq!(counter("login", 0, named).id(), counter("login", 1, named).id());
        assert_ne!(counter("login", 0, named).id(), counter("login", 0, renamed).id());
        assert_ne!(counter("login", 0, named).id(), counter("login", 0, plain).id());
        assert_ne!(counter("login", 0, named).id(), counter("logout", 0, named).id());
    }

    /// The boundary between two fields is part of the hash.
    #[test]
    fn fields_do_not_run_into_each_other() {
        let (a, ab) = ("{limit: 5, per: 1m, name: a}", "{limit: 5, per: 1m, name: ba}");
        assert_ne!(counter("rub", 0, a).id(), counter("ru", 0, ab).id());
    }
}

mod decision {
    use super::*;

    const ALLOWED: Outcome = Outcome {
        kind: OutcomeKind::Allowed,
        remaining: 10,
        retry_after: Wait::NONE,
        reset_after: Nanos::new(100),
        delay: Nanos::ZERO,
        over: 0,
    };
    const DENIED: Outcome =
        Outcome { kind: OutcomeKind::Denied, remaining: 3, retry_after: wait(7), ..ALLOWED };

    const fn wait(nanos: u128) -> Wait {
        Wait::of(Nanos::new(nanos))
    }

    #[test]
    fn an_empty_plan_allows_everything() {
        let decision = Decision::merge(&[]);
        assert!(decision.is_allowed());
        assert_eq!((decision.remaining, decision.retry_after), (u64::MAX, Wait::NONE));
        assert_eq!((decision.reset_after, decision.delay), (Nanos::ZERO, Nanos::ZERO));
    }

    #[test]
    fn a_single_outcome_is_the_decision() {
        for outcome in [ALLOWED, DENIED] {
            assert_eq!(Decision::merge(&[outcome]), Decision::of_one(outcome));
        }
    }

    #[test]
    fn merges_to_the_least_remaining_and_the_longest_wait() {
        let merged = Decision::merge(&[
            Outcome { remaining: 5, reset_after: Nanos::new(1), delay: Nanos::new(9), ..ALLOWED },
            Outcome { remaining: 2, reset_after: Nanos::new(8), delay: Nanos::new(3), ..ALLOWED },
            Outcome { remaining: 4, ..ALLOWED },
        ]);
        assert!(merged.is_allowed());
        assert_eq!((merged.remaining, merged.decided_by), (2, 1));
        assert_eq!((merged.reset_after, merged.delay), (Nanos::new(100), Nanos::new(9)));
        assert_eq!(merged.retry_after, Wait::NONE);
    }

    #[test]
    fn one_denial_is_enough() {
        let merged = Decision::merge(&[ALLOWED, DENIED, ALLOWED]);
        assert_eq!(merged.kind, OutcomeKind::Denied);
        assert_eq!((merged.decided_by, merged.remaining, merged.retry_after), (1, 3, wait(7)));
    }

    #[test]
    fn the_longest_wait_decides_a_denial() {
        let short = Outcome { remaining: 0, ..DENIED };
        let long = Outcome { remaining: 9, retry_after: wait(u128::MAX - 1), ..DENIED };
        let merged = Decision::merge(&[ALLOWED, short, long]);
        assert_eq!((merged.decided_by, merged.remaining), (2, 0));
        assert_eq!(merged.retry_after, long.retry_after);
    }

    #[test]
    fn never_outranks_any_time() {
        let never = Outcome { retry_after: Wait::NEVER, ..DENIED };
        let long = Outcome { retry_after: wait(u128::MAX - 1), ..DENIED };
        for (outcomes, decided_by) in [([never, long], 0), ([long, never], 1)] {
            let merged = Decision::merge(&outcomes);
            assert_eq!((merged.retry_after, merged.decided_by), (Wait::NEVER, decided_by));
            assert_eq!(merged.retry_after.span(), None);
        }
    }

    /// If two limits are equal, the first decides.
    #[test]
    fn the_first_of_equal_outcomes_decides() {
        assert_eq!(Decision::merge(&[ALLOWED, ALLOWED]).decided_by, 0);
        assert_eq!(Decision::merge(&[ALLOWED, DENIED, DENIED]).decided_by, 1);
    }

    #[test]
    fn waits_are_ordered_and_written_out() {
        assert!(Wait::NONE < wait(1) && wait(1) < wait(u128::MAX - 1) && wait(u128::MAX - 1) < Wait::NEVER);
        assert_eq!(Wait::NEVER.to_string(), "never");
        assert_eq!(wait(1_500_000_000).to_string(), "1.5s");
    }
}
