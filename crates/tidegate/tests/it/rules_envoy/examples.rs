//! The files in `examples/rules/` load without warnings, and so do their conversions.

use std::path::Path;

use tidegate::rules::envoy::convert;
use tidegate::rules::parse;

use super::{domain, limits, matching_rule, matching_rule_name};

fn example(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/rules").join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn examples_and_their_conversions_have_no_warnings() {
    for file in ["envoy.yaml", "envoy-extended.yaml"] {
        let converted = convert(file, &example(file)).unwrap_or_else(|report| panic!("{report}"));
        assert_eq!(converted.report.warnings(), 0, "{}", converted.report);
        let native = parse(file, &converted.text).unwrap();
        // A limit of 0 causes a warning in a native file.
        let warnings =
            native.report.diagnostics().iter().filter(|diagnostic| diagnostic.code != "limit-zero");
        assert_eq!(warnings.count(), 0, "{}", native.report);
    }
}

#[test]
fn the_first_example_matches_its_comments() {
    let domain = domain(&example("envoy.yaml"));
    let cases: [(&[(&str, &str)], &str); 10] = [
        (&[("remote_address", "203.0.113.7")], "remote_address"),
        (&[("remote_address", "198.51.100.23")], "remote_address_198.51.100.23"),
        (&[("remote_address", "192.0.2.10")], ""),
        (&[("database", "users"), ("operation", "write")], "database_users/operation_write"),
        (&[("database", "users"), ("operation", "read")], "database_users/operation"),
        (&[("database", "users")], ""),
        (&[("database", "logs")], "database"),
        (&[("path", "/reports/2024")], "path_//reports//*"),
        (&[("api_key", "k")], "api_key"),
        (&[("customer_plan", "enterprise")], "customer_plan_enterprise"),
    ];
    for (descriptor, rule) in cases {
        assert_eq!(matching_rule_name(&domain, descriptor), rule, "{descriptor:?}");
    }
    let enterprise = matching_rule(&domain, &[("customer_plan", "enterprise")]).unwrap();
    assert_eq!(enterprise.replaces, [Box::<str>::from("customer")]);
    assert!(limits(enterprise).is_empty());
}
