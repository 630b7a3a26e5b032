//! Which requests share a counter, and what a request costs.

use tidegate::rules::AnswerKind::{Allowed, Denied};

use crate::engine::fixture::EngineFixture;
use crate::engine::setup::{Setup, over_each_store};

fn fixture_with_rule(setup: Setup, rule: &str) -> EngineFixture {
    setup.fixture(&format!("{{ domain: api, rules: [ {{ name: a, {rule}, limit: 1 per minute }} ] }}"))
}

fn parts_of_the_path(setup: Setup) {
    let fixture = fixture_with_rule(setup, "match: { path: '/users/{id}/**' }, key: [path.id]");
    assert_eq!(fixture.kinds("path=/users/1", 2), [Allowed, Denied]);
    assert_eq!(fixture.kinds("path=/users/1/posts?page=2", 1), [Denied]);
    assert_eq!(fixture.kinds("path=/users/2/posts", 2), [Allowed, Denied]);
    let fixture = fixture_with_rule(setup, "key: [path.1]");
    assert_eq!(fixture.kinds("path=/a/b", 2), [Allowed, Denied]);
    assert_eq!(fixture.kinds("path=/c/b", 1), [Allowed]);
}

fn ipv6_by_prefix_and_mapped_ipv4_as_ipv4(setup: Setup) {
    let fixture = fixture_with_rule(setup, "key: [ip]");
    assert_eq!(fixture.kinds("ip=2001:db8::1", 2), [Allowed, Denied]);
    assert_eq!(fixture.kinds("ip=2001:db8::ffff:1", 1), [Denied]);
    assert_eq!(fixture.kinds("ip=2001:db8:0:1::1", 1), [Allowed]);
    assert_eq!(fixture.kinds("ip=192.0.2.1", 1), [Allowed]);
    assert_eq!(fixture.kinds("ip=::ffff:192.0.2.1", 1), [Denied]);
    let fixture = fixture_with_rule(setup, "key: [ip/48]");
    assert_eq!(fixture.kinds("ip=2001:db8::1", 1), [Allowed]);
    assert_eq!(fixture.kinds("ip=2001:db8:0:1::1", 1), [Denied]);
}

/// Ports and spaces do not give a client a fresh counter, and what is not an address follows `missing`.
fn decorated_addresses_are_one_client(setup: Setup) {
    let fixture = fixture_with_rule(setup, "key: [ip]");
    assert_eq!(fixture.kinds("ip=192.0.2.1", 1), [Allowed]);
    for ip in ["192.0.2.1:80", "192.0.2.1:81", "[::ffff:192.0.2.1]:80"] {
        assert_eq!(fixture.kinds(&format!("ip={ip}"), 1), [Denied], "{ip}");
    }
    assert_eq!(fixture.kinds("ip=[2001:db8::1]:443", 1), [Allowed]);
    assert_eq!(fixture.kinds("ip=2001:db8::2%eth0", 1), [Denied]);
    // All requests without an address share a counter.
    assert_eq!(fixture.kinds("ip=unknown", 1), [Allowed]);
    for attributes in ["ip=_hidden", "ip=1.2.3.4.5", "user=1"] {
        assert_eq!(fixture.kinds(attributes, 1), [Denied], "{attributes}");
    }
    let fixture = fixture_with_rule(setup, "key: [ip], missing: deny");
    assert_eq!(fixture.kinds("ip=unknown", 1), [Denied]);
    assert_eq!(fixture.kinds("ip=192.0.2.1:80", 1), [Allowed]);
    let fixture = fixture_with_rule(setup, "key: [ip], missing: skip");
    assert_eq!(fixture.kinds("ip=unknown", 2), [Allowed, Allowed]);
}

