//! The schema and the reader must know the same fields.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::schema;
use super::validator::validate;
use crate::rules::diagnostic::Report;
use crate::rules::yaml::{self, Node, NodeKind, Style};
use crate::rules::{envoy, parse};

fn parsed_schema() -> Value {
    serde_json::from_str(schema()).expect("the schema is JSON")
}

/// A file as an editor sees it.
fn as_json(text: &str) -> Option<(Node, Value)> {
    let mut report = Report::default();
    let file = report.add_source("file.yaml", text);
    let root = yaml::read(&mut report, file)?;
    let value = value_of(&root);
    Some((root, value))
}

fn value_of(node: &Node) -> Value {
    match &node.kind {
        NodeKind::Null => Value::Null,
        NodeKind::Seq(items) => items.iter().map(value_of).collect(),
        NodeKind::Map(fields) => {
            let fields = fields
                .iter()
                .map(|(key, value)| (key.text().unwrap_or_default().to_owned(), value_of(value)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        NodeKind::Scalar { text, style: Style::Quoted } => Value::String(text.to_string()),
        NodeKind::Scalar { text, style: Style::Plain } => match &**text {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            text => match text.parse::<i64>() {
                Ok(number) => number.into(),
                Err(_) => Value::String(text.to_owned()),
            },
        },
    }
}

fn files_in(directory: &str) -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    let entries = fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    paths.sort();
    assert!(!paths.is_empty());
    paths
}

/// An editor accepts every file that loads.
#[test]
fn files_that_load_match_the_schema() {
    let schema = parsed_schema();
    let mut seen = 0;
    for directory in ["tests/it/rules_file/valid", "tests/it/rules_file/warnings", "../../examples/rules"] {
        for path in files_in(directory) {
            let text = fs::read_to_string(&path).expect("a file");
            let (root, value) = as_json(&text).unwrap_or_else(|| panic!("{} is no YAML", path.display()));
            if envoy::is_envoy_file(&root) {
                continue;
            }
            seen += 1;
            parse("file.yaml", &text).unwrap_or_else(|report| panic!("{report}"));
            validate(&schema, &value).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
    }
    assert!(seen > 20, "{seen} files");
}

/// A file whose structure is wrong does not match the schema.
#[test]
fn files_that_do_not_match_the_schema_are_refused() {
    let schema = parsed_schema();
    let refused = |value: Value| assert!(validate(&schema, &value).is_err(), "{value}");
    let rule = |rule: Value| json!({ "domain": "api", "rules": [rule] });
    let valid = rule(json!({ "name": "a", "limit": "5 per minute" }));
    validate(&schema, &valid).expect("a rule");
    refused(json!([]));
    refused(json!({ "rules": [] }));
    refused(json!({ "domain": "api" }));
    refused(json!({ "domain": "api", "rules": [], "colour": "red" }));
    refused(json!({ "domain": "api", "rules": [], "apply": "some" }));
    refused(rule(json!({ "limit": "5 per minute" })));
    refused(rule(json!({ "name": "a" })));
    refused(rule(json!({ "name": "a", "limit": ["5 per minute"] })));
    refused(rule(json!({ "name": "a", "limit": "5 per minute", "limits": ["5 per minute"] })));
    refused(rule(
        json!({ "name": "a", "limit": "5 per minute", "match": {}, "entries": [{ "user": null }] }),
    ));
    refused(rule(
        json!({ "name": "a", "limit": "5 per minute", "match": { "user": { "prefix": "a", "regex": "b" } } }),
    ));
    refused(rule(json!({ "name": "a", "limit": "5 per minute", "match": { "user": null } })));
    refused(rule(json!({ "name": "a", "limit": "5 per minute", "missing": "ignore" })));
    refused(rule(json!({ "name": "a", "limit": "5 per minute", "cost": "much" })));
    refused(rule(json!({ "name": "a", "limit": "5 per minute", "on_store_failure": "closed" })));
    refused(rule(json!({ "name": "a", "limit": "5 per minute", "deny_cache": "off" })));
    refused(rule(json!({ "name": "a", "limit": "5 per minute", "mode": "exact" })));
    refused(rule(json!({ "name": "a", "limit": "5 per minute", "mode": "leased", "lease_time": 5 })));
    refused(rule(json!({ "name": "a", "limit": { "limit": -1, "per": "1m" } })));
    refused(rule(json!({ "name": "a", "limit": { "limit": 5, "per": "60" } })));
    refused(rule(json!({ "name": "a", "limit": { "limit": 5, "per": "1m", "algorithm": "bucket" } })));
    refused(rule(json!({ "name": "a", "limit": "5 per minute", "action": { "delay": {} } })));
    refused(rule(json!({ "name": "a", "limit": "5 per minute", "action": { "elastic": { "max": 9 } } })));
    refused(rule(json!({ "name": "a", "tiers": { "by": "plan", "plans": { "free": "5 per minute" } } })));
}

/// A file with an unknown field in place of `?`, and the schema's name for the mapping that contains it.
const CASES: [(&str, &str); 12] = [
    ("", "{ domain: d, rules: [], ? }"),
    ("rule", "{ domain: d, rules: [ { name: a, limit: 5 per minute, ? } ] }"),
    (
        "matcher",
        "{ domain: d, rules: [ { name: a, limit: 5 per minute, match: { a: { exists: true, ? } } } ] }",
    ),
    ("long_limit", "{ domain: d, rules: [ { name: a, limit: { limit: 5 per minute, ? } } ] }"),
    ("long_pool", "{ domain: d, rules: [], pools: { p: { limit: 5 per minute, ? } } }"),
    (
        "calendar",
        "{ domain: d, rules: [], pools: { p: { limit: 5 per day, algorithm: fixed_window, align: { ? } } } }",
    ),
    (
        "tiers",
        "{ domain: d, rules: [ { name: a, tiers: { by: p, plans: { f: 5 per day }, default: f, ? } } ] }",
    ),
    (
        "cost_attribute",
        "{ domain: d, rules: [ { name: a, limit: 5 per minute, cost: { attribute: a, ? } } ] }",
    ),
    (
        "delay",
        "{ domain: d, rules: [ { name: a, limit: 5 per minute, action: { delay: { max_wait: 5s, ? } } } ] }",
    ),
    (
        "soft",
        "{ domain: d, rules: [ { name: a, limit: 5 per minute, action: { soft: { margin: 5%, ? } } } ] }",
    ),
    (
        "elastic",
        "{ domain: d, rules: [ { name: a, limit: 5 per minute, action: { elastic: { max: 9, signal: s, ? } } } ] }",
    ),
    ("action", "{ domain: d, rules: [ { name: a, limit: 5 per minute, action: { ? } } ] }"),
];

/// The hint for an unknown field lists the fields that the reader knows.
#[test]
fn every_field_that_is_read_is_in_the_schema() {
    const UNKNOWN: &str = "a-field-that-does-not-exist";
    let schema = parsed_schema();
    for (definition, text) in CASES {
        let report = parse("file.yaml", &text.replace('?', &format!("{UNKNOWN}: 1"))).expect_err(definition);
        let diagnostic = report
            .diagnostics()
            .iter()
            .find(|diagnostic| diagnostic.message.contains(UNKNOWN))
            .expect(definition);
        let hint = diagnostic.hint.as_deref().unwrap_or_default();
        let (_, listed) = hint.split_once(": ").unwrap_or_else(|| panic!("{definition}: {hint}"));
        let read: BTreeSet<&str> = listed.split(", ").collect();
        assert_eq!(read, fields_of(&schema, definition), "{definition}");
    }
}

/// The fields of a definition. For actions, the words and the names of those with fields.
fn fields_of<'s>(schema: &'s Value, definition: &str) -> BTreeSet<&'s str> {
    let place = if definition.is_empty() { schema } else { &schema["$defs"][definition] };
    let Some(alternatives) = place.get("anyOf") else { return names(&place["properties"]) };
    let alternatives = alternatives.as_array().into_iter().flatten();
    alternatives
        .flat_map(|one| match one.get("enum") {
            Some(words) => words.as_array().into_iter().flatten().filter_map(Value::as_str).collect(),
            None => names(&one["properties"]),
        })
        .collect()
}

fn names(properties: &Value) -> BTreeSet<&str> {
    properties.as_object().expect("properties").keys().map(String::as_str).collect()
}

/// Every definition is used, and every property has a description.
#[test]
fn every_property_has_a_description() {
    let schema = parsed_schema();
    let definitions = schema["$defs"].as_object().expect("definitions");
    for (name, definition) in definitions {
        assert!(super::schema().contains(&format!("#/$defs/{name}\"")), "{name} is not used");
        for (field, property) in definition.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            let described = |value: &Value| value.get("description").is_some();
            let referred = || {
                let target =
                    property.get("$ref").and_then(Value::as_str).and_then(|name| name.rsplit('/').next());
                target.is_some_and(|target| described(&definitions[target]))
            };
            assert!(described(property) || referred(), "{name}.{field} has no description");
        }
    }
    for example in schema["examples"].as_array().expect("examples") {
        validate(&schema, example).expect("an example");
        parse("example.yaml", &example.to_string()).unwrap_or_else(|report| panic!("{report}"));
    }
}
