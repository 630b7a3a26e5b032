//! What the shared store is asked, and how often.

use tidegate::rules::{AnswerKind, Ruleset};
use tidegate::store::Charge;
use tidegate::{Timer, Timestamp};
use tidegate_core::KeyForm;
use tidegate_testing::fake_store::StoreBehavior;

use crate::engine::fixture::{EngineFixture, domains, with_request};
use crate::engine::shared_engine::{expect_ready, poll_once};
use crate::engine_fleet::fleet::Fleet;

fn timed(fixture: &EngineFixture, attributes: &str) -> tidegate::engine::StageTimes {
    with_request(attributes, 1, |request| {
        poll_once(fixture.engine.decide_timed(request)).unwrap().unwrap().stages.expect("it is timed")
    })
}

#[test]
fn a_request_is_one_store_call() {
    let fleet = Fleet::new(
        1,
        "
domain: api
rules:
  - { name: a, key: [user], limits: [ 5 per minute, 100 per hour, { limit: 9 per day, action: shadow } ] }
  - { name: b, limit: 1000 per second }
",
    );
    for calls in 1..=3 {
        fleet.first().check("user=1;user=2");
        assert_eq!(fleet.store.calls(), calls);
    }
}

/// By positions in the plan: one rule of three turns the deny cache off for its limits.
#[test]
fn rules_choose_what_the_deny_cache_may_answer() {
    let file = |deny_cache: bool| {
        format!(
            "
domain: api
rules:
  - {{ name: a, limit: 5 per minute }}
  - {{ name: b, limits: [ 6 per minute, 7 per hour ], deny_cache: {deny_cache} }}
  - {{ name: c, limit: 8 per minute, candidate: 1 per minute }}
  - {{ name: d, limit: 9 per minute, candidate: 1 per minute, deny_cache: {deny_cache} }}
"
        )
    };
    let fleet = Fleet::new(1, &file(true));
    fleet.first().check("user=1");
    assert_eq!(fleet.store.cacheable(), [vec![true; 5], vec![true], vec![true]]);
    let fleet = Fleet::new(1, &file(false));
    fleet.first().check("user=1");
    let some = vec![true, false, false, true, false];
    assert_eq!(fleet.store.cacheable(), [some, vec![true], vec![false]]);
}

/// With `count_denied` beside a pool, a peek first finds out which of them is charged.
#[test]
fn an_attempt_is_counted_once() {
    let fleet = Fleet::new(
        1,
        "
domain: api
pools: { spare: { limit: 3 per hour, algorithm: fixed_window } }
rules:
  - { name: counted, limit: { limit: 4 per hour, algorithm: fixed_window, count_denied: true } }
  - { name: elastic, limit: { limit: 1 per hour, algorithm: fixed_window }, action: { elastic: { max: 9, pool: spare } } }
",
    );
    let kinds = fleet.first().kinds("user=1", 5);
    assert_eq!(
        kinds,
        [AnswerKind::Allowed, AnswerKind::Soft, AnswerKind::Soft, AnswerKind::Soft, AnswerKind::Denied]
    );
}

/// The charge that denies a request with a missing key part is in the same location as its other limits, whatever their
/// keys are.
#[test]
fn a_denial_for_a_missing_key_has_the_placement_of_its_other_limits() {
    for key in ["user", "header.x-user", "path.token"] {
        let file = format!(
            "
domain: api
rules:
  - {{ name: a, match: {{ path: '/reset/{{token}}' }}, key: [{key}], limits: [ 5 per minute, 100 per hour ] }}
  - {{ name: b, key: [tenant], missing: deny, limit: 5 per minute }}
"
        );
        let rules = Ruleset::compile(domains(&file)).unwrap();
        with_request("user=ann header.x-user=ann path=/reset/ann", 1, |request| {
            let matched = rules.matched_limits(request);
            let draft = matched.plan(&rules, Timestamp::from_nanos(1)).unwrap();
            let placed = |charge: &Charge<'_>| (charge.key.to_vec(), charge.counter.key_form());
            let placed: Vec<_> = draft.plan.charges().iter().map(placed).collect();
            assert_eq!(placed.len(), 3, "{key}");
            assert!(placed.iter().all(|one| *one == placed[0]), "{key}: {placed:?}");
            let form = if key == "user" { KeyForm::Values } else { KeyForm::Secret };
            assert_eq!(placed[0].1, form, "{key}");
        });
    }
}

