//! The extension `tidegate` of a descriptor.

use tidegate_core::Nanos;
use tidegate_core::rules::{Action, Attribute, CostSource, KeyPart};
use tidegate_core::{Carry, DenyCache, LimitId, OnStoreFailure, RuleMode};

use super::{
    domain, domain_counting_none, key_indexes, limit_texts, limits, load, load_counting_none, matching_rule,
    rule,
};

/// The limits of a descriptor with these fields.
fn limit_texts_with(fields: &str) -> Vec<String> {
    let domain = domain(&format!("domain: d\ndescriptors: [ {{ key: k, {fields} }} ]"));
    limit_texts(rule(&domain, "k"))
}

#[test]
fn options_change_the_limit() {
    let cases = [
        (
            "unit: second",
            "count_denied: true",
            "{algorithm: fixed_window, limit: 9, per: 1s, count_denied: true}",
        ),
        ("unit: second", "count_denied: false", "{algorithm: fixed_window, limit: 9, per: 1s}"),
        (
            "unit: second",
            "count_denied: if_over",
            "{algorithm: fixed_window, limit: 9, per: 1s, count_denied: if_over}",
        ),
        ("unit: second", "action: { soft: { margin: 10% } }", "{algorithm: fixed_window, limit: 9, per: 1s}"),
        ("unit: second", "algorithm: gcra, burst: 20", "{algorithm: gcra, limit: 9, per: 1s, burst: 20}"),
        ("unit: minute", "algorithm: token_bucket", "{algorithm: token_bucket, limit: 9, per: 1m}"),
        (
            "unit: minute",
            "algorithm: leaky_bucket, queue: 3",
            "{algorithm: leaky_bucket, limit: 9, per: 1m, queue: 3}",
        ),
        ("unit: hour", "algorithm: sliding_window", "{algorithm: sliding_window, limit: 9, per: 1h}"),
        (
            "unit: hour",
            "algorithm: sliding_log, min_interval: 2s",
            "{algorithm: sliding_log, limit: 9, per: 1h, min_interval: 2s}",
        ),
        (
            "unit: hour",
            "algorithm: sub_windows, sub_windows: 6, strict: false",
            "{algorithm: sub_windows, limit: 9, per: 1h, sub_windows: 6, strict: false}",
        ),
        ("name: x", "per: 90s", "{algorithm: fixed_window, limit: 9, per: 90s, count_denied: true, name: x}"),
        (
            "unit: day",
            "align: first_hit, name: y",
            "{algorithm: fixed_window, limit: 9, per: 1d, align: first_hit, count_denied: true, name: y}",
        ),
        (
            "unit: month",
            "align: { tz: Europe/Paris }",
            "{algorithm: fixed_window, limit: 9, per: month, align: {tz: Europe/Paris}, count_denied: true}",
        ),
    ];
    for (of_rate_limit, of_extension, expected) in cases {
        let fields = format!(
            "rate_limit: {{ requests_per_unit: 9, {of_rate_limit} }}, tidegate: {{ {of_extension} }}"
        );
        assert_eq!(limit_texts_with(&fields), [expected], "{fields}");
    }
}

#[test]
fn further_limits_have_the_same_key_unless_they_say_otherwise() {
    let domain = domain(
        "
domain: d
descriptors:
  - key: tenant
    descriptors:
      - key: user
        rate_limit: { name: burst, unit: second, requests_per_unit: 5 }
        tidegate:
          limits:
            - 100 per minute
            - { limit: 1000, per: day, algorithm: sliding_window, name: daily, key: [ entry.1 ] }
",
    );
    let user = matching_rule(&domain, &[("tenant", "t"), ("user", "u")]).unwrap();
    assert_eq!(
        limit_texts(user),
        [
            "{algorithm: fixed_window, limit: 5, per: 1s, count_denied: true, name: burst}",
            "{algorithm: gcra, limit: 100, per: 1m}",
            "{algorithm: sliding_window, limit: 1000, per: 1d, name: daily}",
        ]
    );
    let keys: Vec<_> = limits(user).iter().map(key_indexes).collect();
    assert_eq!(keys, [vec![0, 1], vec![0, 1], vec![0]]);
    assert_eq!(limits(user)[0].was, Some(LimitId::Position(0)));
    assert_eq!(limits(user)[1].was, None);
}

