//! Files converted to native rules.

use proptest::prelude::*;
use tidegate::rules::envoy::{convert, convert_with};
use tidegate_core::rules::Domain;

use super::generators::escaped;
use super::{counting_none, domain, domain_counting_none};

/// The rules of the native file, without its header.
fn converted_rules(text: &str) -> String {
    let converted = convert("envoy.yaml", text).unwrap_or_else(|report| panic!("{report}"));
    let (head, rules) = converted.text.split_once("rules:").expect("a native file has rules");
    assert!(head.contains("\napply: first\n"), "{head}");
    rules.to_owned()
}

#[test]
fn store_settings_are_converted() {
    let rules = converted_rules(
        "
domain: d
descriptors:
  - key: k
    rate_limit: { unit: second, requests_per_unit: 5 }
    tidegate: { on_store_failure: allow, deny_cache: false }
",
    );
    let expected = "
  - name: k
    entries: [{ k: }]
    key: [k]
    limit: { algorithm: fixed_window, limit: 5, per: 1s, count_denied: true }
    on_store_failure: allow
    deny_cache: false
";
    assert_eq!(rules, expected);
}

#[test]
fn modes_are_converted() {
    let text = "
domain: d
descriptors:
  - key: leased
    rate_limit: { unit: second, requests_per_unit: 5 }
    tidegate: { mode: leased }
  - key: lease_time
    rate_limit: { unit: minute, requests_per_unit: 5 }
    tidegate: { mode: leased, lease_time: 1500ms }
  - key: eventual
    rate_limit: { unit: second, requests_per_unit: 5 }
    tidegate: { mode: eventual, sync_interval: 50ms, carry: false }
  - key: local
    rate_limit: { unit: second, requests_per_unit: 5 }
    tidegate: { mode: local }
";
    let converted =
        convert_with("envoy.yaml", text, counting_none()).unwrap_or_else(|report| panic!("{report}"));
    let (_, rules) = converted.text.split_once("rules:").unwrap();
    let expected = "
  - name: leased
    entries: [{ leased: }]
    key: [leased]
    limit: { algorithm: fixed_window, limit: 5, per: 1s }
    mode: leased
  - name: lease_time
    entries: [{ lease_time: }]
    key: [lease_time]
    limit: { algorithm: fixed_window, limit: 5, per: 1m }
    mode: leased
    lease_time: 1500ms
  - name: eventual
    entries: [{ eventual: }]
    key: [eventual]
    limit: { algorithm: fixed_window, limit: 5, per: 1s }
    mode: eventual
    sync_interval: 50ms
    carry: false
  - name: local
    entries: [{ local: }]
    key: [local]
    limit: { algorithm: fixed_window, limit: 5, per: 1s }
    mode: local
";
    assert_eq!(rules, expected);
    let modes = |domain: Domain| domain.rules.iter().map(|rule| rule.mode).collect::<Vec<_>>();
    assert_eq!(modes(domain(&converted.text)), modes(domain_counting_none(text)));
}

#[test]
fn nested_descriptors_become_rules_in_lookup_order() {
    let rules = converted_rules(
        "
domain: messaging
descriptors:
  - key: to_number
    rate_limit: { unit: day, requests_per_unit: 100 }
  - key: message_type
    value: marketing
    descriptors:
      - key: to_number
        value: '2061234567'
      - key: to_number
        rate_limit: { unit: day, requests_per_unit: 5, name: marketing }
        shadow_mode: true
  - key: message_type
    rate_limit: { unit: second, requests_per_unit: 50, replaces: [ { name: marketing } ] }
    metadata: { team: mail }
",
    );
    let expected = r#"
  - name: to_number
    entries: [{ to_number: }]
    key: [to_number]
    limit: { algorithm: fixed_window, limit: 100, per: 1d, count_denied: true }
  - name: message_type_marketing/to_number_2061234567/...
    entries: [{ message_type: marketing }, { to_number: "2061234567" }, "..."]
    limit: unlimited
  - name: message_type_marketing/to_number
    entries: [{ message_type: marketing }, { to_number: }]
    key: [to_number]
    action: shadow
    limit: { algorithm: fixed_window, limit: 5, per: 1d, count_denied: true, name: marketing }
  - name: message_type_marketing/...
    entries: [{ message_type: marketing }, "..."]
    limit: unlimited
  - name: message_type
    entries: [{ message_type: }]
    key: [message_type]
    limit: { algorithm: fixed_window, limit: 50, per: 1s, count_denied: true }
    replaces: [message_type_marketing/to_number]
    metadata: { team: mail }
"#;
    assert_eq!(rules, expected);
}

