//! Without the shared store: what each rule says becomes of its limits.

use tidegate::rules::{Answer, Fate};
use tidegate::store::{Charge, Counter, Op};
use tidegate::{EngineError, Nanos, StoreFailure, Wait};
use tidegate_testing::remote::Mood;

use crate::engine::bench::{Bench, Told, with_request};
use crate::engine::setup::shared::{self, at_once, done};
use crate::engine_fleet::fleet::Fleet;

/// What is told, and whether it was marked.
fn marked(bench: &Bench, attributes: &str) -> (Fate, bool) {
    with_request(attributes, 1, |request| {
        shared::check(&bench.engine, request, |answer| (answer.fate, answer.degraded)).unwrap()
    })
}

const POLICIES: &str = "
domain: api
rules:
  - { name: local, match: { is: local }, key: [user], limit: { limit: 12 per hour, algorithm: fixed_window } }
  - { name: open, match: { is: open }, key: [user], limit: { limit: 3 per hour, algorithm: fixed_window }, on_store_failure: allow }
  - { name: closed, match: { is: closed }, key: [user], limit: { limit: 3 per hour, algorithm: fixed_window }, on_store_failure: deny }
";

#[test]
fn each_server_enforces_its_share() {
    let fleet = Fleet::of(4, POLICIES);
    assert_eq!(marked(fleet.first(), "is=local user=1"), (Fate::Allowed, false));
    fleet.cut_off();
    for server in &fleet.servers {
        // Its own memory knows nothing of what was used before.
        assert_eq!(server.passing("is=local user=1", 9), 3);
        assert_eq!(marked(server, "is=local user=1"), (Fate::Denied, true));
    }
    fleet.mend();
    assert_eq!(marked(fleet.first(), "is=local user=1"), (Fate::Allowed, false));
    assert_eq!(fleet.servers[1].passing("is=local user=1", 20), 10, "two were used before");
}

#[test]
fn a_share_follows_the_number_of_servers_and_is_never_nothing() {
    let fleet = Fleet::of(1, POLICIES);
    fleet.cut_off();
    for (nodes, share) in [(12, 1), (5, 2), (100, 1), (1, 12)] {
        let user = format!("is=local user={nodes}");
        fleet.remote.has_nodes(nodes);
        assert_eq!(fleet.first().passing(&user, 20), share, "{nodes} servers");
    }
}

/// It will fit when the store is back, so it is not told that it never does.
#[test]
fn who_asks_for_more_than_a_share_is_told_to_try_again() {
    let fleet = Fleet::of(4, POLICIES);
    fleet.cut_off();
    let told = fleet.first().ask_for("is=local user=1", 4);
    assert_eq!((told.fate, told.retry_after_ms), (Fate::Denied, Some(1000)));
    let told = fleet.first().ask_for("is=local user=1", 13);
    assert_eq!((told.fate, told.retry_after_ms), (Fate::Denied, None), "more than there ever is");
    fleet.mend();
    assert_eq!(fleet.first().ask_for("is=local user=1", 4).fate, Fate::Allowed);
}

#[test]
fn limits_are_left_out_where_the_rule_says_so() {
    let fleet = Fleet::of(2, POLICIES);
    fleet.cut_off();
    assert_eq!(fleet.first().passing("is=open user=1", 9), 9);
    let told = fleet.first().ask("is=open user=1");
    assert_eq!((told.fate, told.remaining, told.limits[0].2), (Fate::Allowed, 3, 3));
    assert_eq!(marked(fleet.first(), "is=open user=1"), (Fate::Allowed, true));
    fleet.mend();
    assert_eq!(fleet.first().passing("is=open user=1", 9), 3, "nothing was counted meanwhile");
}

#[test]
fn requests_are_turned_away_where_the_rule_says_so() {
    let fleet = Fleet::of(2, POLICIES);
    fleet.cut_off();
    let told = fleet.first().ask("is=closed user=1");
    assert_eq!((told.fate, told.retry_after_ms, told.remaining), (Fate::Unavailable, Some(1000), 0));
    assert_eq!((told.rule.as_deref(), told.fate.as_str()), (Some("closed"), "unavailable"));
    assert_eq!(marked(fleet.first(), "is=closed user=1"), (Fate::Unavailable, true));
    fleet.mend();
    assert_eq!(fleet.first().passing("is=closed user=1", 9), 3);
}

