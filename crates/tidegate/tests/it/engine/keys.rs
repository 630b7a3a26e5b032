//! Whom a counter belongs to, and what a request costs.

use tidegate::rules::Fate::{Allowed, Denied};

use crate::engine::bench::Bench;
use crate::engine::setup::{Setup, over_each_store};

fn keyed(setup: Setup, rule: &str) -> Bench {
    setup.bench(&format!("{{ domain: api, rules: [ {{ name: a, {rule}, limit: 1 per minute }} ] }}"))
}

fn parts_of_the_path(setup: Setup) {
    let bench = keyed(setup, "match: { path: '/users/{id}/**' }, key: [path.id]");
    assert_eq!(bench.fates("path=/users/1", 2), [Allowed, Denied]);
    assert_eq!(bench.fates("path=/users/1/posts?page=2", 1), [Denied]);
    assert_eq!(bench.fates("path=/users/2/posts", 2), [Allowed, Denied]);
    let bench = keyed(setup, "key: [path.1]");
    assert_eq!(bench.fates("path=/a/b", 2), [Allowed, Denied]);
    assert_eq!(bench.fates("path=/c/b", 1), [Allowed]);
}

fn ipv6_by_prefix_and_mapped_ipv4_as_ipv4(setup: Setup) {
    let bench = keyed(setup, "key: [ip]");
    assert_eq!(bench.fates("ip=2001:db8::1", 2), [Allowed, Denied]);
    assert_eq!(bench.fates("ip=2001:db8::ffff:1", 1), [Denied]);
    assert_eq!(bench.fates("ip=2001:db8:0:1::1", 1), [Allowed]);
    assert_eq!(bench.fates("ip=192.0.2.1", 1), [Allowed]);
    assert_eq!(bench.fates("ip=::ffff:192.0.2.1", 1), [Denied]);
    let bench = keyed(setup, "key: [ip/48]");
    assert_eq!(bench.fates("ip=2001:db8::1", 1), [Allowed]);
    assert_eq!(bench.fates("ip=2001:db8:0:1::1", 1), [Denied]);
}

fn headers_are_named_in_any_case(setup: Setup) {
    let bench = keyed(setup, "match: { header.X-Plan: free }, key: [header.x-user]");
    assert_eq!(bench.fates("header.x-plan=free header.X-User=1", 2), [Allowed, Denied]);
    assert_eq!(bench.fates("header.X-PLAN=free header.x-user=1", 1), [Denied]);
    assert_eq!(bench.fates("header.x-plan=pro header.x-user=1", 2), [Allowed, Allowed]);
}

fn what_is_missing_is_shared_skipped_or_denied(setup: Setup) {
    let shared = keyed(setup, "key: [user]");
    assert_eq!(shared.fates("ip=192.0.2.1", 2), [Allowed, Denied]);
    assert_eq!(shared.fates("user=1", 1), [Allowed]);
    assert_eq!(
        keyed(setup, "key: [user], missing: skip").fates("ip=192.0.2.1", 3),
        [Allowed, Allowed, Allowed]
    );
    let deny = keyed(setup, "key: [user], missing: deny");
    let told = deny.ask("ip=192.0.2.1");
    assert_eq!((told.fate, told.retry_after_ms), (Denied, None));
    assert_eq!(deny.fates("user=1", 2), [Allowed, Denied]);
}

fn a_refusal_for_a_missing_part_charges_nothing(setup: Setup) {
    let bench = setup.bench(
        "
domain: api
rules:
  - { name: counting, limit: 9 per minute }
  - { name: strict, key: [user], missing: deny, limit: 9 per minute }
",
    );
    assert_eq!(bench.ask("ip=192.0.2.1").fate, Denied);
    assert_eq!(bench.peek("user=1").limits[0].2, 8);
}

fn parts_do_not_run_into_each_other(setup: Setup) {
    let bench = keyed(setup, "key: [a, b]");
    assert_eq!(bench.fates("a=xy b=z", 1), [Allowed]);
    assert_eq!(bench.fates("a=x b=yz", 1), [Allowed]);
    assert_eq!(bench.fates("b=z a=xy", 1), [Denied]);
}

fn long_values_are_told_apart(setup: Setup) {
    let bench = keyed(setup, "key: [user]");
    let (one, other) = ("x".repeat(100_000), "x".repeat(100_001));
    assert_eq!(bench.fates(&format!("user={one}"), 2), [Allowed, Denied]);
    assert_eq!(bench.fates(&format!("user={other}"), 1), [Allowed]);
}