#[test]
fn the_search_is_ended_only_where_something_follows_that_could_match() {
    let rules = converted_rules(
        "
domain: d
descriptors:
  - { key: a, value: x, rate_limit: { unit: day, requests_per_unit: 1 } }
  - { key: a, value: 'y*', rate_limit: { unit: day, requests_per_unit: 2 } }
  - { key: a, rate_limit: { unit: day, requests_per_unit: 3 } }
  - { key: b, value: x }
  - key: b
    value: 'y*'
    descriptors: [ { key: c, rate_limit: { unit: day, requests_per_unit: 4 } } ]
  - key: b
    value: 'z*'
    descriptors: [ { key: c, rate_limit: { unit: day, requests_per_unit: 5 } } ]
",
    );
    assert!(!rules.contains("..."), "{rules}");
}

#[test]
fn unambiguous_key_parts_keep_their_names() {
    let rules = converted_rules(
        "
domain: d
descriptors:
  - key: ip
    descriptors:
      - key: user
        descriptors: [ { key: user, rate_limit: { unit: day, requests_per_unit: 1 } } ]
      - key: group
        value: a*
        share_threshold: true
        descriptors: [ { key: 'yes', rate_limit: { unit: day, requests_per_unit: 1 } } ]
",
    );
    assert!(rules.contains("key: [entry.1, entry.2, entry.3]\n"), "an address is text here: {rules}");
    assert!(rules.contains("key: [entry.1, \"yes\"]\n"), "{rules}");
}

#[test]
fn limits_state_only_their_differences() {
    let rules = converted_rules(
        "
domain: d
descriptors:
  - key: user
    rate_limit: { unit: day, requests_per_unit: 1 }
    tidegate:
      cost: 2
      action: { soft: { margin: 10% } }
      limits:
        - 5 per second burst 9
        - { limit: 7 per month, algorithm: fixed_window, align: { tz: Europe/Paris }, name: 'no', key: [], cost: 1, action: shadow }
",
    );
    let expected = r#"
  - name: user
    entries: [{ user: }]
    key: [user]
    cost: 2
    action: { soft: { margin: 10% } }
    limits:
      - { algorithm: fixed_window, limit: 1, per: 1d }
      - { algorithm: gcra, limit: 5, per: 1s, burst: 9 }
      - { algorithm: fixed_window, limit: 7, per: month, align: {tz: Europe/Paris}, name: "no", key: [], cost: 1, action: shadow }
"#;
    assert_eq!(rules, expected);
}

#[test]
fn names_too_long_for_native_rules_are_replaced() {
    let long = "x".repeat(300);
    let rules = converted_rules(&format!(
        "{{domain: d, descriptors: [{{key: a, value: {long}1, rate_limit: {{unit: day, requests_per_unit: 1}}}}, \
         {{key: a, value: {long}2, rate_limit: {{unit: day, requests_per_unit: 1}}}}]}}"
    ));
    assert_eq!(rules.matches("xxx~1\"\n").count(), 1, "{rules}");
    assert_eq!(rules.matches("xxx~2\"\n").count(), 1, "{rules}");
}

#[test]
fn files_without_native_equivalent_are_refused() {
    let domain = "x".repeat(129);
    let report =
        convert("envoy.yaml", &format!("{{domain: {domain}, descriptors: [{{key: k}}]}}")).unwrap_err();
    assert_eq!(report.diagnostics()[0].code, "not-convertible");
    let report = convert("api.yaml", "{domain: d, rules: [{name: all, limit: 5 per second}]}").unwrap_err();
    assert_eq!(report.diagnostics()[0].code, "not-an-envoy-file");
    let report = convert("envoy.yaml", "{domain: d, descriptors: [{}]}").unwrap_err();
    assert_eq!(report.diagnostics()[0].code, "missing-field");
}

#[test]
fn warnings_are_returned() {
    let converted = convert("envoy.yaml", "{domain: d, unit: day, descriptors: [{key: k}]}").unwrap();
    assert_eq!(converted.report.warnings(), 1);
    assert!(converted.text.ends_with("rules: []\n"));
}

proptest! {
    #![proptest_config(tidegate_testing::proptest_config(64))]
    #[test]
    fn text_survives_conversion(
        name in "[a\\PC:#'\"\\\\{}*&!|>%@` ,-]{1,6}",
        key in "[\\PC\n\t\r\\x00\\x1f\\x7f\u{85}\u{2028}\u{feff}:#'\"\\\\{}*&!|>%@` ,-]{0,6}k",
        value in "[\\PC\n\t\r\\x00\\x1f\\x7f\u{85}\u{2028}\u{feff}:#'\"\\\\{}*&!|>%@` ,-]{1,6}",
    ) {
        let (name, key, value) = (escaped(&format!("d{name}d")), escaped(&key), escaped(&value));
        let limit = "rate_limit: { unit: day, requests_per_unit: 1 }";
        let text = format!("domain: {name}\ndescriptors: [ {{ key: {key}, value: {value}, {limit} }} ]");
        let native = convert("envoy.yaml", &text).unwrap_or_else(|report| panic!("{report}"));
        let (native, envoy) = (domain(&native.text), domain(&text));
        prop_assert_eq!(&native.name, &envoy.name);
        prop_assert_eq!(&native.rules[0].entries, &envoy.rules[0].entries);
    }
}
