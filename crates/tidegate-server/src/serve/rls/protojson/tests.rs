//! Valid requests, errors, and responses.

use tidegate::rules::{LimitId, Metadata, MetadataValue};
use tidegate_core::rules::{RequestLimit, TimeUnit};

use super::scalars::WholeNumber;
use super::*;
use crate::serve::rls::{
    CurrentLimit, DescriptorStatus, DynamicMetadata, Header, Overall, RlsCode, RlsResponse, RlsUnit,
};

fn list_of_all_types() -> MetadataValue {
    use MetadataValue::{Boolean, List, Null, Number, Object, Text};
    let inner = Metadata::new([("x".into(), List(vec![Boolean(true)]))]);
    List(vec![
        Null,
        Boolean(false),
        Number(0.0),
        Number(-1.5),
        Text("".into()),
        List(vec![]),
        Object(Metadata::default()),
        Object(inner),
    ])
}

#[track_caller]
fn assert_same(one: &str, other: &str) {
    assert_eq!(super::read(one.as_bytes()), super::read(other.as_bytes()));
    assert!(super::read(one.as_bytes()).is_ok(), "{:?}", super::read(one.as_bytes()));
}

#[track_caller]
fn assert_rejected(json: &str, message: &str) {
    let error = super::read(json.as_bytes()).expect_err(json).to_string();
    assert!(error.starts_with("line 1, column ") && error.contains(message), "{json}\n{error}");
}

#[test]
fn every_field() {
    let json = br#"{"domain": "api", "hitsAddend": 2, "descriptors": [
        {"entries": [{"key": "user", "value": "42"}, {"key": "day"}], "hitsAddend": "0"},
        {"entries": [], "limit": {"requestsPerUnit": 10, "unit": "WEEK"}, "isNegativeHits": true}]}"#;
    let read = super::read(json).unwrap();
    let request = read.to_request().unwrap();
    assert_eq!(request.domain(), "api");
    let [first, second] = request.descriptors() else { panic!("{request:?}") };
    assert_eq!(
        request.entries_of(first),
        [Entry { key: "user", value: "42" }, Entry { key: "day", value: "" }]
    );
    assert_eq!((first.hits_addend, request.hits_of(first), first.hits), (Some(0), 0, HitsMode::Charge));
    assert_eq!((request.hits_of(second), second.hits), (2, HitsMode::Refund));
    assert_eq!(second.limit, Some(RequestLimit { units: 10, per: TimeUnit::Week }));
}

