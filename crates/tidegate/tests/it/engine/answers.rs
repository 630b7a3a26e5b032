//! The merged answer of several rules, limits and descriptors.

use tidegate::rules::AnswerKind;
use tidegate_core::PLAN_CHARGES_MAX;

use crate::engine::setup::{Setup, over_each_store};

fn a_denied_request_is_charged_nowhere(setup: Setup) {
    let fixture = setup.fixture(
        "
domain: api
rules:
  - { name: per-user, key: [user], limit: { limit: 10 per minute, algorithm: fixed_window } }
  - { name: per-ip, key: [ip], limit: { limit: 2 per minute, algorithm: fixed_window } }
",
    );
    assert_eq!(fixture.count_passing("user=1 ip=192.0.2.1", 5), 2);
    let denied = fixture.check("user=1 ip=192.0.2.1");
    assert_eq!((denied.kind, denied.rule.as_deref()), (AnswerKind::Denied, Some("per-ip")));
    assert_eq!(denied.limits[0], ("per-user".to_owned(), AnswerKind::Allowed, 8));
    assert_eq!(fixture.check("user=1 ip=192.0.2.2").limits[0].2, 7);
}

fn the_tightest_denial_decides_and_all_have_to_admit(setup: Setup) {
    let fixture = setup.fixture(
        "
domain: api
rules:
  - { name: minute, limit: { limit: 1 per minute, algorithm: fixed_window } }
  - { name: hour, limit: { limit: 1 per hour, algorithm: fixed_window } }
",
    );
    fixture.check("user=1");
    let denied = fixture.check("user=1");
    assert_eq!((denied.rule.as_deref(), denied.retry_after_ms), (Some("hour"), Some(3_600_000)));
    fixture.advance(3_599);
    assert_eq!(fixture.check("user=1").retry_after_ms, Some(1_000));
    fixture.advance(1);
    assert_eq!(fixture.check("user=1").kind, AnswerKind::Allowed);
}

fn remaining_is_the_least_and_its_limit_is_named(setup: Setup) {
    let fixture = setup.fixture(
        "
domain: api
rules:
  - name: tight
    limit: 3 per minute
  - name: loose
    limit: 30 per minute
",
    );
    let answer = fixture.check("user=1");
    assert_eq!((answer.remaining, answer.rule.as_deref()), (2, Some("tight")));
}

fn a_request_without_a_matching_rule_is_allowed(setup: Setup) {
    let fixture =
        setup.fixture("{ domain: api, rules: [ { name: a, match: { user: x }, limit: 0 per minute } ] }");
    let answer = fixture.check("user=y");
    assert_eq!((answer.kind, answer.remaining, answer.rule), (AnswerKind::Allowed, u64::MAX, None));
    assert_eq!(fixture.check("user=x").retry_after_ms, None);
}

fn the_first_rule_that_matches_applies_if_the_domain_says_so(setup: Setup) {
    let file = |apply: &str| {
        format!(
            "
domain: api
apply: {apply}
rules:
  - {{ name: internal, match: {{ ip: 10.0.0.0/8 }}, limit: unlimited }}
  - {{ name: everyone, limit: 1 per minute }}
"
        )
    };
    let first = setup.fixture(&file("first"));
    assert_eq!(first.count_passing("ip=10.1.2.3", 5), 5);
    assert_eq!(first.count_passing("ip=192.0.2.1", 5), 1);
    assert_eq!(setup.fixture(&file("all")).count_passing("ip=10.1.2.3", 5), 1);
}

fn descriptors_match_separately_and_are_charged_together(setup: Setup) {
    let fixture = setup.fixture(
        "
domain: api
rules:
  - { name: users, match: { user: { exists: true } }, key: [user], limit: { limit: 5 per minute, algorithm: fixed_window } }
  - { name: shards, match: { shard: { exists: true } }, key: [shard], limit: { limit: 1 per minute, algorithm: fixed_window } }
",
    );
    assert_eq!(fixture.check("user=1; shard=a").limits.len(), 2);
    assert_eq!(fixture.check("user=1; shard=a").kind, AnswerKind::Denied);
    assert_eq!(fixture.check("user=1; shard=b").limits[0].2, 3);
    // The same counter twice in a request is one charge with both costs.
    assert_eq!(fixture.check("user=2; user=2").limits[0].2, 3);
}

fn a_rule_may_replace_others(setup: Setup) {
    let fixture = setup.fixture(
        "
domain: api
rules:
  - { name: general, key: [user], limit: 1 per minute }
  - { name: vip, match: { plan: vip }, key: [user], limit: 5 per minute, replaces: [general] }
",
    );
    assert_eq!(fixture.count_passing("user=1", 9), 1);
    assert_eq!(fixture.count_passing("user=2 plan=vip", 9), 5);
}