/// One that is turned away is so whatever others say, and is charged nowhere.
#[test]
fn who_is_turned_away_is_charged_nothing() {
    let fleet = Fleet::of(
        1,
        "
domain: api
rules:
  - { name: slow, key: [user], limit: { limit: 2 per day, algorithm: fixed_window } }
  - { name: closed, match: { path: /pay }, limit: 5 per hour, on_store_failure: deny }
  - { name: open, limit: { limit: 1 per hour, algorithm: fixed_window }, on_store_failure: allow }
",
    );
    let server = fleet.first();
    fleet.cut_off();
    for _ in 0..5 {
        let told = server.ask("user=1 path=/pay");
        assert_eq!((told.fate, told.rule.as_deref()), (Fate::Unavailable, Some("closed")));
        assert_eq!(told.limits[0], ("slow".to_owned(), Fate::Allowed, 1), "as the next would find it");
    }
    assert_eq!(server.passing("user=1", 5), 2);
    // The longest wait is another limit's, which decides nothing.
    let told = server.ask("user=1 path=/pay");
    assert_eq!((told.fate, told.rule.as_deref()), (Fate::Unavailable, Some("closed")));
    assert_eq!(told.limits[0].1, Fate::Denied);
}

/// Those that deny nobody do not begin to.
#[test]
fn a_dry_run_turns_nobody_away() {
    let fleet = Fleet::of(
        2,
        "
domain: api
rules:
  - { name: dry, limit: { limit: 4 per hour, algorithm: fixed_window }, action: shadow, on_store_failure: deny }
  - { name: quota, limit: { limit: 6 per hour, algorithm: fixed_window }, action: quota, on_store_failure: deny }
",
    );
    fleet.cut_off();
    let fates = fleet.first().fates("user=1", 4);
    assert_eq!(fates, [Fate::Allowed, Fate::Allowed, Fate::ShadowDenied, Fate::OverQuota]);
}

/// A request that lacks a part of its key is denied for that, whether anybody answers or not.
#[test]
fn who_lacks_a_key_is_denied_and_not_turned_away() {
    let fleet = Fleet::of(
        1,
        "
domain: api
rules:
  - { name: user, key: [user], missing: deny, limit: 5 per hour, on_store_failure: deny }
  - { name: all, limit: { limit: 5 per hour, algorithm: fixed_window } }
",
    );
    assert_eq!(marked(fleet.first(), "ip=1"), (Fate::Denied, false));
    fleet.cut_off();
    let told = fleet.first().ask("ip=1");
    assert_eq!((told.fate, told.retry_after_ms), (Fate::Denied, None));
    assert_eq!(told.limits[1].2, 5, "nothing is charged");
    assert_eq!(fleet.first().ask("user=1").fate, Fate::Unavailable);
}

/// What touches nothing asks nobody.
#[test]
fn what_is_not_limited_is_not_degraded() {
    let fleet = Fleet::of(1, POLICIES);
    fleet.cut_off();
    assert_eq!(marked(fleet.first(), "is=other"), (Fate::Allowed, false));
    assert_eq!(fleet.remote.questions(), 0);
    with_request("is=other", 1, |request| {
        done(fleet.first().engine.refund(request, None)).unwrap();
        done(fleet.first().engine.reset(request)).unwrap();
        let _ = done(fleet.first().engine.peek(request)).unwrap();
    });
}

const ELASTIC: &str = "
domain: api
pools: { spare: { limit: 8 per hour, algorithm: fixed_window } }
rules:
  - name: local
    match: { is: local }
    key: [user]
    limit: { limit: 4 per hour, algorithm: fixed_window }
    action: { elastic: { max: 20, pool: spare } }
  - name: open
    match: { is: open }
    key: [user]
    limit: { limit: 4 per hour, algorithm: fixed_window }
    action: { elastic: { max: 20, pool: spare } }
    on_store_failure: allow
";

#[test]
fn pools_are_shared_out_too() {
    let fleet = Fleet::of(2, ELASTIC);
    fleet.cut_off();
    // Two are granted, then half of the pool.
    assert_eq!(fleet.first().passing("is=local user=1", 9), 6);
    assert_eq!(fleet.first().ask("is=open user=2").fate, Fate::Allowed);
    fleet.mend();
    assert_eq!(fleet.first().passing("is=local user=1", 20), 12);
}

