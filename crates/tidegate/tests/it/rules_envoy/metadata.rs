//! Metadata keeps its types, in both languages and in conversion.

use proptest::prelude::*;
use tidegate::rules::envoy::convert;
use tidegate_core::rules::{Domain, Metadata, MetadataValue};

use super::generators::escaped;
use super::{domain, load, rule};

#[test]
fn metadata_is_kept() {
    let domain = domain(
        "
domain: d
descriptors:
  - key: a
    rate_limit: { unit: second, requests_per_unit: 1 }
    metadata: { service: blue, weight: 3, zones: [ eu, 1, true, ~ ], more: { x: '1' } }
",
    );
    let text = |text: &str| MetadataValue::Text(text.into());
    let number = MetadataValue::Number;
    let zones = vec![text("eu"), number(1.0), MetadataValue::Boolean(true), MetadataValue::Null];
    let expected = Metadata::new([
        ("service".into(), text("blue")),
        ("weight".into(), number(3.0)),
        ("zones".into(), MetadataValue::List(zones)),
        ("more".into(), MetadataValue::Object(Metadata::new([("x".into(), text("1"))]))),
    ]);
    assert_eq!(rule(&domain, "a").metadata, expected);
}

/// Words and numbers are those of YAML 1.1 in a file for envoyproxy/ratelimit, and of YAML 1.2 in a native one.
#[test]
fn scalars_of_metadata_in_both_languages() {
    let text = |text: &str| MetadataValue::Text(text.into());
    let (number, truth) = (MetadataValue::Number, MetadataValue::Boolean(true));
    let cases = [
        ("true", truth.clone(), truth.clone()),
        ("'true'", text("true"), text("true")),
        ("yes", truth, text("yes")),
        ("12", number(12.0), number(12.0)),
        ("-1.5e3", number(-1500.0), number(-1500.0)),
        ("010", number(8.0), number(10.0)),
        ("0x10", number(16.0), text("0x10")),
        ("1_000", number(1000.0), text("1_000")),
        (".inf", text(".inf"), text(".inf")),
        ("1.2.3", text("1.2.3"), text("1.2.3")),
        ("'12'", text("12"), text("12")),
        ("NULL", MetadataValue::Null, MetadataValue::Null),
    ];
    for (scalar, in_envoy, in_native) in cases {
        let envoy = domain(&format!(
            "domain: d\ndescriptors: [ {{ key: a, rate_limit: {{ unit: day, requests_per_unit: 1 }}, metadata: {{ x: {scalar} }} }} ]"
        ));
        let native = domain(&format!(
            "domain: d\nrules: [ {{ name: a, limit: 1 per day, metadata: {{ x: {scalar} }} }} ]"
        ));
        let value = |domain: &Domain| domain.rules[0].metadata.iter().next().unwrap().1.clone();
        assert_eq!((value(&envoy), value(&native)), (in_envoy, in_native), "{scalar}");
    }
}

#[test]
fn metadata_is_bounded_in_values_and_depth() {
    let file = |metadata: &str| {
        format!(
            "domain: d\ndescriptors: [ {{ key: a, rate_limit: {{ unit: day, requests_per_unit: 1 }}, metadata: {metadata} }} ]"
        )
    };
    let list = |values: usize| format!("{{ x: [{}] }}", vec!["1"; values].join(", "));
    let nested = |depth: usize| format!("{}1{}", "{ x: ".repeat(depth), " }".repeat(depth));
    // The list is a value too.
    domain(&file(&list(Metadata::VALUES_MAX - 1)));
    domain(&file(&nested(Metadata::DEPTH_MAX)));
    for (metadata, code) in
        [(list(Metadata::VALUES_MAX), "too-many-values"), (nested(Metadata::DEPTH_MAX + 1), "too-deep")]
    {
        let report = load(&file(&metadata)).unwrap_err().to_string();
        assert!(report.contains(code), "{report}");
    }
}

fn random_value() -> impl Strategy<Value = MetadataValue> {
    let number = prop_oneof![
        any::<i32>().prop_map(f64::from),
        any::<u64>().prop_map(f64::from_bits).prop_filter("finite", |number| number.is_finite()),
    ];
    let text = prop_oneof![
        prop::sample::select(vec![
            "", "yes", "true", "null", "~", "1", "-1", "0x1", "1e3", ".5", ".inf", "_1", "[]"
        ])
        .prop_map(str::to_owned),
        "[\\PC\n\t:#'\"\\\\{}*&!|>%@` ,-]{0,6}",
    ];
    let leaf = prop_oneof![
        Just(MetadataValue::Null),
        any::<bool>().prop_map(MetadataValue::Boolean),
        number.prop_map(MetadataValue::Number),
        text.prop_map(|text| MetadataValue::Text(text.into())),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(MetadataValue::List),
            random_metadata(inner).prop_map(MetadataValue::Object),
        ]
    })
}

fn random_metadata(value: impl Strategy<Value = MetadataValue>) -> impl Strategy<Value = Metadata> {
    let name = "[a-z0-9:{ ]{0,4}".prop_map(Box::from);
    prop::collection::btree_map(name, value, 0..4).prop_map(Metadata::new)
}

fn metadata_text(metadata: &Metadata) -> String {
    let field = |(name, value): (&str, &MetadataValue)| format!("{}: {}", escaped(name), value_text(value));
    format!("{{ {} }}", metadata.iter().map(field).collect::<Vec<_>>().join(", "))
}

fn value_text(value: &MetadataValue) -> String {
    match value {
        MetadataValue::Null => "~".to_owned(),
        MetadataValue::Boolean(true) => "yes".to_owned(),
        MetadataValue::Boolean(false) => "off".to_owned(),
        MetadataValue::Number(number) => format!("{number:?}"),
        MetadataValue::Text(text) => escaped(text),
        MetadataValue::List(values) => {
            format!("[ {} ]", values.iter().map(value_text).collect::<Vec<_>>().join(", "))
        }
        MetadataValue::Object(object) => metadata_text(object),
    }
}

proptest! {
    #![proptest_config(tidegate_testing::proptest_config(256))]
    #[test]
    fn metadata_survives_conversion(metadata in random_metadata(random_value())) {
        let text = format!(
            "domain: d\ndescriptors: [ {{ key: k, rate_limit: {{ unit: day, requests_per_unit: 1 }}, metadata: {} }} ]",
            metadata_text(&metadata),
        );
        let native = convert("envoy.yaml", &text).unwrap_or_else(|report| panic!("{report}"));
        let (native, envoy) = (domain(&native.text), domain(&text));
        prop_assert_eq!(&envoy.rules[0].metadata, &metadata);
        prop_assert_eq!(&native.rules[0].metadata, &metadata);
    }
}
