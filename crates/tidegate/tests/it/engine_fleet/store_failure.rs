//! Without the shared store: the `on_store_failure` of each rule decides.

use tidegate::rules::{Answer, AnswerKind};
use tidegate::store::{Charge, Counter, Op};
use tidegate::{EngineError, Nanos, StoreError, Wait};
use tidegate_testing::fake_store::StoreBehavior;

use crate::engine::fixture::{AnswerSummary, EngineFixture, with_request};
use crate::engine::shared_engine::{self, expect_ready, poll_once};
use crate::engine_fleet::fleet::Fleet;

/// The answer, and whether it is marked as degraded.
fn kind_and_degraded(fixture: &EngineFixture, attributes: &str) -> (AnswerKind, bool) {
    with_request(attributes, 1, |request| {
        shared_engine::check(&fixture.engine, request, |answer| (answer.kind, answer.degraded)).unwrap()
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
fn each_node_enforces_its_share() {
    let fleet = Fleet::new(4, POLICIES);
    assert_eq!(kind_and_degraded(fleet.first(), "is=local user=1"), (AnswerKind::Allowed, false));
    fleet.stop_store();
    for node in &fleet.nodes {
        // The memory of the node does not know what was used before.
        assert_eq!(node.count_passing("is=local user=1", 9), 3);
        assert_eq!(kind_and_degraded(node, "is=local user=1"), (AnswerKind::Denied, true));
    }
    fleet.resume_store();
    assert_eq!(kind_and_degraded(fleet.first(), "is=local user=1"), (AnswerKind::Allowed, false));
    assert_eq!(fleet.nodes[1].count_passing("is=local user=1", 20), 10, "two were used before");
}

#[test]
fn a_share_follows_the_number_of_nodes_and_is_at_least_one() {
    let fleet = Fleet::new(1, POLICIES);
    fleet.stop_store();
    for (nodes, share) in [(12, 1), (5, 2), (100, 1), (1, 12)] {
        let user = format!("is=local user={nodes}");
        fleet.store.set_nodes(nodes);
        assert_eq!(fleet.first().count_passing(&user, 20), share, "{nodes} nodes");
    }
}

/// The cost will fit when the store is back, so the answer is not "never".
#[test]
fn a_cost_above_the_share_gets_a_retry_after() {
    let fleet = Fleet::new(4, POLICIES);
    fleet.stop_store();
    let answer = fleet.first().check_cost("is=local user=1", 4);
    assert_eq!((answer.kind, answer.retry_after_ms), (AnswerKind::Denied, Some(1000)));
    let answer = fleet.first().check_cost("is=local user=1", 13);
    assert_eq!((answer.kind, answer.retry_after_ms), (AnswerKind::Denied, None), "more than there ever is");
    fleet.resume_store();
    assert_eq!(fleet.first().check_cost("is=local user=1", 4).kind, AnswerKind::Allowed);
}

#[test]
fn policy_allow_skips_the_limit() {
    let fleet = Fleet::new(2, POLICIES);
    fleet.stop_store();
    assert_eq!(fleet.first().count_passing("is=open user=1", 9), 9);
    let answer = fleet.first().check("is=open user=1");
    assert_eq!((answer.kind, answer.remaining, answer.limits[0].2), (AnswerKind::Allowed, 3, 3));
    assert_eq!(kind_and_degraded(fleet.first(), "is=open user=1"), (AnswerKind::Allowed, true));
    fleet.resume_store();
    assert_eq!(fleet.first().count_passing("is=open user=1", 9), 3, "nothing was counted meanwhile");
}

#[test]
fn policy_deny_denies_requests() {
    let fleet = Fleet::new(2, POLICIES);
    fleet.stop_store();
    let answer = fleet.first().check("is=closed user=1");
    assert_eq!(
        (answer.kind, answer.retry_after_ms, answer.remaining),
        (AnswerKind::Unavailable, Some(1000), 0)
    );
    assert_eq!((answer.rule.as_deref(), answer.kind.as_str()), (Some("closed"), "unavailable"));
    assert_eq!(kind_and_degraded(fleet.first(), "is=closed user=1"), (AnswerKind::Unavailable, true));
    fleet.resume_store();
    assert_eq!(fleet.first().count_passing("is=closed user=1", 9), 3);
}

/// A request that one rule denies is denied, whatever other rules decide, and is charged nowhere.
#[test]
fn a_request_denied_by_policy_is_charged_nothing() {
    let fleet = Fleet::new(
        1,
        "
domain: api
rules:
  - { name: slow, key: [user], limit: { limit: 2 per day, algorithm: fixed_window } }
  - { name: closed, match: { path: /pay }, limit: 5 per hour, on_store_failure: deny }
  - { name: open, limit: { limit: 1 per hour, algorithm: fixed_window }, on_store_failure: allow }
",
    );
    let node = fleet.first();
    fleet.stop_store();
    for _ in 0..5 {
        let answer = node.check("user=1 path=/pay");
        assert_eq!((answer.kind, answer.rule.as_deref()), (AnswerKind::Unavailable, Some("closed")));
        assert_eq!(
            answer.limits[0],
            ("slow".to_owned(), AnswerKind::Allowed, 1),
            "as the next would find it"
        );
    }
    assert_eq!(node.count_passing("user=1", 5), 2);
    // The longest wait belongs to another limit, which decides nothing.
    let answer = node.check("user=1 path=/pay");
    assert_eq!((answer.kind, answer.rule.as_deref()), (AnswerKind::Unavailable, Some("closed")));
    assert_eq!(answer.limits[0].1, AnswerKind::Denied);
}

/// Limits that never deny do not start to.
#[test]
fn shadow_and_quota_limits_deny_nothing_without_the_store() {
    let fleet = Fleet::new(
        2,
        "
domain: api
rules:
  - { name: shadow, limit: { limit: 4 per hour, algorithm: fixed_window }, action: shadow, on_store_failure: deny }
  - { name: quota, limit: { limit: 6 per hour, algorithm: fixed_window }, action: quota, on_store_failure: deny }
",
    );
    fleet.stop_store();
    let kinds = fleet.first().kinds("user=1", 4);
    assert_eq!(
        kinds,
        [AnswerKind::Allowed, AnswerKind::Allowed, AnswerKind::ShadowDenied, AnswerKind::OverQuota]
    );
}

/// A request with a missing key part is denied for that, whether the store answers or not.
#[test]
fn a_request_without_a_key_is_denied_and_not_unavailable() {
    let fleet = Fleet::new(
        1,
        "
domain: api
rules:
  - { name: user, key: [user], missing: deny, limit: 5 per hour, on_store_failure: deny }
  - { name: all, limit: { limit: 5 per hour, algorithm: fixed_window } }
",
    );
    assert_eq!(kind_and_degraded(fleet.first(), "ip=1"), (AnswerKind::Denied, false));
    fleet.stop_store();
    let answer = fleet.first().check("ip=1");
    assert_eq!((answer.kind, answer.retry_after_ms), (AnswerKind::Denied, None));
    assert_eq!(answer.limits[1].2, 5, "nothing is charged");
    assert_eq!(fleet.first().check("user=1").kind, AnswerKind::Unavailable);
}

/// A request without limits does not ask the store.
#[test]
fn an_unlimited_request_is_not_degraded() {
    let fleet = Fleet::new(1, POLICIES);
    fleet.stop_store();
    assert_eq!(kind_and_degraded(fleet.first(), "is=other"), (AnswerKind::Allowed, false));
    assert_eq!(fleet.store.calls(), 0);
    with_request("is=other", 1, |request| {
        expect_ready(fleet.first().engine.refund(request, None)).unwrap();
        expect_ready(fleet.first().engine.reset(request)).unwrap();
        let _ = expect_ready(fleet.first().engine.peek(request)).unwrap();
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
fn pools_are_divided_among_nodes() {
    let fleet = Fleet::new(2, ELASTIC);
    fleet.stop_store();
    // Two are granted, then half of the pool.
    assert_eq!(fleet.first().count_passing("is=local user=1", 9), 6);
    assert_eq!(fleet.first().check("is=open user=2").kind, AnswerKind::Allowed);
    fleet.resume_store();
    assert_eq!(fleet.first().count_passing("is=local user=1", 20), 12);
}

/// A soft limit with its margin, and a candidate.
#[test]
fn all_parts_of_a_limit_are_divided_among_nodes() {
    let fleet = Fleet::new(
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
    fleet.stop_store();
    let answers: Vec<AnswerSummary> = (0..4).map(|_| fleet.first().check("user=1")).collect();
    let kinds: Vec<AnswerKind> = answers.iter().map(|answer| answer.kind).collect();
    assert_eq!(kinds, [AnswerKind::Allowed, AnswerKind::Allowed, AnswerKind::Soft, AnswerKind::Denied]);
    let candidates: Vec<AnswerKind> = answers.iter().map(|answer| answer.candidates[0].1).collect();
    assert_eq!(candidates, [AnswerKind::Allowed, AnswerKind::Denied, AnswerKind::Denied, AnswerKind::Denied]);
}

#[test]
fn a_candidate_is_skipped_with_its_rule() {
    let file = "{ domain: api, rules: [ { name: a, limit: 9 per hour, on_store_failure: allow, candidate: 1 per hour } ] }";
    let fleet = Fleet::new(1, file);
    fleet.stop_store();
    let answers: Vec<AnswerSummary> = (0..3).map(|_| fleet.first().check("user=1")).collect();
    assert!(answers.iter().all(|answer| answer.candidates[0].1 == AnswerKind::Allowed));
}

/// The call may have been charged, and the store is not asked twice: less is admitted than the limit, never more.
#[test]
fn a_charge_with_a_lost_reply_stays_charged() {
    let fleet = Fleet::new(1, POLICIES);
    fleet.store.set_behavior(StoreBehavior::LoseReply);
    assert_eq!(fleet.first().count_passing("is=local user=1", 5), 5);
    assert_eq!(fleet.store.calls(), 5);
    fleet.resume_store();
    assert_eq!(fleet.first().count_passing("is=local user=1", 20), 7);
}

/// Once the store did not answer, a request continues without it: pools and candidates are not asked.
#[test]
fn a_failed_store_is_asked_once_per_request() {
    let file = ELASTIC
        .replace("limit: { limit: 4 per hour", "candidate: 1 per hour\n    limit: { limit: 0 per hour");
    let fleet = Fleet::new(1, &file);
    fleet.stop_store();
    fleet.first().check("is=local user=1");
    assert_eq!(fleet.store.calls(), 1);
}

#[test]
fn other_operations_are_errors() {
    let fleet = Fleet::new(1, POLICIES);
    let engine = &fleet.first().engine;
    let failures = [
        StoreError::TimedOut,
        StoreError::BreakerOpen,
        StoreError::Overloaded,
        StoreError::Refused("OOM".into()),
        StoreError::Unreadable("tg:1{a}".into()),
        StoreError::RuntimeGone,
    ];
    for failure in failures {
        fleet.store.set_behavior(StoreBehavior::Fail(failure.clone()));
        let expected = EngineError::Store(failure.clone());
        with_request("is=local user=1", 1, |request| {
            assert_eq!(expect_ready(engine.peek(request)).map(drop), Err(expected.clone()));
            assert_eq!(expect_ready(engine.explain(request)).map(drop), Err(expected.clone()));
            assert_eq!(expect_ready(engine.refund(request, None)), Err(expected.clone()));
            assert_eq!(expect_ready(engine.reset(request)), Err(expected.clone()));
        });
        assert_eq!(expected.to_string(), failure.to_string());
    }
}

#[test]
fn too_many_limits_are_an_error_with_and_without_the_store() {
    let rule = |number: usize| format!("  - {{ name: r{number}, limit: 5 per minute }}\n");
    let rules: String = (0..=tidegate_core::PLAN_CHARGES_MAX).map(rule).collect();
    let fleet = Fleet::new(1, &format!("domain: api\nrules:\n{rules}"));
    for is_stopped in [false, true] {
        if is_stopped {
            fleet.stop_store();
        }
        let engine = &fleet.first().engine;
        with_request("user=1", 1, |request| {
            assert!(poll_once(engine.decide(request)).unwrap().is_err());
            assert_eq!(expect_ready(engine.peek(request)).map(drop), Err(EngineError::PlanFull));
            assert_eq!(expect_ready(engine.refund(request, None)), Err(EngineError::PlanFull));
            assert_eq!(expect_ready(engine.reset(request)), Err(EngineError::PlanFull));
        });
    }
    assert_eq!(fleet.store.calls(), 0);
}

/// A reset also removes what the process was charged while the store did not answer.
#[test]
fn a_reset_clears_both_stores() {
    let fleet = Fleet::new(1, POLICIES);
    let request = "is=local user=1";
    fleet.stop_store();
    assert_eq!(fleet.first().count_passing(request, 20), 12);
    fleet.resume_store();
    assert_eq!(fleet.first().count_passing(request, 20), 12);
    with_request(request, 1, |request| fleet.first().setup.reset(&fleet.first().engine, request));
    assert_eq!(fleet.first().count_passing(request, 20), 12);
    fleet.stop_store();
    assert_eq!(fleet.first().count_passing(request, 20), 12);
}

#[test]
fn a_limit_without_rules_is_divided_among_nodes() {
    let fleet = Fleet::new(3, POLICIES);
    let counter = Counter::new("mine", 0, "{algorithm: fixed_window, limit: 6, per: 1h}".parse().unwrap());
    let charge = Charge::new(b"key", &counter, 1);
    let check = |op| expect_ready(fleet.first().engine.check_charge(&charge, op));
    for _ in 0..2 {
        let peeked = check(Op::Peek);
        assert_eq!((peeked.decision.remaining, peeked.degraded), (5, false));
    }
    let passing = |times| (0..times).filter(|_| check(Op::Check).decision.is_allowed()).count();
    assert_eq!(passing(9), 6);
    fleet.stop_store();
    assert!(check(Op::Peek).degraded);
    assert_eq!(passing(9), 2);
    let denied = check(Op::Check);
    assert_eq!((denied.decision.is_allowed(), denied.degraded), (false, true));
}

/// The same as for a request with rules.
#[test]
fn a_cost_above_the_share_of_a_limit_without_rules_gets_a_retry_after() {
    let fleet = Fleet::new(4, POLICIES);
    let counter = Counter::new("mine", 0, "{limit: 10, per: 60s, burst: 10}".parse().unwrap());
    let check = |cost| {
        let charge = Charge::new(b"key", &counter, cost);
        expect_ready(fleet.first().engine.check_charge(&charge, Op::Check)).decision
    };
    fleet.stop_store();
    let after = |seconds: u128| Wait::of(Nanos::new(seconds * 1_000_000_000));
    assert_eq!((check(5).is_allowed(), check(5).retry_after), (false, after(1)));
    assert_eq!(check(11).retry_after, Wait::NEVER, "more than there ever is");
}

/// Only the candidate's own outcome is reported. A request that the store answered is not degraded.
#[test]
fn a_failed_candidate_does_not_degrade_the_answer() {
    let fleet =
        Fleet::new(1, "{ domain: api, rules: [ { name: a, limit: 9 per hour, candidate: 1 per hour } ] }");
    let node = fleet.first();
    fleet.store.set_behavior(StoreBehavior::ReplyLater);
    with_request("user=1", 1, |request| {
        let summary = |answer: &Answer| (answer.kind, answer.degraded, answer.candidates().len());
        let mut decided = std::pin::pin!(node.engine.decide(request));
        assert!(poll_once(decided.as_mut()).is_none());
        // The store answers the first call, and not the next.
        *fleet.store.behavior() = StoreBehavior::Fail(StoreError::TimedOut);
        fleet.store.release_replies();
        assert_eq!(
            summary(&poll_once(decided.as_mut()).unwrap().unwrap().answer),
            (AnswerKind::Allowed, false, 1)
        );
        fleet.store.set_behavior(StoreBehavior::ReplyLater);
        let mut peeked = std::pin::pin!(node.engine.peek(request));
        assert!(poll_once(peeked.as_mut()).is_none());
        *fleet.store.behavior() = StoreBehavior::Fail(StoreError::TimedOut);
        fleet.store.release_replies();
        assert_eq!(
            summary(&poll_once(peeked.as_mut()).unwrap().unwrap().answer),
            (AnswerKind::Allowed, false, 1)
        );
    });
    assert_eq!(fleet.store.calls(), 4);
}

/// The store is asked again with every request, and counts again as soon as it answers.
#[test]
fn each_request_asks_the_store_again() {
    let fleet = Fleet::new(1, POLICIES);
    for _ in 0..3 {
        fleet.stop_store();
        assert!(kind_and_degraded(fleet.first(), "is=local user=1").1);
        fleet.resume_store();
        assert!(!kind_and_degraded(fleet.first(), "is=local user=1").1);
    }
    assert_eq!(fleet.store.calls(), 6);
}

/// A degraded answer stays marked when it is merged.
#[test]
fn a_denied_answer_stays_degraded() {
    let fleet = Fleet::new(1, POLICIES);
    fleet.stop_store();
    with_request("is=local user=1", 1, |request| {
        let denied = |answer: &Answer| {
            let mut answer = answer.clone();
            answer.deny(0, tidegate::Wait::NEVER);
            (answer.degraded, answer.kind)
        };
        let answer = shared_engine::check(&fleet.first().engine, request, denied).unwrap();
        assert_eq!(answer, (true, AnswerKind::Denied));
    });
}