fn costs(setup: Setup) {
    let bench = |cost: &str| {
        setup.bench(&format!(
            "{{ domain: api, rules: [ {{ name: a, key: [user], cost: {cost}, limit: 100 per minute }} ] }}"
        ))
    };
    assert_eq!(bench("7").ask_for("user=1", 3).remaining, 93);
    assert_eq!(bench("request").ask_for("user=1", 3).remaining, 97);
    let tokens = bench("{ attribute: tokens, default: 2 }");
    assert_eq!(tokens.ask("user=1 tokens=40").remaining, 60);
    assert_eq!(tokens.ask("user=1").remaining, 58);
    assert_eq!(tokens.ask("user=1 tokens=lots").remaining, 56);
    // Who asks for nothing only wants to know.
    assert_eq!(bench("7").ask_for("user=1", 0).remaining, 100);
}

fn tiers(setup: Setup) {
    let bench = setup.bench(
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
    assert_eq!(bench.passing("user=1 header.x-plan=free", 9), 2);
    assert_eq!(bench.passing("user=2 header.x-plan=pro", 9), 4);
    assert_eq!(bench.passing("user=3 header.x-plan=internal", 9), 9);
    assert_eq!(bench.passing("user=4 header.x-plan=gold", 9), 2);
    assert_eq!(bench.passing("user=5", 9), 2);
    // Who changes the plan keeps the share that was used.
    bench.ask("user=6 header.x-plan=free");
    assert_eq!(bench.passing("user=6 header.x-plan=pro", 9), 2);
}

fn nobody_comes_by_another_key_by_writing_a_value_in_another_way(setup: Setup) {
    let bench = keyed(setup, "key: [path]");
    assert_eq!(bench.fates("path=/p?x=1", 1), [Allowed]);
    assert_eq!(bench.fates("path=/p?x=2", 1), [Denied]);
    let bench = keyed(setup, "key: [host, method]");
    assert_eq!(bench.fates("host=example.org method=POST", 1), [Allowed]);
    assert_eq!(bench.fates("host=EXAMPLE.org method=post", 1), [Denied]);
    let long = "a".repeat(5000);
    assert_eq!(bench.fates(&format!("host={long} method=GET"), 1), [Allowed]);
    assert_eq!(bench.fates(&format!("host={} method=GET", long.to_uppercase()), 1), [Denied]);
}

fn a_cost_that_is_larger_than_any_number_is_not_had_for_less(setup: Setup) {
    let bench = setup.bench(
        "{ domain: api, rules: [ { name: a, cost: { attribute: tokens, default: 1 }, limit: 100 per minute } ] }",
    );
    assert_eq!(bench.ask("tokens=99999999999999999999999999").fate, Denied);
    assert_eq!(bench.ask("tokens=+5").remaining, 99);
}

fn descriptors_of_several_plans_have_to_fit_the_tightest(setup: Setup) {
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
    assert_eq!(setup.bench(file).ask_for("user=1 plan=pro; user=1", 2).fate, Denied);
    assert_eq!(setup.bench(file).ask_for("user=1; user=1 plan=pro", 2).fate, Denied);
    assert_eq!(setup.bench(file).ask_for("user=1 plan=pro; user=1", 1).remaining, 0);
}

fn nobody_gets_out_of_a_plan_by_writing_it_in_another_way(setup: Setup) {
    let bench = |by: &str, plan: &str| {
        setup.bench(&format!(
            "{{ domain: api, rules: [ {{ name: a, tiers: {{ by: {by}, plans: {{ {plan}: 1 per hour }}, default: unlimited }} }} ] }}"
        ))
    };
    assert_eq!(bench("method", "GET").fates("method=get", 2), [Allowed, Denied]);
    assert_eq!(bench("host", "X.org").fates("host=x.ORG", 2), [Allowed, Denied]);
    assert_eq!(bench("path", "/a").fates("path=/a?b", 2), [Allowed, Denied]);
    assert_eq!(bench("plan", "free").fates("plan=FREE", 2), [Allowed, Allowed]);
}

over_each_store!(
    parts_of_the_path,
    ipv6_by_prefix_and_mapped_ipv4_as_ipv4,
    headers_are_named_in_any_case,
    what_is_missing_is_shared_skipped_or_denied,
    a_refusal_for_a_missing_part_charges_nothing,
    parts_do_not_run_into_each_other,
    long_values_are_told_apart,
    costs,
    tiers,
    nobody_comes_by_another_key_by_writing_a_value_in_another_way,
    a_cost_that_is_larger_than_any_number_is_not_had_for_less,
    descriptors_of_several_plans_have_to_fit_the_tightest,
    nobody_gets_out_of_a_plan_by_writing_it_in_another_way,
);