/// A value that is too long for a regular expression neither escapes a limit nor selects a more generous rule.
fn a_value_too_long_for_a_regex_is_no_bypass(setup: Setup) {
    let long = "b".repeat(5_000);
    for pattern in ["{ regex: 'a+' }", "{ not: { regex: 'b+' } }"] {
        let fixture = fixture_with_rule(setup, &format!("match: {{ agent: {pattern} }}"));
        assert_eq!(fixture.kinds("agent=bb", 2), [Allowed, Allowed], "{pattern}");
        assert_eq!(fixture.kinds(&format!("agent={long}"), 2), [Allowed, Denied], "{pattern}");
    }
    for apply in ["all", "first"] {
        let replaces = if apply == "all" { "replaces: [strict], " } else { "" };
        let fixture = setup.fixture(&format!(
            "
domain: api
apply: {apply}
rules:
  - {{ name: generous, {replaces}match: {{ agent: {{ regex: 'a+' }} }}, limit: 100 per minute }}
  - {{ name: strict, limit: 1 per minute }}
"
        ));
        assert_eq!(fixture.kinds("agent=aa", 2), [Allowed, Allowed], "{apply}");
        assert_eq!(fixture.kinds(&format!("agent={long}"), 2), [Allowed, Denied], "{apply}");
    }
}

fn headers_are_named_in_any_case(setup: Setup) {
    let fixture = fixture_with_rule(setup, "match: { header.X-Plan: free }, key: [header.x-user]");
    assert_eq!(fixture.kinds("header.x-plan=free header.X-User=1", 2), [Allowed, Denied]);
    assert_eq!(fixture.kinds("header.X-PLAN=free header.x-user=1", 1), [Denied]);
    assert_eq!(fixture.kinds("header.x-plan=pro header.x-user=1", 2), [Allowed, Allowed]);
}

fn a_missing_key_part_is_shared_skipped_or_denied(setup: Setup) {
    let shared = fixture_with_rule(setup, "key: [user]");
    assert_eq!(shared.kinds("ip=192.0.2.1", 2), [Allowed, Denied]);
    assert_eq!(shared.kinds("user=1", 1), [Allowed]);
    assert_eq!(
        fixture_with_rule(setup, "key: [user], missing: skip").kinds("ip=192.0.2.1", 3),
        [Allowed, Allowed, Allowed]
    );
    let deny = fixture_with_rule(setup, "key: [user], missing: deny");
    let answer = deny.check("ip=192.0.2.1");
    assert_eq!((answer.kind, answer.retry_after_ms), (Denied, None));
    assert_eq!(deny.kinds("user=1", 2), [Allowed, Denied]);
}

fn a_denial_for_a_missing_key_part_charges_nothing(setup: Setup) {
    let fixture = setup.fixture(
        "
domain: api
rules:
  - { name: counting, limit: 9 per minute }
  - { name: strict, key: [user], missing: deny, limit: 9 per minute }
",
    );
    assert_eq!(fixture.check("ip=192.0.2.1").kind, Denied);
    assert_eq!(fixture.peek("user=1").limits[0].2, 8);
}

fn key_parts_are_separated(setup: Setup) {
    let fixture = fixture_with_rule(setup, "key: [a, b]");
    assert_eq!(fixture.kinds("a=xy b=z", 1), [Allowed]);
    assert_eq!(fixture.kinds("a=x b=yz", 1), [Allowed]);
    assert_eq!(fixture.kinds("b=z a=xy", 1), [Denied]);
}

fn long_values_have_separate_keys(setup: Setup) {
    let fixture = fixture_with_rule(setup, "key: [user]");
    let (one, other) = ("x".repeat(100_000), "x".repeat(100_001));
    assert_eq!(fixture.kinds(&format!("user={one}"), 2), [Allowed, Denied]);
    assert_eq!(fixture.kinds(&format!("user={other}"), 1), [Allowed]);
}

fn costs(setup: Setup) {
    let fixture = |cost: &str| {
        setup.fixture(&format!(
            "{{ domain: api, rules: [ {{ name: a, key: [user], cost: {cost}, limit: 100 per minute }} ] }}"
        ))
    };
    assert_eq!(fixture("7").check_cost("user=1", 3).remaining, 93);
    assert_eq!(fixture("request").check_cost("user=1", 3).remaining, 97);
    let tokens = fixture("{ attribute: tokens, default: 2 }");
    assert_eq!(tokens.check("user=1 tokens=40").remaining, 60);
    assert_eq!(tokens.check("user=1").remaining, 58);
    assert_eq!(tokens.check("user=1 tokens=lots").remaining, 56);
    // A cost of zero only reads.
    assert_eq!(fixture("7").check_cost("user=1", 0).remaining, 100);
}

