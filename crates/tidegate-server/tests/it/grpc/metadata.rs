//! The metadata of a file for envoyproxy/ratelimit in answers. The tests of `/json` have the same cases.

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::google::protobuf::Struct;
use envoy_types::pb::google::protobuf::value::Kind;
use serde_json::{Value, json};
use tidegate::rules::envoy::convert;

use crate::grpc::server::{Server, descriptor, request, send};

const RULES: &str = "
domain: api
descriptors:
  - key: all
    rate_limit: { unit: year, requests_per_unit: 100 }
    metadata:
      nothing: ~
      truth: yes
      lie: false
      whole: 3
      fraction: -1.5
      octal: 010
      text: blue
      number_text: '3'
      truth_text: \"true\"
      list: [ eu, 1, true, ~, [], { x: '1' } ]
      nested: { deep: { leaf: all, only_all: 1 }, empty: {} }
  - key: more
    rate_limit: { unit: year, requests_per_unit: 100 }
    metadata: { text: 7, list: [ more ], nested: { deep: { leaf: more, only_more: 2 }, empty: { x: z } }, new: {} }
  - { key: model, value: a, quota_mode: true, rate_limit: { unit: year, requests_per_unit: 1 }, metadata: { model: a, from: { a: 1 } } }
  - { key: model, value: b, quota_mode: true, rate_limit: { unit: year, requests_per_unit: 9 }, metadata: { model: b, from: { b: 1 } } }
  - { key: hard, rate_limit: { unit: year, requests_per_unit: 1 }, metadata: { hard: true } }
  - { key: two, rate_limit: { unit: year, requests_per_unit: 9 }, tidegate: { limits: [ 1 per day ] }, metadata: { two: 2 } }
";

/// The file, and what `convert` makes of it.
pub fn rules_in_both_languages() -> [String; 2] {
    let converted = convert("envoy.yaml", RULES).unwrap_or_else(|report| panic!("{report}"));
    [RULES.to_owned(), converted.text]
}

type Entry = (&'static str, &'static str);

/// Descriptors of one entry, request after request, and the metadata of each answer.
pub fn cases() -> Vec<(Vec<Entry>, Value)> {
    const ALL: Entry = ("all", "x");
    const MORE: Entry = ("more", "x");
    const QUOTA_A: Entry = ("model", "a");
    const QUOTA_B: Entry = ("model", "b");
    const HARD: Entry = ("hard", "x");
    const TWO: Entry = ("two", "x");
    let all = json!({
        "nothing": null, "truth": true, "lie": false, "whole": 3, "fraction": -1.5, "octal": 8, "text": "blue",
        "number_text": "3", "truth_text": "true", "list": ["eu", 1, true, null, [], { "x": "1" }],
        "nested": { "deep": { "leaf": "all", "only_all": 1 }, "empty": {} },
    });
    let mut all_first = all.clone();
    all_first["nested"] =
        json!({ "deep": { "leaf": "all", "only_all": 1, "only_more": 2 }, "empty": { "x": "z" } });
    all_first["new"] = json!({});
    let mut more_first = all_first.clone();
    more_first["nested"]["deep"]["leaf"] = json!("more");
    (more_first["text"], more_first["list"]) = (json!(7), json!(["more"]));
    vec![
        (vec![ALL], all),
        (vec![ALL, MORE], all_first),
        (vec![MORE, ALL], more_first),
        (vec![QUOTA_A, QUOTA_B], json!({ "model": "a", "from": { "a": 1, "b": 1 } })),
        // The first quota is exhausted now.
        (vec![QUOTA_A, QUOTA_B], json!({ "model": "b", "from": { "b": 1 } })),
        (vec![QUOTA_A], Value::Null),
        (vec![HARD], json!({ "hard": true })),
        (vec![HARD, QUOTA_B], json!({ "model": "b", "from": { "b": 1 } })),
        (vec![HARD], Value::Null),
        (vec![TWO], json!({ "two": 2 })),
        // Only the second limit denies.
        (vec![TWO], Value::Null),
    ]
}

/// Numbers as in the cases, although all of them are doubles.
fn as_json(kind: &Kind) -> Value {
    let value = |value: &envoy_types::pb::google::protobuf::Value| as_json(value.kind.as_ref().unwrap());
    match kind {
        Kind::NullValue(_) => Value::Null,
        Kind::BoolValue(truth) => json!(truth),
        Kind::NumberValue(number) => serde_json::from_str(&number.to_string()).unwrap(),
        Kind::StringValue(text) => json!(text),
        Kind::ListValue(list) => list.values.iter().map(value).collect(),
        Kind::StructValue(Struct { fields }) => {
            fields.iter().map(|(name, field)| (name.clone(), value(field))).collect()
        }
    }
}

#[tokio::test]
async fn metadata_keeps_its_types_and_merges() {
    for rules in rules_in_both_languages() {
        let mut client = Server::with_rules(&rules).await.client().await;
        for (entries, expected) in cases() {
            let descriptors: Vec<RateLimitDescriptor> =
                entries.iter().map(|entry| descriptor(&[*entry])).collect();
            let answer = send(&mut client, request(descriptors)).await;
            let dynamic = as_json(&Kind::StructValue(answer.dynamic_metadata.unwrap()));
            assert_eq!(dynamic["metadata"], expected, "{entries:?} {rules}");
        }
    }
}
