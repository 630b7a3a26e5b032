//! Requests that are read, what is said of those that are not, and answers as they are written.

use tidegate::rules::LimitId;
use tidegate_core::rules::{RequestLimit, TimeUnit};

use super::*;
use crate::serve::rls::{RlsCode, CurrentLimit, Header, DynamicMetadata, Overall, RlsResponse, RlsUnit, DescriptorStatus};

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
    let one = |inner: &str| format!(r#"{{"domain": "api", "descriptors": [{{"entries": [], {inner}}}]}}"#);
    for other in ["7.0", "\"7\"", "7e0"] {
        assert_same(&one(r#""hits_addend": 7"#), &one(&format!(r#""hitsAddend": {other}"#)));
    }
    for unit in ["5", "\"MONTH\""] {
        let limit = format!(r#""limit": {{"requests_per_unit": "3", "unit": {unit}}}"#);
        assert_same(&one(r#""limit": {"unit": "MONTH", "requestsPerUnit": 3}"#), &one(&limit));
    }
    assert_same(&one(r#""is_negative_hits": true"#), &one(r#""isNegativeHits": true"#));
    assert_same(&one(r#""isNegativeHits": false"#), &one(r#""limit": null, "hitsAddend": null"#));
    assert_same("{}", r#"{"domain": null, "descriptors": null, "hitsAddend": null}"#);
    let most = format!(r#""hitsAddend": "{}""#, u64::MAX);
    assert_eq!(super::read(one(&most).as_bytes()).unwrap().descriptors[0].hits_addend, Some(u64::MAX));
}

#[test]
fn errors_have_a_location() {
    let descriptor = |inner: &str| format!(r#"{{"domain": "a", "descriptors": [{{{inner}}}]}}"#);
    let cases = [
        (
            r#"{"domains": "a"}"#.to_owned(),
            "line 1, column 10: a request has no field `domains` (hint: did you mean `domain`?)",
        ),
        (descriptor(r#""cost": 1"#), ": a descriptor has no field `cost` (hint: "),
        (r#"{"domain": "a", "domain": "b"}"#.to_owned(), ": field `domain` stands twice"),
        (
            descriptor(r#""limit": {"unit": "FORTNIGHT"}"#),
            ": invalid value: string \"FORTNIGHT\", expected a unit (hint: SECOND",
        ),
        (descriptor(r#""limit": {"unit": 9}"#), ": invalid value: integer `9`, expected a unit"),
        (
            descriptor(r#""limit": {"requestsPerUnit": 1}"#),
            ": `limit` of a descriptor has the unit 0, which is none",
        ),
        (descriptor(r#""hitsAddend": -1"#), ": invalid type: integer `-1`, expected `hitsAddend`"),
        (descriptor(r#""hitsAddend": 1.5"#), ": invalid value: floating point `1.5`"),
        (descriptor(r#""hitsAddend": "+1""#), ": invalid value: string \"+1\""),
        (r#"{"hitsAddend": 4294967296}"#.to_owned(), ": invalid value: integer `4294967296`"),
        (descriptor(r#""isNegativeHits": "true""#), ": invalid type: string"),
        ("[]".to_owned(), ": invalid type: sequence, expected a request (hint: "),
        ("{".to_owned(), ": this is not JSON: "),
        (r#"{"descriptors": [null]}"#.to_owned(), ": invalid type: null, expected a descriptor"),
    ];
    for (json, message) in cases {
        assert_rejected(&json, message);
    }
    let many = |count: usize| format!(r#"{{"descriptors": [{}]}}"#, vec!["{}"; count].join(","));
    assert!(super::read(many(64).as_bytes()).is_ok());
    assert_rejected(&many(65), ": there are more than 64 descriptors");
    let error = super::read(&vec![b' '; REQUEST_BYTES_MAX + 1]).unwrap_err().to_string();
    assert_eq!(error, "the request is larger than 1024 KiB (hint: send fewer descriptors)");
    assert_eq!(super::read(b"{}").unwrap().to_request(), Err(RlsError::EmptyDomain));
    assert_eq!(super::read(br#"{"domain": "a"}"#).unwrap().to_request(), Err(RlsError::NoDescriptors));
}

#[test]
fn responses_match_go() {
    let limit = CurrentLimit { name: "per \"user\"", requests_per_unit: 5, unit: RlsUnit::Minute };
    let status =
        DescriptorStatus { code: RlsCode::OverLimit, limit: Some(limit), remaining: 0, until_reset_seconds: Some(12) };
    let bare = CurrentLimit { name: "", requests_per_unit: 0, unit: RlsUnit::Unknown };
    let response = RlsResponse {
        overall: Overall { code: RlsCode::OverLimit, ..Overall::OK },
        statuses: [
            status,
            DescriptorStatus::UNLIMITED,
            DescriptorStatus { code: RlsCode::Ok, limit: Some(bare), remaining: 7, until_reset_seconds: Some(0) },
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
            rule_metadata: vec![("team", "größe")],
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
            r#""degraded":false,"delay_ms":0,"limit":"1","metadata":{"team":"größe"},"retry_after_ms":11500,"#,
            r#""rule":"login\u0001"}}"#
        )
    );
    assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok());
}