/// A plan that is larger than one byte can count.
fn a_request_may_fall_under_hundreds_of_limits(setup: Setup) {
    let rule =
        |number: usize| format!("  - {{ name: r{number}, key: [user], limit: {} per day }}\n", number + 3);
    let rules: String = (0..300).map(rule).collect();
    let fixture = setup.fixture(&format!("domain: api\nrules:\n{rules}"));
    assert_eq!(
        fixture.count_passing("user=1", 5),
        3,
        "the tightest limit decides, and nothing is charged after it"
    );
    assert_eq!(fixture.count_passing("user=2", 5), 3);
}

fn more_limits_than_a_plan_holds_are_an_error(setup: Setup) {
    let rule = |number: usize| format!("  - {{ name: r{number}, limit: 5 per minute }}\n");
    let rules: String = (0..=PLAN_CHARGES_MAX).map(rule).collect();
    let fixture = setup.fixture(&format!("domain: api\nrules:\n{rules}"));
    let error = crate::engine::fixture::with_request("user=1", 1, |request| {
        fixture.setup.check(&fixture.engine, request, |_| ()).unwrap_err().to_string()
    });
    assert_eq!(error, "the request falls under too many limits; let fewer rules match it");
}

fn a_limit_that_never_denies_does_not_affect_retry_after(setup: Setup) {
    let fixture = setup.fixture(
        "
domain: api
rules:
  - name: marks
    limit: { limit: 1 per day, algorithm: fixed_window }
    action: { soft: { margin: unlimited } }
  - { name: denies, limit: { limit: 2 per minute, algorithm: fixed_window } }
",
    );
    assert_eq!(fixture.count_passing("user=1", 3), 2);
    let denied = fixture.check("user=1");
    assert_eq!((denied.rule.as_deref(), denied.retry_after_ms), (Some("denies"), Some(60_000)));
}

fn an_attempt_is_counted_once_even_with_a_pool(setup: Setup) {
    let fixture = setup.fixture(
        "
domain: api
pools: { spare: { limit: 100 per minute, algorithm: fixed_window } }
rules:
  - name: elastic
    limit: { limit: 1 per minute, algorithm: fixed_window }
    action: { elastic: { max: 50, pool: spare } }
  - { name: attempts, limit: { limit: 10 per minute, algorithm: fixed_window, count_denied: true } }
",
    );
    assert_eq!(fixture.count_passing("user=1", 20), 10);
}

fn an_exemption_lifts_all_other_rules(setup: Setup) {
    let fixture = setup.fixture(
        "
domain: api
rules:
  - { name: office, match: { ip: 10.0.0.0/8 }, exempt: true }
  - { name: health, match: { path: /health }, exempt: true, metadata: { why: health } }
  - { name: blocked, match: { user: mallory }, limit: deny }
  - { name: everyone, limit: 1 per minute }
",
    );
    for exempt in
        ["ip=10.0.0.1", "user=mallory path=/health", "ip=10.0.0.1 path=/health", "user=mallory;ip=10.0.0.1"]
    {
        let answers: Vec<_> = (0..3).map(|_| fixture.check(exempt)).collect();
        assert!(
            answers.iter().all(|answer| answer.kind == AnswerKind::Allowed && answer.limits.is_empty()),
            "{exempt}"
        );
    }
    let explained = fixture.explain("user=mallory path=/health");
    assert!(explained.contains("rule blocked: matches, but health replaces it"), "{explained}");
    assert_eq!(fixture.check("user=mallory").kind, AnswerKind::Denied);
    assert_eq!(fixture.kinds("user=alice", 2), [AnswerKind::Allowed, AnswerKind::Denied]);
}

over_each_store!(
    an_exemption_lifts_all_other_rules,
    a_denied_request_is_charged_nowhere,
    the_tightest_denial_decides_and_all_have_to_admit,
    remaining_is_the_least_and_its_limit_is_named,
    a_request_without_a_matching_rule_is_allowed,
    the_first_rule_that_matches_applies_if_the_domain_says_so,
    descriptors_match_separately_and_are_charged_together,
    a_rule_may_replace_others,
    a_request_may_fall_under_hundreds_of_limits,
    more_limits_than_a_plan_holds_are_an_error,
    a_limit_that_never_denies_does_not_affect_retry_after,
    an_attempt_is_counted_once_even_with_a_pool,
);
