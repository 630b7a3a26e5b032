//! What each action does when its limit is exceeded.

use tidegate::rules::AnswerKind::{Allowed, Delayed, Denied, OverQuota, ShadowBanned, ShadowDenied, Soft};

use crate::engine::fixture::EngineFixture;
use crate::engine::setup::{Setup, over_each_store};

/// Two a minute in a fixed window, with this action, beside a limit that counts everything that passes.
fn with_action(setup: Setup, action: &str) -> EngineFixture {
    setup.fixture(&format!(
        "
domain: api
pools: {{ spare: {{ limit: 2 per minute, algorithm: fixed_window }} }}
rules:
  - name: acting
    key: [user]
    limit: {{ limit: 2 per minute, algorithm: fixed_window }}
    action: {action}
  - name: counting
    match: {{ user: {{ exists: true }} }}
    limit: {{ limit: 100 per minute, algorithm: fixed_window }}
"
    ))
}

fn reject(setup: Setup) {
    let fixture = with_action(setup, "reject");
    assert_eq!(fixture.kinds("user=1", 3), [Allowed, Allowed, Denied]);
    assert_eq!(fixture.peek("user=2").limits[1].2, 97);
}

fn shadow_charges_and_admits(setup: Setup) {
    let fixture = with_action(setup, "shadow");
    assert_eq!(fixture.kinds("user=1", 4), [Allowed, Allowed, ShadowDenied, ShadowDenied]);
    let answer = fixture.check("user=1");
    assert_eq!(
        (answer.kind, answer.rule.as_deref(), answer.retry_after_ms),
        (ShadowDenied, Some("acting"), Some(0))
    );
    // The client sees the numbers of the enforced limit.
    assert_eq!(answer.remaining, 95);
}

fn a_shadow_bucket_has_no_debt(setup: Setup) {
    let fixture =
        setup.fixture("{ domain: api, rules: [ { name: a, limit: 2 per minute, action: shadow } ] }");
    assert_eq!(fixture.kinds("user=1", 100).into_iter().filter(|kind| *kind == ShadowDenied).count(), 98);
    fixture.advance(30);
    assert_eq!(fixture.kinds("user=1", 2), [Allowed, ShadowDenied]);
}

fn shadow_ban_charges_nothing_and_does_not_pass(setup: Setup) {
    let fixture = with_action(setup, "shadow_ban");
    assert_eq!(fixture.kinds("user=1", 3), [Allowed, Allowed, ShadowBanned]);
    assert_eq!(fixture.peek("user=2").limits[1].2, 97);
}

fn quota_reports_and_admits(setup: Setup) {
    assert_eq!(with_action(setup, "quota").kinds("user=1", 3), [Allowed, Allowed, OverQuota]);
}

fn soft_admits_a_margin(setup: Setup) {
    let fixture = with_action(setup, "{ soft: { margin: 100% } }");
    assert_eq!(fixture.kinds("user=1", 5), [Allowed, Allowed, Soft, Soft, Denied]);
    assert_eq!(fixture.peek("user=1").remaining, 0);
    assert_eq!(fixture.peek("user=2").limits[1].2, 95);
}

fn an_unlimited_margin_marks_and_never_denies(setup: Setup) {
    let fixture = with_action(setup, "{ soft: { margin: unlimited } }");
    assert_eq!(fixture.kinds("user=1", 4), [Allowed, Allowed, Soft, Soft]);
    assert_eq!(fixture.count_passing("user=1", 90), 90);
    assert_eq!(fixture.peek("user=1").remaining, 0);
}

fn a_margin_is_one_unit_at_least(setup: Setup) {
    assert_eq!(
        with_action(setup, "{ soft: { margin: 1% } }").kinds("user=1", 4),
        [Allowed, Allowed, Soft, Denied]
    );
}

fn elastic_borrows_from_a_shared_pool(setup: Setup) {
    let fixture = with_action(setup, "{ elastic: { max: 5, pool: spare } }");
    assert_eq!(fixture.kinds("user=1", 3), [Allowed, Allowed, Soft]);
    assert_eq!(fixture.kinds("user=2", 4), [Allowed, Allowed, Soft, Denied]);
    // The pool is empty. That does not affect the units that are always granted.
    assert_eq!(fixture.kinds("user=3", 3), [Allowed, Allowed, Denied]);
    fixture.advance(60);
    assert_eq!(fixture.kinds("user=3", 5), [Allowed, Allowed, Soft, Soft, Denied]);
}

fn elastic_never_exceeds_its_maximum(setup: Setup) {
    let fixture = with_action(setup, "{ elastic: { max: 3, pool: spare } }");
    assert_eq!(fixture.kinds("user=1", 4), [Allowed, Allowed, Soft, Denied]);
    // A denied request took nothing from the pool.
    assert_eq!(fixture.kinds("user=2", 4), [Allowed, Allowed, Soft, Denied]);
}