#[test]
fn limits_need_no_rate_limit() {
    assert_eq!(
        limit_texts_with("tidegate: { limits: [ 5 per second, 90 per minute burst 10 ] }"),
        ["{algorithm: gcra, limit: 5, per: 1s}", "{algorithm: gcra, limit: 90, per: 1m, burst: 10}"]
    );
    assert_eq!(
        limit_texts_with("rate_limit: ~, tidegate: { limits: 5 per second }"),
        ["{algorithm: gcra, limit: 5, per: 1s}"]
    );
}

#[test]
fn settings_apply_to_all_limits() {
    let domain = domain(
        "
domain: d
descriptors:
  - key: k
    rate_limit: { unit: second, requests_per_unit: 5 }
    tidegate:
      action: { delay: { max_wait: 2s } }
      cost: { attribute: tokens, default: 7 }
      limits: [ 100 per minute, { limit: 7 per day, action: shadow, cost: 2 } ]
  - key: shadow
    rate_limit: { unit: second, requests_per_unit: 5 }
    shadow_mode: true
    tidegate: { limits: [ 100 per minute, { limit: 7 per day, action: reject } ] }
  - key: keyed
    rate_limit: { unit: second, requests_per_unit: 5 }
    tidegate: { key: [] }
",
    );
    let tokens = CostSource::Attribute { attribute: Attribute::from_name("tokens"), default: 7 };
    let delay = Action::Delay { max_wait: Nanos::new(2_000_000_000) };
    let [first, second, third] = limits(rule(&domain, "k")) else { panic!() };
    assert_eq!((&first.cost, &first.action), (&tokens, &delay));
    assert_eq!((&second.cost, &second.action), (&tokens, &delay));
    assert_eq!((&third.cost, &third.action), (&CostSource::Fixed(2), &Action::Shadow));
    let actions: Vec<_> = limits(rule(&domain, "shadow")).iter().map(|limit| limit.action.clone()).collect();
    assert_eq!(actions, [Action::Shadow, Action::Shadow, Action::Reject]);
    assert_eq!(limits(rule(&domain, "keyed"))[0].key.parts(), &[] as &[KeyPart]);
}

#[test]
fn a_descriptor_sets_on_store_failure() {
    let domain = domain(
        "
domain: d
descriptors:
  - key: plain
    rate_limit: { unit: second, requests_per_unit: 5 }
  - key: deny
    rate_limit: { unit: second, requests_per_unit: 5 }
    tidegate: { on_store_failure: deny, deny_cache: false }
  - key: alone
    tidegate: { on_store_failure: allow, limits: [ 5 per second ] }
",
    );
    let store_settings = |name| {
        let rule = rule(&domain, name);
        (rule.on_store_failure, rule.deny_cache)
    };
    assert_eq!(store_settings("plain"), (None, DenyCache::On));
    assert_eq!(store_settings("deny"), (Some(OnStoreFailure::Deny), DenyCache::Off));
    assert_eq!(store_settings("alone"), (Some(OnStoreFailure::Allow), DenyCache::On));
}

#[test]
fn a_descriptor_sets_the_mode() {
    let file = "
domain: d
descriptors:
  - key: plain
    rate_limit: { unit: second, requests_per_unit: 5 }
  - key: leased
    rate_limit: { unit: second, requests_per_unit: 5 }
    tidegate: { mode: leased, lease_time: 20ms, limits: [ 90 per minute ] }
  - key: alone
    tidegate: { mode: eventual, carry: false, limits: [ 5 per second ] }
";
    let counting_none = domain_counting_none(file);
    assert_eq!(rule(&counting_none, "plain").mode, RuleMode::Strict);
    let lease_us = std::num::NonZeroU32::new(20_000);
    assert_eq!(rule(&counting_none, "leased").mode, RuleMode::Leased { lease_us });
    let eventual = RuleMode::Eventual { sync_us: None, carry: Carry::Off };
    assert_eq!(rule(&counting_none, "alone").mode, eventual);
    assert_eq!(load(file).unwrap_err().errors(), 2, "not if denied requests are counted");
    let counted = file.replace("mode: leased", "mode: leased, count_denied: true");
    let report = load_counting_none(&counted).unwrap_err().to_string();
    assert!(report.contains("`mode: leased` cannot count denied requests"), "{report}");
}