#[test]
fn alternative_spellings() {
    let with_field =
        |inner: &str| format!(r#"{{"domain": "api", "descriptors": [{{"entries": [], {inner}}}]}}"#);
    for other in ["7.0", "\"7\"", "7e0"] {
        assert_same(&with_field(r#""hits_addend": 7"#), &with_field(&format!(r#""hitsAddend": {other}"#)));
    }
    for unit in ["5", "\"MONTH\""] {
        let limit = format!(r#""limit": {{"requests_per_unit": "3", "unit": {unit}}}"#);
        assert_same(&with_field(r#""limit": {"unit": "MONTH", "requestsPerUnit": 3}"#), &with_field(&limit));
    }
    assert_same(&with_field(r#""is_negative_hits": true"#), &with_field(r#""isNegativeHits": true"#));
    assert_same(
        &with_field(r#""isNegativeHits": false"#),
        &with_field(r#""limit": null, "hitsAddend": null"#),
    );
    assert_same("{}", r#"{"domain": null, "descriptors": null, "hitsAddend": null}"#);
    let max = format!(r#""hitsAddend": "{}""#, u64::MAX);
    assert_eq!(
        super::read(with_field(&max).as_bytes()).unwrap().descriptors[0].hits_addend,
        Some(WholeNumber(u64::MAX))
    );
}

#[test]
fn errors_have_a_location() {
    let descriptor = |inner: &str| format!(r#"{{"domain": "a", "descriptors": [{{{inner}}}]}}"#);
    let cases = [
        (
            r#"{"domains": "a"}"#.to_owned(),
            "line 1, column 10: unknown field `domains`, expected one of `domain`, `descriptors`, `hitsAddend`",
        ),
        (descriptor(r#""cost": 1"#), ": unknown field `cost`, expected one of `entries`, "),
        (r#"{"domain": "a", "domain": "b"}"#.to_owned(), ": duplicate field `domain`"),
        (descriptor(r#""hitsAddend": 1, "hits_addend": 1"#), ": duplicate field `hitsAddend`"),
        (
            descriptor(r#""limit": {"unit": "FORTNIGHT"}"#),
            ": invalid value: string \"FORTNIGHT\", expected a unit (hint: SECOND",
        ),
        (descriptor(r#""limit": {"unit": 9}"#), ": invalid value: integer `9`, expected a unit"),
        (descriptor(r#""limit": {"requestsPerUnit": 1}"#), ": missing field `unit`"),
        (descriptor(r#""limit": {"unit": 0}"#), ": `limit` of a descriptor has the unknown unit 0"),
        (descriptor(r#""limit": {"unit": null}"#), ": invalid type: null, expected a unit (hint: SECOND"),
        (descriptor(r#""hitsAddend": -1"#), ": invalid type: integer `-1`, expected a whole number from 0"),
        (descriptor(r#""hitsAddend": 1.5"#), ": invalid value: floating point `1.5`"),
        (descriptor(r#""hitsAddend": "+1""#), ": invalid value: string \"+1\""),
        (r#"{"hitsAddend": 4294967296}"#.to_owned(), ": invalid value: integer `4294967296`"),
        (descriptor(r#""isNegativeHits": "true""#), ": invalid type: string"),
        ("[]".to_owned(), ": invalid type: sequence, expected a request (hint: "),
        (r#"{"descriptors": [[]]}"#.to_owned(), ": invalid type: sequence, expected a descriptor (hint: "),
        (descriptor(r#""entries": [["user", "42"]]"#), ": invalid type: sequence, expected an entry (hint: "),
        (descriptor(r#""limit": [10, "DAY"]"#), ": invalid type: sequence, expected a limit (hint: "),
        ("{".to_owned(), ": this is not JSON: "),
        (r#"{"descriptors": [null]}"#.to_owned(), ": invalid type: null, expected a descriptor"),
    ];
    for (json, message) in cases {
        assert_rejected(&json, message);
    }
    let many = |count: usize| format!(r#"{{"descriptors": [{}]}}"#, vec!["{}"; count].join(","));
    assert!(super::read(many(64).as_bytes()).is_ok());
    assert_rejected(&many(1_001), ": there are more than 1000 descriptors");
    let error = super::read(&vec![b' '; request_bounds().request_bytes_max + 1]).unwrap_err().to_string();
    assert_eq!(error, "the request is larger than 4096 KiB (hint: send fewer descriptors)");
    assert_eq!(super::read(b"{}").unwrap().to_request(), Err(RlsError::EmptyDomain));
    assert_eq!(super::read(br#"{"domain": "a"}"#).unwrap().to_request(), Err(RlsError::NoDescriptors));
}

#[test]
fn responses_match_go() {
    let limit = CurrentLimit { name: "per \"user\"", requests_per_unit: 5, unit: RlsUnit::Minute };
    let status = DescriptorStatus {
        code: RlsCode::OverLimit,
        limit: Some(limit),
        remaining: 0,
        until_reset_seconds: Some(12),
    };
    let bare = CurrentLimit { name: "", requests_per_unit: 0, unit: RlsUnit::Unknown };
    let response = RlsResponse {
        overall: Overall { code: RlsCode::OverLimit, ..Overall::OK },
        statuses: [
            status,
            DescriptorStatus::NO_LIMIT,
            DescriptorStatus {
                code: RlsCode::Ok,
                limit: Some(bare),
                remaining: 7,
                until_reset_seconds: Some(0),
            },
        ]
        .into_iter()
        .collect(),
        response_headers: vec![Header { name: "retry-after", value: "12".to_owned() }],
        request_headers: vec![],
        metadata: Some(DynamicMetadata {
            decision: "denied",
            rule: Some("login\u{1}"),
            limit: Some(&LimitId::Position(0)),
            delay_ms: 0,
            retry_after_ms: Some(11_500),
            degraded: false,
            rule_metadata: Metadata::new([
                ("team".into(), MetadataValue::Text("größe\"".into())),
                ("all".into(), list_of_all_types()),
            ]),
        }),
    };
    let mut json = String::new();
    super::write(&response, &mut json);
    assert_eq!(
        json,
        concat!(
            r#"{"overallCode":"OVER_LIMIT","statuses":[{"code":"OVER_LIMIT","currentLimit":{"name":"per \"user\"","#,
            r#""requestsPerUnit":5,"unit":"MINUTE"},"durationUntilReset":"12s"},{"code":"OK"},"#,
            r#"{"code":"OK","currentLimit":{},"limitRemaining":7,"durationUntilReset":"0s"}],"#,
            r#""responseHeadersToAdd":[{"key":"retry-after","value":"12"}],"dynamicMetadata":{"decision":"denied","#,
            r#""degraded":false,"delay_ms":0,"limit":"1","metadata":{"all":[null,false,0,-1.5,"",[],{},{"x":[true]}],"#,
            r#""team":"größe\""},"retry_after_ms":11500,"#,
            r#""rule":"login\u0001"}}"#
        )
    );
    assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok());
}
