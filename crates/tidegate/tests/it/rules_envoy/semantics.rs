//! What a file means: which rule a descriptor finds, and what that rule contains.

use tidegate_core::LimitId;
use tidegate_core::rules::{Action, CostSource, KeyPart, Lookup};

use super::{domain, key_indexes, limit_texts, limits, load, matching_rule, matching_rule_name, rule};

#[test]
fn nested_descriptors_are_found_by_their_path() {
    let domain = domain(
        "
domain: mongo_cps
descriptors:
  - key: database
    value: users
    rate_limit: { unit: second, requests_per_unit: 500 }
    descriptors:
      - key: table
        rate_limit: { unit: MINUTE, requests_per_unit: 30 }
  - key: database
    rate_limit: { unit: Hour, requests_per_unit: 7 }
",
    );
    assert_eq!((&*domain.name, domain.lookup), ("mongo_cps", Lookup::DescriptorTree));
    assert_eq!(matching_rule_name(&domain, &[("database", "users")]), "database_users");
    assert_eq!(matching_rule_name(&domain, &[("database", "users"), ("table", "x")]), "database_users/table");
    assert_eq!(matching_rule_name(&domain, &[("database", "logs")]), "database");
    assert_eq!(matching_rule_name(&domain, &[("database", "logs"), ("table", "x")]), "");
    assert_eq!(matching_rule_name(&domain, &[("table", "x")]), "");

    let table = rule(&domain, "database_users/table");
    assert_eq!(limit_texts(table), ["{algorithm: fixed_window, limit: 30, per: 1m, count_denied: true}"]);
    assert_eq!(key_indexes(&limits(table)[0]), [0, 1], "values of the whole path");
    assert_eq!(limits(table)[0].action, Action::Reject);
    assert_eq!(limits(table)[0].cost, CostSource::Request);
}

#[test]
fn every_unit_has_its_length() {
    let units = ["second", "minute", "hour", "day", "week", "month", "year"];
    let windows = ["1s", "1m", "1h", "1d", "7d", "30d", "365d"];
    for (unit, window) in units.iter().zip(windows) {
        let domain = domain(&format!(
            "{{domain: d, descriptors: [{{key: k, rate_limit: {{unit: {unit}, requests_per_unit: 3}}}}]}}"
        ));
        let expected = format!("{{algorithm: fixed_window, limit: 3, per: {window}, count_denied: true}}");
        assert_eq!(limit_texts(rule(&domain, "k")), [expected]);
    }
}