/// Its limits may be in several locations, and one of them would be charged before another denies the request.
#[test]
fn a_request_denied_for_its_key_only_peeks() {
    let file = |limit: &str| {
        format!(
            "
domain: api
rules:
  - {{ name: a, key: [user], limit: {limit} }}
  - {{ name: b, key: [ip], limit: 5 per minute }}
  - {{ name: c, key: [tenant], missing: deny, limit: 5 per minute }}
"
        )
    };
    let limit = "{ limit: 2 per hour, algorithm: fixed_window }";
    let fleet = Fleet::new(1, &file(limit));
    assert_eq!(fleet.first().kinds("user=1 ip=::1", 3), [AnswerKind::Denied; 3]);
    assert_eq!((fleet.store.calls(), fleet.store.cacheable()), (3, vec![]));
    assert_eq!(
        fleet.first().kinds("user=1 ip=::1 tenant=7", 3),
        [AnswerKind::Allowed, AnswerKind::Allowed, AnswerKind::Denied]
    );
    // Unless it counts attempts.
    let fleet = Fleet::new(1, &file(&limit.replace(" }", ", count_denied: true }")));
    assert_eq!(fleet.first().kinds("user=1 ip=::1", 2), [AnswerKind::Denied; 2]);
    assert_eq!(fleet.store.cacheable().len(), 2);
    assert_eq!(fleet.first().check("user=1 ip=::1 tenant=7").kind, AnswerKind::Denied);
}

#[test]
fn stages_are_timed() {
    let fleet = Fleet::new(1, "{ domain: api, rules: [ { name: a, limit: 5 per minute } ] }");
    assert_eq!(
        timed(fleet.first(), "user=1"),
        tidegate::engine::StageTimes::default(),
        "the clock stands still"
    );
    let node = fleet.first();
    fleet.store.set_behavior(StoreBehavior::ReplyLater);
    with_request("user=1", 1, |request| {
        let mut deciding = std::pin::pin!(node.engine.decide_timed(request));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(deciding.as_mut().poll(&mut context).is_pending());
        node.advance(2);
        fleet.store.release_replies();
        let std::task::Poll::Ready(Ok(decided)) = deciding.as_mut().poll(&mut context) else {
            panic!("it is answered");
        };
        let stages = decided.stages.expect("it is timed");
        assert_eq!((stages.matching_ns, stages.store_ns), (0, 2_000_000_000));
    });
}

/// A server polls them on any thread.
#[test]
fn futures_are_send() {
    fn assert_send<T: Send>(future: T) -> T {
        future
    }
    fn all_calls<C: Timer + Send + Sync + 'static>(engine: &crate::engine::setup::TestEngine<C>) {
        with_request("user=1", 1, |request| {
            let kind = expect_ready(assert_send(engine.decide(request))).map(|decided| decided.answer.kind);
            assert_eq!(kind, Ok(AnswerKind::Allowed));
            drop(assert_send(engine.lease(request, None)));
            drop(assert_send(engine.peek(request)));
            drop(assert_send(engine.explain(request)));
            drop(assert_send(engine.refund(request, None)));
            drop(assert_send(engine.reset(request)));
        });
    }
    all_calls(&Fleet::new(1, "{ domain: api, rules: [ { name: a, limit: 5 per minute } ] }").first().engine);
}

/// A request is answered by the rules that it was asked with, even if they were replaced.
#[test]
fn a_pending_request_keeps_its_rules() {
    let fleet = Fleet::new(1, "{ domain: api, rules: [ { name: old, limit: 5 per minute } ] }");
    let node = fleet.first();
    fleet.store.set_behavior(StoreBehavior::ReplyLater);
    with_request("user=1", 1, |request| {
        let mut deciding = std::pin::pin!(node.engine.decide(request));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(deciding.as_mut().poll(&mut context).is_pending());
        node.reload("{ domain: api, rules: [] }");
        fleet.store.release_replies();
        let std::task::Poll::Ready(Ok(decided)) = deciding.as_mut().poll(&mut context) else {
            panic!("it is answered");
        };
        assert_eq!(&*decided.answer.limit(0).unwrap().rule.name, "old");
    });
}
