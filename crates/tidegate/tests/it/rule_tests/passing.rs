//! Every kind of expectation.

use tidegate::rules::{self, RuleTests};

use super::assert_passes;

#[test]
fn decisions_times_and_costs() {
    assert_passes(
        &[
            "{ name: login, key: [user], limits: [ { name: few, limit: 5 per minute, algorithm: fixed_window } ] }",
        ],
        &[
            "{ at: 0s, request: { user: alice }, times: 3, expect: allowed }",
            "{ request: { user: alice }, cost: 2, expect: { decision: allowed, remaining: 0, retry_after: 0 } }",
            "{ at: 1s, request: { user: bob }, expect: { rule: login, limit: few, remaining: 4, reset_after: 59s } }",
            "{ at: 1s, request: { user: alice }, expect: { decision: denied, remaining: 0, retry_after: 59s } }",
            "{ at: 1s, request: { user: alice }, cost: 6, expect: { decision: denied, retry_after: never } }",
            "{ at: 60s, request: { user: alice }, expect: allowed }",
        ],
    );
}

#[test]
fn descriptors_and_entries() {
    assert_passes(
        &[
            "{ name: database, entries: [ { database: users } ], limit: 2 per hour }",
            "{ name: user, match: { user: alice }, limit: 9 per hour }",
        ],
        &[
            "{ descriptors: [ { entries: [ { database: users } ], cost: 2 }, { attributes: { user: alice } } ], \
             expect: { decision: allowed, rule: database, limit: 1, remaining: 0 } }",
            "{ descriptors: [ { entries: [ { database: users } ] }, { attributes: { user: alice }, cost: 5 } ], \
             expect: denied }",
            "{ request: { user: alice }, expect: { remaining: 7 } }",
            "{ request: { user: bob }, expect: { decision: allowed, rule: } }",
        ],
    );
}

#[test]
fn every_decision() {
    let cases = [
        ("reject", "denied"),
        ("shadow", "shadow_denied"),
        ("shadow_ban", "shadow_banned"),
        ("quota", "over_quota"),
        ("{ soft: { margin: 100% } }", "soft"),
        ("{ elastic: { max: 2, pool: spare } }", "soft"),
    ];
    for (action, decision) in cases {
        assert_passes(
            &[&format!("{{ name: all, limit: 1 per hour, action: {action} }}")],
            &["{ request: {}, expect: allowed }", &format!("{{ request: {{}}, expect: {decision} }}")],
        );
    }
    assert_passes(
        &["{ name: all, limits: [ { algorithm: leaky_bucket, limit: 1, per: 1s, queue: 1 } ] }"],
        &["{ request: {} }", "{ request: {}, expect: { decision: delayed, delay: 1s } }"],
    );
}

#[test]
fn candidates_and_signals() {
    assert_passes(
        &["{ name: all, limit: 5 per hour, candidate: 1 per hour }"],
        &[
            "{ request: {}, expect: { decision: allowed, candidate: allowed } }",
            "{ request: {}, expect: { decision: allowed, candidate: denied } }",
        ],
    );
    assert_passes(
        &["{ name: all, limit: { limit: 10 per hour, algorithm: fixed_window }, \
           action: { elastic: { min: 0, max: 20, signal: capacity } } }"],
        &[
            "{ request: {}, expect: { remaining: 9 } }",
            "{ signal: { capacity: 1 } }",
            "{ request: {}, expect: { remaining: 18 } }",
            "{ signal: { capacity: 0.5 } }",
            "{ request: {}, expect: { remaining: 7 } }",
        ],
    );
}

#[test]
fn a_test_starts_at_its_start_time() {
    let rules = "
domain: api
rules:
  - { name: daily, limit: { limit: 1, per: day, algorithm: fixed_window, align: { tz: Europe/Paris } } }
";
    let tests = |start: &str| {
        format!(
            "tests:\n  - name: one\n{start}    steps:\n      - {{ request: {{}}, expect: {{ reset_after: REST }} }}\n"
        )
    };
    let domains = rules::parse("rules.yaml", rules).unwrap().domains;
    let cases = [
        // The epoch is at one in the morning in Paris.
        ("", "23h"),
        ("    start: 2026-06-01T21:59:30Z\n", "30s"),
        ("    start: 2026-06-01T23:59:30+02:00\n", "30s"),
        // The day on which summer time starts has 23 hours.
        ("    start: 2026-03-29T00:00:00+01:00\n", "23h"),
    ];
    for (start, rest) in cases {
        let tests = RuleTests::parse("tests.yaml", &tests(start).replace("REST", rest)).unwrap();
        let results = tests.run(&domains);
        assert_eq!(results.failed(), 0, "{}", results.report());
    }
}

#[test]
fn every_test_has_its_own_counters() {
    let rules = "domain: api\nrules: [ { name: all, limit: 1 per hour } ]\n";
    let tests = "
tests:
  - { name: one, domain: api, steps: [ { request: {}, expect: allowed } ] }
  - { name: two, steps: [ { request: {}, expect: allowed }, { request: {}, expect: denied } ] }
";
    let tests = RuleTests::parse("tests.yaml", tests).unwrap();
    assert_eq!(tests.count(), 2);
    let results = tests.run(&rules::parse("rules.yaml", rules).unwrap().domains);
    assert_eq!((results.passed(), results.failed()), (2, 0), "{}", results.report());
}