fn elastic_retries_after_the_earlier_of_limit_and_pool(setup: Setup) {
    let fixture = setup.fixture(
        "
domain: api
pools: { spare: { limit: 1 per hour, algorithm: fixed_window } }
rules:
  - name: a
    key: [user]
    limit: { limit: 1 per minute, algorithm: fixed_window }
    action: { elastic: { max: 2, pool: spare } }
",
    );
    assert_eq!(fixture.kinds("user=1", 2), [Allowed, Soft]);
    assert_eq!(fixture.check("user=2").kind, Allowed);
    let denied = fixture.check("user=2");
    assert_eq!((denied.kind, denied.retry_after_ms), (Denied, Some(60_000)));
}

fn elastic_resizes_with_a_signal(setup: Setup) {
    let fixture = with_action(setup, "{ elastic: { min: 1, max: 5, signal: capacity } }");
    let passing = |level: Option<&str>, user: &str| {
        if let Some(level) = level {
            fixture.engine.push_signal("capacity", level.parse().unwrap()).unwrap();
        }
        fixture.count_passing(user, 9)
    };
    assert_eq!(passing(None, "user=1"), 2);
    assert_eq!(passing(Some("1"), "user=2"), 5);
    assert_eq!(passing(Some("0.5"), "user=3"), 3);
    assert_eq!(passing(Some("0"), "user=4"), 1);
    // Usage is kept.
    assert_eq!(passing(Some("1"), "user=4"), 4);
    let error = fixture.engine.push_signal("capacty", "1".parse().unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "no rule uses the signal `capacty` (hint: known signals: capacity)");
}

fn a_leaky_bucket_delays(setup: Setup) {
    let fixture = setup.fixture(
        "{ domain: api, rules: [ { name: a, limit: { limit: 1 per second, algorithm: leaky_bucket, queue: 2 } } ] }",
    );
    assert_eq!(fixture.kinds("user=1", 4), [Allowed, Delayed, Delayed, Denied]);
    assert_eq!(fixture.peek("user=1").retry_after_ms, Some(1000));
}

fn a_candidate_is_only_reported(setup: Setup) {
    let fixture = setup.fixture(
        "
domain: api
rules:
  - name: real
    key: [user]
    limit: { limit: 3 per minute, algorithm: fixed_window }
    candidate: { limit: 1 per minute, algorithm: fixed_window }
  - { name: other, match: { user: banned }, limit: 0 per minute }
",
    );
    let answers: Vec<_> = (0..4).map(|_| fixture.check("user=1")).collect();
    let kinds: Vec<_> = answers.iter().map(|answer| (answer.kind, answer.candidates[0].1)).collect();
    assert_eq!(kinds, [(Allowed, Allowed), (Allowed, Denied), (Allowed, Denied), (Denied, Denied)]);
    // Another rule denies the request, so it would not have reached the candidate either.
    assert_eq!(fixture.check("user=banned").candidates[0].1, Allowed);
    assert_eq!(fixture.check("user=banned").candidates[0].1, Allowed);
}

fn a_candidate_may_allow_what_its_limit_denies(setup: Setup) {
    let fixture = setup.fixture(
        "
domain: api
rules:
  - name: real
    limit: { limit: 1 per minute, algorithm: fixed_window }
    candidate: { limit: 3 per minute, algorithm: fixed_window }
",
    );
    let kinds: Vec<_> = (0..4).map(|_| fixture.check("user=1").candidates[0].1).collect();
    assert_eq!(kinds, [Allowed, Allowed, Allowed, Denied]);
}

fn a_soft_limit_reports_no_more_remaining_than_it_admits(setup: Setup) {
    let fixture = setup.fixture(
        "
domain: api
rules:
  - name: plans
    key: [user]
    tiers:
      by: plan
      plans:
        pro: { limit: 12 per minute, algorithm: fixed_window, action: { soft: { margin: 10% } } }
      default: { limit: 10 per minute, algorithm: fixed_window }
",
    );
    assert_eq!(fixture.count_passing("user=1", 10), 10);
    assert_eq!(fixture.check("user=1 plan=pro").remaining, 2);
    assert_eq!(fixture.count_passing("user=1 plan=pro", 9), 2);
}

over_each_store!(
    reject,
    shadow_charges_and_admits,
    a_shadow_bucket_has_no_debt,
    shadow_ban_charges_nothing_and_does_not_pass,
    quota_reports_and_admits,
    soft_admits_a_margin,
    an_unlimited_margin_marks_and_never_denies,
    a_margin_is_one_unit_at_least,
    elastic_borrows_from_a_shared_pool,
    elastic_never_exceeds_its_maximum,
    elastic_retries_after_the_earlier_of_limit_and_pool,
    elastic_resizes_with_a_signal,
    a_leaky_bucket_delays,
    a_candidate_is_only_reported,
    a_candidate_may_allow_what_its_limit_denies,
    a_soft_limit_reports_no_more_remaining_than_it_admits,
);
