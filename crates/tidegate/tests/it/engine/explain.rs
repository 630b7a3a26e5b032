//! Why a request gets its answer.

use crate::engine::fixture::with_request;
use crate::engine::setup::{Setup, over_each_store};

const FILE: &str = "
domain: api
rules:
  - name: login
    match: { method: POST, path: /login }
    limits:
      - { key: [user, ip], limit: 2 per minute, algorithm: fixed_window, name: pair }
      - { key: [ip], limit: 50 per hour }
  - { name: reads, match: { method: GET }, limit: 10 per second }
  - { name: old, limit: 1 per minute }
  - { name: new, match: { path: { prefix: /log } }, limit: unlimited, replaces: [old] }
";

fn as_text(setup: Setup) {
    let fixture = setup.fixture(FILE);
    let request = "method=POST path=/login user=alice ip=2001:db8::1";
    fixture.count_passing(request, 2);
    let text = fixture.explain(request);
    let expected = "\
descriptor 1: method=POST path=/login user=alice ip=2001:db8::1
  rule login: applies
    limit {algorithm: fixed_window, limit: 2, per: 1m, name: pair}, key user=alice ip=2001:db8::/64, cost 1, action reject: denied, 0 remaining, retry after 60s, reset after 60s
      admits at most 4 in any 1m, around the end of a window; 2 in each window
    limit {algorithm: gcra, limit: 50, per: 1h}, key ip=2001:db8::/64, cost 1, action reject: allowed, 48 remaining, reset after 144s
      admits at most 99 in any 1h: 50 at once and 49 more within 58.8m
  rule reads: does not match: method is POST, not GET
  rule old: matches, but new replaces it
  rule new: applies, and limits nothing
decision: denied by login/pair, 0 remaining, retry after 60s
";
    assert_eq!(text, expected);
    assert_eq!(fixture.peek(request).limits[1].2, 48, "explaining charges nothing");
}

fn as_json(setup: Setup) {
    let fixture = setup.fixture(FILE);
    let json = with_request("method=GET path=/x", 1, |request| {
        fixture.setup.explain(&fixture.engine, request, |explanation| explanation.to_json())
    });
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["decision"]["decision"], "allowed");
    assert_eq!(json["decision"]["rule"], "old");
    assert_eq!(json["decision"]["remaining"], 0);
    assert_eq!(json["descriptors"][0]["rules"][0]["mismatch"], "method is GET, not POST");
    assert_eq!(json["descriptors"][0]["rules"][1]["limits"][0]["remaining"], 9);
}

fn an_unknown_domain(setup: Setup) {
    let fixture = setup.fixture("{ domain: other, rules: [ { name: a, limit: 1 per minute } ] }");
    let text = fixture.explain("user=1");
    assert_eq!(
        text,
        "domain api: has no rules, so nothing is limited\ndescriptor 1: user=1\ndecision: allowed\n"
    );
}

fn many_rules_are_cut(setup: Setup) {
    let rules: String = (0..1500)
        .map(|n| format!("  - {{ name: r{n}, match: {{ user: u{n} }}, limit: 1 per minute }}\n"))
        .collect();
    let fixture = setup.fixture(&format!("domain: api\nrules:\n{rules}"));
    let text = fixture.explain("user=u1400");
    assert!(text.contains("rule r1400: applies"));
    assert!(text.contains("and 499 more rules that do not apply"));
}

fn values_are_escaped(setup: Setup) {
    let fixture = setup.fixture("{ domain: api, rules: [ { name: a, key: [user], limit: 1 per minute } ] }");
    let entries = [tidegate::rules::Entry { key: "user", value: "\u{1b}[31m a ip=1.2.3.4" }];
    let descriptors = [tidegate::rules::Descriptor::new(&entries, 1)];
    let request = tidegate::rules::Request { domain: "api", descriptors: &descriptors };
    let text = fixture.setup.explain(&fixture.engine, &request, |explanation| explanation.to_string());
    assert!(text.starts_with("descriptor 1: user=\"\\u{1b}[31m a ip=1.2.3.4\"\n"), "{text}");
    assert!(!text.contains('\u{1b}'));
}

over_each_store!(as_text, as_json, an_unknown_domain, many_rules_are_cut, values_are_escaped,);