fn tiers(setup: Setup) {
    let fixture = setup.fixture(
        "
domain: api
rules:
  - name: plans
    key: [user]
    tiers:
      by: header.x-plan
      plans:
        free: [ 2 per minute ]
        pro: [ 4 per minute ]
        internal: unlimited
      default: free
",
    );
    assert_eq!(fixture.count_passing("user=1 header.x-plan=free", 9), 2);
    assert_eq!(fixture.count_passing("user=2 header.x-plan=pro", 9), 4);
    assert_eq!(fixture.count_passing("user=3 header.x-plan=internal", 9), 9);
    assert_eq!(fixture.count_passing("user=4 header.x-plan=gold", 9), 2);
    assert_eq!(fixture.count_passing("user=5", 9), 2);
    // After a change of plan, the used share is kept.
    fixture.check("user=6 header.x-plan=free");
    assert_eq!(fixture.count_passing("user=6 header.x-plan=pro", 9), 2);
}

fn spelling_variants_of_a_value_share_a_key(setup: Setup) {
    let fixture = fixture_with_rule(setup, "key: [path]");
    assert_eq!(fixture.kinds("path=/p?x=1", 1), [Allowed]);
    assert_eq!(fixture.kinds("path=/p?x=2", 1), [Denied]);
    let fixture = fixture_with_rule(setup, "key: [host, method]");
    assert_eq!(fixture.kinds("host=example.org method=POST", 1), [Allowed]);
    assert_eq!(fixture.kinds("host=EXAMPLE.org method=post", 1), [Denied]);
    let long = "a".repeat(5000);
    assert_eq!(fixture.kinds(&format!("host={long} method=GET"), 1), [Allowed]);
    assert_eq!(fixture.kinds(&format!("host={} method=GET", long.to_uppercase()), 1), [Denied]);
}

fn an_overflowing_cost_is_not_reduced(setup: Setup) {
    let fixture = setup.fixture(
        "{ domain: api, rules: [ { name: a, cost: { attribute: tokens, default: 1 }, limit: 100 per minute } ] }",
    );
    assert_eq!(fixture.check("tokens=99999999999999999999999999").kind, Denied);
    assert_eq!(fixture.check("tokens=+5").remaining, 99);
}

fn descriptors_of_several_tiers_must_fit_the_tightest(setup: Setup) {
    let file = "
domain: api
rules:
  - name: plans
    key: [user]
    tiers:
      by: plan
      plans: { pro: { limit: 100 per minute, algorithm: fixed_window } }
      default: { limit: 2 per minute, algorithm: fixed_window }
";
    assert_eq!(setup.fixture(file).check_cost("user=1 plan=pro; user=1", 2).kind, Denied);
    assert_eq!(setup.fixture(file).check_cost("user=1; user=1 plan=pro", 2).kind, Denied);
    assert_eq!(setup.fixture(file).check_cost("user=1 plan=pro; user=1", 1).remaining, 0);
}

fn spelling_variants_of_a_tier_share_its_limit(setup: Setup) {
    let fixture = |by: &str, plan: &str| {
        setup.fixture(&format!(
            "{{ domain: api, rules: [ {{ name: a, tiers: {{ by: {by}, plans: {{ {plan}: 1 per hour }}, default: unlimited }} }} ] }}"
        ))
    };
    assert_eq!(fixture("method", "GET").kinds("method=get", 2), [Allowed, Denied]);
    assert_eq!(fixture("host", "X.org").kinds("host=x.ORG", 2), [Allowed, Denied]);
    assert_eq!(fixture("path", "/a").kinds("path=/a?b", 2), [Allowed, Denied]);
    assert_eq!(fixture("plan", "free").kinds("plan=FREE", 2), [Allowed, Allowed]);
}

over_each_store!(
    parts_of_the_path,
    ipv6_by_prefix_and_mapped_ipv4_as_ipv4,
    decorated_addresses_are_one_client,
    a_value_too_long_for_a_regex_is_no_bypass,
    headers_are_named_in_any_case,
    a_missing_key_part_is_shared_skipped_or_denied,
    a_denial_for_a_missing_key_part_charges_nothing,
    key_parts_are_separated,
    long_values_have_separate_keys,
    costs,
    tiers,
    spelling_variants_of_a_value_share_a_key,
    an_overflowing_cost_is_not_reduced,
    descriptors_of_several_tiers_must_fit_the_tightest,
    spelling_variants_of_a_tier_share_its_limit,
);