#[test]
fn wildcards_are_tried_in_the_order_of_the_file() {
    let domain = domain(
        "
domain: files
descriptors:
  - { key: path, rate_limit: { unit: day, requests_per_unit: 1 } }
  - { key: path, value: /files/*, rate_limit: { unit: day, requests_per_unit: 2 } }
  - { key: path, value: /files/a*, rate_limit: { unit: day, requests_per_unit: 3 }, share_threshold: true }
  - { key: path, value: '*.pdf', rate_limit: { unit: day, requests_per_unit: 4 }, share_threshold: true }
  - { key: path, value: /files/abc, rate_limit: { unit: day, requests_per_unit: 5 } }
",
    );
    assert_eq!(matching_rule_name(&domain, &[("path", "/files/abc")]), "path_//files//abc");
    assert_eq!(matching_rule_name(&domain, &[("path", "/files/abcd")]), "path_//files//*");
    assert_eq!(matching_rule_name(&domain, &[("path", "/docs/x.pdf")]), "path_*.pdf");
    assert_eq!(matching_rule_name(&domain, &[("path", "/docs/x")]), "path");
    assert_eq!(key_indexes(&limits(rule(&domain, "path_//files//*"))[0]), [0], "each value by itself");
    assert_eq!(
        key_indexes(&limits(rule(&domain, "path_*.pdf"))[0]),
        [0; 0],
        "all that match share a counter"
    );
}

#[test]
fn a_shared_wildcard_above_is_left_out_of_the_key_below() {
    let domain = domain(
        "
domain: files
descriptors:
  - key: path
    value: /files/*
    share_threshold: yes
    descriptors:
      - { key: user, rate_limit: { unit: day, requests_per_unit: 2 } }
",
    );
    let user = matching_rule(&domain, &[("path", "/files/1"), ("user", "ann")]).unwrap();
    assert_eq!(&*user.name, "path_//files//*/user");
    assert_eq!(key_indexes(&limits(user)[0]), [1]);
}

#[test]
fn a_descriptor_without_a_limit_keeps_others_from_matching() {
    let domain = domain(
        "
domain: d
descriptors:
  - { key: user, value: root }
  - { key: user, value: ops, rate_limit: { unlimited: true } }
  - { key: user, value: bot, rate_limit: ~, descriptors: [] }
  - { key: user, rate_limit: { unit: second, requests_per_unit: 1 } }
",
    );
    assert_eq!(matching_rule_name(&domain, &[("user", "root")]), "");
    assert_eq!(matching_rule_name(&domain, &[("user", "bot")]), "");
    assert_eq!(matching_rule_name(&domain, &[("user", "ann")]), "user");
    let unlimited = matching_rule(&domain, &[("user", "ops")]).expect("an unlimited descriptor has a rule");
    assert!(limits(unlimited).is_empty());
}

#[test]
fn modes_are_actions() {
    let domain = domain(
        "
domain: d
descriptors:
  - { key: a, rate_limit: { unit: second, requests_per_unit: 1 }, shadow_mode: true }
  - { key: b, rate_limit: { unit: second, requests_per_unit: 1 }, quota_mode: true }
  - { key: c, rate_limit: { unit: second, requests_per_unit: 1 }, quota_mode: on, shadow_mode: y }
  - { key: d, rate_limit: { unit: second, requests_per_unit: 1 }, quota_mode: false, shadow_mode: no }
",
    );
    let action = |name: &str| limits(rule(&domain, name))[0].action.clone();
    assert_eq!(action("a"), Action::Shadow);
    assert_eq!(action("b"), Action::Quota);
    assert_eq!(action("c"), Action::Shadow, "what is never over has no quota to report");
    assert_eq!(action("d"), Action::Reject);
}

#[test]
fn replaces_applies_to_every_limit_of_that_name() {
    let loaded = load(
        "
domain: d
descriptors:
  - { key: a, rate_limit: { name: per user, unit: second, requests_per_unit: 5 } }
  - { key: b, rate_limit: { name: per user, unit: second, requests_per_unit: 5 } }
  - { key: c, rate_limit: { unlimited: true, replaces: [ { name: per user }, { name: nobody } ] } }
",
    )
    .unwrap();
    let domain = &loaded.domains[0];
    let replaced: Vec<&str> = rule(domain, "c").replaces.iter().map(|name| &**name).collect();
    assert_eq!(replaced, ["a", "b"]);
    assert_eq!(loaded.report.warnings(), 1, "no limit is called nobody");
    let named = &limits(rule(domain, "a"))[0];
    assert_eq!(named.limit.name(), Some("per user"));
    assert_eq!(named.was, Some(LimitId::Position(0)), "a limit that is given a name keeps its counters");
}

#[test]
fn metric_entries_are_those_that_vary() {
    let domain = domain(
        "
domain: d
descriptors:
  - key: a
    value: x
    value_to_metric: true
    descriptors:
      - key: b
        value_to_metric: true
        descriptors:
          - { key: c, rate_limit: { unit: second, requests_per_unit: 1 } }
          - { key: d, rate_limit: { unit: second, requests_per_unit: 1 }, detailed_metric: true }
  - key: s
    value: x*
    share_threshold: true
    descriptors:
      - { key: d, rate_limit: { unit: second, requests_per_unit: 1 }, detailed_metric: true }
",
    );
    assert_eq!(rule(&domain, "a_x/b/c").metric_entries, [1]);
    assert_eq!(rule(&domain, "a_x/b/d").metric_entries, [1, 2]);
    assert_eq!(rule(&domain, "s_x*/d").metric_entries, [1], "values that share a counter are not separated");
}

#[test]
fn keys_and_values_are_text_whatever_they_look_like() {
    let domain = domain(
        "
domain: 7
descriptors:
  - { key: 1, value: 2.5, rate_limit: { unit: second, requests_per_unit: 0x10 } }
  - { key: on, value: yes, rate_limit: { unit: second, requests_per_unit: 010 } }
  - { key: k, value: '', rate_limit: { unit: second, requests_per_unit: 1 } }
  - { key: ip, value: 10.0.0.1, rate_limit: { unit: second, requests_per_unit: 1 } }
",
    );
    assert_eq!(&*domain.name, "7");
    let first = matching_rule(&domain, &[("1", "2.5")]).unwrap();
    assert_eq!(limit_texts(first), ["{algorithm: fixed_window, limit: 16, per: 1s, count_denied: true}"]);
    let second = matching_rule(&domain, &[("on", "yes")]).unwrap();
    assert_eq!(limit_texts(second), ["{algorithm: fixed_window, limit: 8, per: 1s, count_denied: true}"]);
    assert_eq!(matching_rule_name(&domain, &[("k", "anything")]), "k", "an empty value is none");
    assert_eq!(matching_rule_name(&domain, &[("ip", "10.0.0.1")]), "ip_10.0.0.1");
    assert_eq!(matching_rule_name(&domain, &[("ip", "::ffff:10.0.0.1")]), "", "an address is text");
}

#[test]
fn empty_files_and_zero_limits_load() {
    let empty = domain("{domain: d, descriptors: []}");
    assert!(empty.rules.is_empty());
    let none =
        domain("{domain: d, descriptors: [{key: ban, rate_limit: {unit: day, requests_per_unit: 0}}]}");
    assert_eq!(
        limit_texts(rule(&none, "ban")),
        ["{algorithm: fixed_window, limit: 0, per: 1d, count_denied: true}"]
    );
}

#[test]
fn a_domain_is_one_file() {
    let directory = std::env::temp_dir().join(format!("tidegate-envoy-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let paths = ["one.yaml", "two.yaml"].map(|name| directory.join(name));
    for path in &paths {
        std::fs::write(path, "{domain: d, descriptors: [{key: k}]}").unwrap();
    }
    let report = tidegate::rules::load(&paths).unwrap_err();
    std::fs::remove_dir_all(&directory).unwrap();
    let [diagnostic] = report.diagnostics() else { panic!("{report}") };
    assert_eq!(diagnostic.code, "duplicate-domain");
}

#[test]
fn a_star_at_the_end_of_a_key_is_a_wildcard() {
    let domain = domain(
        "\
domain: d
descriptors:
  - key: tenant-*
    rate_limit: { unit: hour, requests_per_unit: 5 }
  - key: pool-*
    share_threshold: true
    rate_limit: { unit: hour, requests_per_unit: 5 }
  - key: literal*
    value: x
    rate_limit: { unit: hour, requests_per_unit: 5 }
",
    );
    assert_eq!(matching_rule_name(&domain, &[("tenant-1", "a")]), "tenant-*");
    assert_eq!(matching_rule_name(&domain, &[("literal-1", "x")]), "");
    // Each key and value has its own counter; with `share_threshold` each key.
    let parts = |name| limits(rule(&domain, name))[0].key.parts().to_vec();
    assert_eq!(parts("tenant-*"), [KeyPart::Entry(0), KeyPart::EntryName(0)]);
    assert_eq!(parts("pool-*"), [KeyPart::EntryName(0)]);
    assert_eq!(parts("literal*_x"), [KeyPart::Entry(0)]);
    let text = "{domain: d, descriptors: [{key: a*, rate_limit: {unit: day, requests_per_unit: 1}}]}";
    let report = tidegate::rules::envoy::convert("envoy.yaml", text).unwrap_err();
    assert_eq!(report.diagnostics()[0].code, "not-convertible");
}
