//! Names of keys: what is readable in them, and which of them share a slot.

use tidegate_core::Charge;
use tidegate_core::rules::{
    Action, Attribute, CostSource, Descriptor, Domain, Entry, KeyPart, KeySpec, OnMissingKey, Request, Rule,
    RuleLimit, RuleLimits, Ruleset,
};

use super::*;
use crate::redis::key_name::{hash_tag, key_name};

fn name_of(key: &[u8]) -> String {
    let counter = Counter::new("rule", 0, limit("1 per second"));
    let charge = Charge::new(key, &counter, 1);
    String::from_utf8(key_name("tg", &charge).to_vec()).unwrap()
}

fn entity_of(key: &[u8]) -> String {
    String::from_utf8(hash_tag(name_of(key).as_bytes()).to_vec()).unwrap()
}

/// The entity of the only limit of a rule with this key, for a request with these attributes.
fn entity_of_rule(parts: &[&str], entries: &[(&str, &str)]) -> String {
    let part = |name: &&str| match *name {
        "ip" => KeyPart::IP,
        name => KeyPart::Attribute(Attribute::from_name(name)),
    };
    let limit = RuleLimit {
        limit: limit("1 per second"),
        was: None,
        key: KeySpec::new(parts.iter().map(part)),
        missing: OnMissingKey::Shared,
        cost: CostSource::Request,
        action: Action::Reject,
    };
    let rule = Rule { name: "rule".into(), limits: RuleLimits::Same(vec![limit]), ..Rule::default() };
    let domain = Domain { name: "api".into(), rules: vec![rule], ..Domain::default() };
    let rules = Ruleset::compile(vec![domain]).unwrap();
    let entries: Vec<Entry> = entries.iter().map(|(key, value)| Entry { key, value }).collect();
    let request = Request { domain: "api", descriptors: &[Descriptor::new(&entries, 1)] };
    let matched = rules.matched_limits(&request);
    let draft = matched.plan(&rules, Timestamp::from_nanos(0)).unwrap();
    let name = key_name("tg", &draft.plan.charges()[0]);
    String::from_utf8(hash_tag(&name).to_vec()).unwrap()
}

#[test]
fn a_name_is_short_and_shows_its_entity() {
    assert_eq!(name_of(b"user:42").len(), "tg:1{user:42}".len() + 11);
    assert!(name_of(b"user:42").starts_with("tg:1{user:42}"));
    for shown in ["192.0.2.1", "a@example.org", "2001:db8::1", "A/b,c=d+e-f_".trim_end_matches('_')] {
        assert_eq!(entity_of(shown.as_bytes()), shown);
    }
    assert_eq!(entity_of(b""), "*");
}

/// 128 bits of SHA-256 of the whole entity. The first bytes for "abc{" are from `sha256sum`.
#[test]
fn long_or_unusual_entities_are_hashed() {
    for hashed in
        ["x{y", "x}y", "*", "#", "a|b", "a!", "white space", "24 bytes and one more....", "caf\u{e9}"]
    {
        let entity = entity_of(hashed.as_bytes());
        assert!(entity.starts_with('#') && entity.len() == 23, "{hashed}: {entity}");
    }
    assert_eq!(entity_of(b"abc{"), "#V3elxMtiaT6hczSvCSl37Q");
    assert_ne!(entity_of(&[7; 30]), entity_of(&[7; 31]));
}

#[test]
fn limits_of_one_entity_share_a_slot_and_nothing_else() {
    let name = |rule: &str, key: &[u8]| {
        let counter = Counter::new(rule, 0, limit("1 per second"));
        key_name("tg", &Charge::new(key, &counter, 1))
    };
    for key in [b"42".as_slice(), &[0; 40], b""] {
        assert_eq!(hash_tag(&name("a", key)), hash_tag(&name("b", key)));
        assert_ne!(name("a", key), name("b", key));
    }
    assert_ne!(hash_tag(&name("a", b"42")), hash_tag(&name("a", b"43")));
    // As Redis does: the first pair of braces with anything between them, or else the whole name.
    assert_eq!(hash_tag(b"a{b}c{d}"), b"b");
    assert_eq!(hash_tag(b"a{}c"), b"a{}c");
    assert_eq!(hash_tag(b"a{c"), b"a{c");
}

#[test]
fn keys_of_rules_are_shown_value_by_value() {
    assert_eq!(entity_of_rule(&["user"], &[("user", "42")]), "42");
    assert_eq!(
        entity_of_rule(&["user", "ip"], &[("user", "42"), ("ip", "::ffff:192.0.2.1")]),
        "42|192.0.2.1"
    );
    assert_eq!(entity_of_rule(&["ip"], &[("ip", "2001:db8:0:1:2:3:4:5")]), "2001:db8:0:1::");
    assert_eq!(entity_of_rule(&["user", "plan"], &[("user", "42")]), "!|42");
    assert_eq!(entity_of_rule(&[], &[("user", "42")]), "*");
    // Values that contain the separator must not look like two values.
    assert_ne!(
        entity_of_rule(&["a", "b"], &[("a", "x|y"), ("b", "z")]),
        entity_of_rule(&["a", "b"], &[("a", "x"), ("b", "y|z")])
    );
    for hidden in [("user", ""), ("user", "24 bytes and one more...."), ("path", "/a{b}")] {
        assert!(entity_of_rule(&[hidden.0], &[hidden]).starts_with('#'), "{hidden:?}");
    }
}

#[test]
fn secrets_are_not_shown() {
    for name in
        ["header.authorization", "header.x-plan", "api_key", "Token", "password", "session-id", "cookie"]
    {
        assert!(entity_of_rule(&[name], &[(name, "42")]).starts_with('#'), "{name}");
        assert!(entity_of_rule(&[name, "user"], &[(name, "42"), ("user", "7")]).starts_with('#'), "{name}");
    }
    for name in ["user", "plan", "method", "host", "tenant"] {
        assert_eq!(entity_of_rule(&[name], &[(name, "42")]), "42", "{name}");
    }
}