/// A soft limit and its margin, and a limit that is tried out.
#[test]
fn all_parts_of_a_limit_are_shared_out() {
    let fleet = Fleet::of(
        2,
        "
domain: api
rules:
  - name: soft
    limit: { limit: 4 per hour, algorithm: fixed_window }
    action: { soft: { margin: 50% } }
    candidate: { limit: 2 per hour, algorithm: fixed_window }
",
    );
    fleet.cut_off();
    let told: Vec<Told> = (0..4).map(|_| fleet.first().ask("user=1")).collect();
    let fates: Vec<Fate> = told.iter().map(|told| told.fate).collect();
    assert_eq!(fates, [Fate::Allowed, Fate::Allowed, Fate::Soft, Fate::Denied]);
    let tried: Vec<Fate> = told.iter().map(|told| told.candidates[0].1).collect();
    assert_eq!(tried, [Fate::Allowed, Fate::Denied, Fate::Denied, Fate::Denied]);
}

#[test]
fn a_candidate_is_left_out_with_its_rule() {
    let file = "{ domain: api, rules: [ { name: a, limit: 9 per hour, on_store_failure: allow, candidate: 1 per hour } ] }";
    let fleet = Fleet::of(1, file);
    fleet.cut_off();
    let told: Vec<Told> = (0..3).map(|_| fleet.first().ask("user=1")).collect();
    assert!(told.iter().all(|told| told.candidates[0].1 == Fate::Allowed));
}

/// What it was asked for may have been charged, and it is not asked twice: less is admitted than the limit, never more.
#[test]
fn what_was_charged_and_not_told_stays_charged() {
    let fleet = Fleet::of(1, POLICIES);
    fleet.remote.is(Mood::Loses);
    assert_eq!(fleet.first().passing("is=local user=1", 5), 5);
    assert_eq!(fleet.remote.questions(), 5);
    fleet.mend();
    assert_eq!(fleet.first().passing("is=local user=1", 20), 7);
}

/// Once it did not answer, a request goes on without it: pools and candidates are not asked for in vain.
#[test]
fn a_store_that_does_not_answer_is_asked_once_for_a_request() {
    let file = ELASTIC
        .replace("limit: { limit: 4 per hour", "candidate: 1 per hour\n    limit: { limit: 0 per hour");
    let fleet = Fleet::of(1, &file);
    fleet.cut_off();
    fleet.first().ask("is=local user=1");
    assert_eq!(fleet.remote.questions(), 1);
}

#[test]
fn other_operations_are_errors() {
    let fleet = Fleet::of(1, POLICIES);
    let engine = &fleet.first().engine;
    let failures = [
        StoreFailure::TimedOut,
        StoreFailure::Away,
        StoreFailure::Overloaded,
        StoreFailure::Refused("OOM".into()),
        StoreFailure::Unreadable("tg:1{a}".into()),
        StoreFailure::RuntimeGone,
    ];
    for failure in failures {
        fleet.remote.is(Mood::Fails(failure.clone()));
        let expected = EngineError::Store(failure.clone());
        with_request("is=local user=1", 1, |request| {
            assert_eq!(done(engine.peek(request)).map(drop), Err(expected.clone()));
            assert_eq!(done(engine.explain(request)).map(drop), Err(expected.clone()));
            assert_eq!(done(engine.refund(request, None)), Err(expected.clone()));
            assert_eq!(done(engine.reset(request)), Err(expected.clone()));
        });
        assert_eq!(expected.to_string(), failure.to_string());
    }
}

#[test]
fn too_many_limits_are_an_error_whether_it_answers_or_not() {
    let rule = |number: usize| format!("  - {{ name: r{number}, limit: 5 per minute }}\n");
    let rules: String = (0..65).map(rule).collect();
    let fleet = Fleet::of(1, &format!("domain: api\nrules:\n{rules}"));
    for cut_off in [false, true] {
        if cut_off {
            fleet.cut_off();
        }
        let engine = &fleet.first().engine;
        with_request("user=1", 1, |request| {
            assert!(at_once(engine.decide(request)).unwrap().is_err());
            assert_eq!(done(engine.peek(request)).map(drop), Err(EngineError::PlanFull));
            assert_eq!(done(engine.refund(request, None)), Err(EngineError::PlanFull));
            assert_eq!(done(engine.reset(request)), Err(EngineError::PlanFull));
        });
    }
    assert_eq!(fleet.remote.questions(), 0);
}

/// What a process was charged while it was on its own is forgotten with the rest.
#[test]
fn a_reset_is_one_of_both_stores() {
    let fleet = Fleet::of(1, POLICIES);
    let request = "is=local user=1";
    fleet.cut_off();
    assert_eq!(fleet.first().passing(request, 20), 12);
    fleet.mend();
    assert_eq!(fleet.first().passing(request, 20), 12);
    with_request(request, 1, |request| fleet.first().setup.reset(&fleet.first().engine, request));
    assert_eq!(fleet.first().passing(request, 20), 12);
    fleet.cut_off();
    assert_eq!(fleet.first().passing(request, 20), 12);
}

#[test]
fn a_limit_without_rules_is_shared_out_too() {
    let fleet = Fleet::of(3, POLICIES);
    let counter = Counter::new("mine", 0, "{algorithm: fixed_window, limit: 6, per: 1h}".parse().unwrap());
    let charge = Charge::new(b"key", &counter, 1);
    let ask = |op| done(fleet.first().engine.check_one(&charge, op));
    for _ in 0..2 {
        let looked = ask(Op::Peek);
        assert_eq!((looked.decision.remaining, looked.degraded), (5, false));
    }
    let passing = |times| (0..times).filter(|_| ask(Op::Check).decision.is_allowed()).count();
    assert_eq!(passing(9), 6);
    fleet.cut_off();
    assert!(ask(Op::Peek).degraded);
    assert_eq!(passing(9), 2);
    let denied = ask(Op::Check);
    assert_eq!((denied.decision.is_allowed(), denied.degraded), (false, true));
}

/// As a request is that rules are about.
#[test]
fn who_asks_a_limit_without_rules_for_more_than_a_share_is_told_to_try_again() {
    let fleet = Fleet::of(4, POLICIES);
    let counter = Counter::new("mine", 0, "{limit: 10, per: 60s, burst: 10}".parse().unwrap());
    let ask = |cost| {
        let charge = Charge::new(b"key", &counter, cost);
        done(fleet.first().engine.check_one(&charge, Op::Check)).decision
    };
    fleet.cut_off();
    let after = |seconds: u128| Wait::of(Nanos::new(seconds * 1_000_000_000));
    assert_eq!((ask(5).is_allowed(), ask(5).retry_after), (false, after(1)));
    assert_eq!(ask(11).retry_after, Wait::NEVER, "more than there ever is");
}

/// Its answer is reported and nothing else, so that one who was answered by the store is not told otherwise.
#[test]
fn a_candidate_that_is_not_answered_marks_nothing() {
    let fleet =
        Fleet::of(1, "{ domain: api, rules: [ { name: a, limit: 9 per hour, candidate: 1 per hour } ] }");
    let server = fleet.first();
    fleet.remote.is(Mood::Dawdles);
    with_request("user=1", 1, |request| {
        let told = |answer: &Answer| (answer.fate, answer.degraded, answer.candidates().len());
        let mut decided = std::pin::pin!(server.engine.decide(request));
        assert!(at_once(decided.as_mut()).is_none());
        // What it was asked is answered, what it is asked next is not.
        *fleet.remote.mood() = Mood::Fails(StoreFailure::TimedOut);
        fleet.remote.answer();
        assert_eq!(told(&at_once(decided.as_mut()).unwrap().unwrap().answer), (Fate::Allowed, false, 1));
        fleet.remote.is(Mood::Dawdles);
        let mut peeked = std::pin::pin!(server.engine.peek(request));
        assert!(at_once(peeked.as_mut()).is_none());
        *fleet.remote.mood() = Mood::Fails(StoreFailure::TimedOut);
        fleet.remote.answer();
        assert_eq!(told(&at_once(peeked.as_mut()).unwrap().unwrap().answer), (Fate::Allowed, false, 1));
    });
    assert_eq!(fleet.remote.questions(), 4);
}

/// The store is asked again with every request, and is the one that counts as soon as it answers.
#[test]
fn it_is_asked_again_every_time() {
    let fleet = Fleet::of(1, POLICIES);
    for _ in 0..3 {
        fleet.cut_off();
        assert!(marked(fleet.first(), "is=local user=1").1);
        fleet.mend();
        assert!(!marked(fleet.first(), "is=local user=1").1);
    }
    assert_eq!(fleet.remote.questions(), 6);
}

/// An answer is marked whatever it is merged from afterwards.
#[test]
fn the_mark_stays_when_an_answer_is_denied() {
    let fleet = Fleet::of(1, POLICIES);
    fleet.cut_off();
    with_request("is=local user=1", 1, |request| {
        let denied = |answer: &Answer| {
            let mut answer = answer.clone();
            answer.deny(0, tidegate::Wait::NEVER);
            (answer.degraded, answer.fate)
        };
        let told = shared::check(&fleet.first().engine, request, denied).unwrap();
        assert_eq!(told, (true, Fate::Denied));
    });
}
