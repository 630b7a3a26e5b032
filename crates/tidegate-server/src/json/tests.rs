//! Valid requests, and the errors of invalid ones.

use std::borrow::Cow;

use tidegate::Nanos;
use tidegate::rules::OwnedDescriptor;

use super::*;

fn descriptor(entries: &[(&str, &str)], cost: u64) -> OwnedDescriptor {
    let entries = entries.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    OwnedDescriptor { entries, cost, limit: None }
}

#[track_caller]
fn assert_read(json: &str, domain: Option<&str>, descriptors: Vec<OwnedDescriptor>) {
    let request = OwnedRequest { descriptors };
    assert_eq!(
        read_owned(json.as_bytes()),
        Ok(OwnedJsonRequest { domain: domain.map(str::to_owned), request }),
        "{json}"
    );
}

#[track_caller]
fn assert_rejected(json: &str, message: &str) {
    let error = read_owned(json.as_bytes()).expect_err(json).to_string();
    assert_eq!(error, message, "{json}");
}

#[test]
fn attributes_and_descriptors() {
    assert_read(
        r#"{"domain": "api", "attributes": {"user": "42", "ip": "192.0.2.1"}, "cost": 3}"#,
        Some("api"),
        vec![descriptor(&[("user", "42"), ("ip", "192.0.2.1")], 3)],
    );
    assert_read(
        r#"{"descriptors": [{"entries": [{"value": "1", "key": "a"}, {"key": "a", "value": ""}]},
            {"cost": 0, "entries": []}]}"#,
        None,
        vec![descriptor(&[("a", "1"), ("a", "")], 1), descriptor(&[], 0)],
    );
    assert_read(r#"{"attributes": {}, "cost": 18446744073709551615}"#, None, vec![descriptor(&[], u64::MAX)]);
    assert_read(r#"{"attributes": {}, "cost": 5.0}"#, None, vec![descriptor(&[], 5)]);
    assert_read(r#"{"attributes": {"\u0061": "\ud83d\ude00"}}"#, None, vec![descriptor(&[("a", "😀")], 1)]);
}

#[test]
fn invalid_fields() {
    let cases = [
        (
            r#"{"atributes": {}}"#,
            "line 1, column 12: a request has no field `atributes` (hint: did you mean `attributes`?)",
        ),
        (
            r#"{"descriptors": [{"entrys": []}]}"#,
            "line 1, column 26: a descriptor has no field `entrys` (hint: did you mean `entries`?)",
        ),
        (
            r#"{"descriptors": [{"entries": [{"name": "user"}]}]}"#,
            "line 1, column 37: unknown field `name`, expected `key` or `value`",
        ),
        (
            "{\n  \"attributes\": {\"user\": 42}}",
            "line 2, column 27: invalid type: integer `42`, expected the value of attribute `user` as text (hint: \
             put it in double quotes)",
        ),
        (
            r#"{"attributes": {}, "cost": -1}"#,
            "line 1, column 29: invalid type: integer `-1`, expected a cost, which is a whole number from 0 (hint: \
              omit it for 1)",
        ),
        (
            r#"{"attributes": {"a": "1", "a": "2"}}"#,
            "line 1, column 29: attribute `a` appears twice (hint: remove one; only `entries` of `descriptors` may \
              repeat a key)",
        ),
        (
            r#"{"domain": "a", "domain": "b"}"#,
            "line 1, column 24: field `domain` appears twice (hint: remove one)",
        ),
    ];
    for (json, message) in cases {
        assert_rejected(json, message);
    }
}

#[test]
fn incomplete_requests() {
    let starts = [
        ("{}", "line 1, column 2: the request has no attributes (hint: "),
        (r#"{"descriptors": []}"#, "line 1, column 18: the list of descriptors is empty"),
        (r#"{"attributes": {}, "descriptors": [{"entries": []}]}"#, "line 1, column 52: `attributes` and"),
        (r#"{"cost": 1, "descriptors": [{"entries": []}]}"#, "line 1, column 45: `cost` cannot be used with"),
        (r#"{"descriptors": [{}]}"#, "line 1, column 19: a descriptor needs `entries` (hint: "),
        (r#"{"descriptors": [{"entries": [{"key": "a"}]}]}"#, "line 1, column 42: missing field `value`"),
        (r#"{"descriptors": [{"entries": [{"value": "a"}]}]}"#, "line 1, column 44: missing field `key`"),
        ("[]", "line 1, column 0: invalid type: sequence, expected a request (hint: "),
        (
            r#"{"descriptors": [{"entries": [["user", "42"]]}]}"#,
            "line 1, column 30: invalid type: sequence, expected an entry (hint: ",
        ),
        (
            r#"{"descriptors": [{"entries": [{"key": "a", "value": 1}]}]}"#,
            "line 1, column 53: invalid type: integer `1`, expected a key or value as text (hint: ",
        ),
        (r#"{"attributes": {}, "cost": 1.5}"#, "line 1, column 30: invalid type: floating point `1.5`"),
        (r#"{"attributes": {}, "cost": -1.0}"#, "line 1, column 31: invalid type: floating point `-1.0`"),
        (
            r#"{"attributes": {}, "cost": 18446744073709551616}"#,
            "line 1, column 47: invalid type: floating point",
        ),
        (r#"{"attributes": {}} {}"#, "line 1, column 20: this is not JSON: trailing characters (hint: "),
        ("{'attributes': {}}", "line 1, column 2: this is not JSON: key must be a string (hint: "),
        ("", "line 1, column 0: this is not JSON: EOF while parsing a value (hint: "),
        ("\u{0}", "line 1, column 1: this is not JSON: expected value (hint: "),
    ];
    for (json, start) in starts {
        let error = read_owned(json.as_bytes()).expect_err(json).to_string();
        assert!(error.starts_with(start), "{json}: {error}");
    }
    assert!(read_owned(b"{\"attributes\": {\"a\": \"\xff\"}}").is_err(), "not UTF-8");
    assert!(read_owned("[".repeat(100_000).as_bytes()).is_err(), "deep");
}

#[test]
fn every_bound() {
    let entries = |count: usize| vec![r#"{"key": "a", "value": ""}"#; count].join(",");
    let descriptors =
        |count: usize| format!(r#"{{"descriptors": [{}]}}"#, vec![r#"{"entries": []}"#; count].join(","));
    let one = |count: usize| format!(r#"{{"descriptors": [{{"entries": [{}]}}]}}"#, entries(count));
    let attributes = |count: usize| {
        let all: Vec<String> = (0..count).map(|number| format!(r#""{number}": """#)).collect();
        format!(r#"{{"attributes": {{{}}}}}"#, all.join(","))
    };
    for (json, max) in [
        (&descriptors as &dyn Fn(usize) -> String, request_bounds().descriptors_max),
        (&one, request_bounds().entries_max),
        (&attributes, request_bounds().entries_max),
    ] {
        assert!(read_owned(json(max).as_bytes()).is_ok());
        let error = read_owned(json(max + 1).as_bytes()).unwrap_err().to_string();
        assert!(error.contains(&format!("more than {max} ")), "{error}");
    }
    let padded = |bytes: usize| {
        let start = r#"{"attributes": {}}"#;
        format!("{start}{}", " ".repeat(bytes - start.len()))
    };
    assert!(read_owned(padded(request_bounds().request_bytes_max).as_bytes()).is_ok());
    let error =
        read_owned(padded(request_bounds().request_bytes_max + 1).as_bytes()).unwrap_err().to_string();
    assert_eq!(error, "the request is larger than 4096 KiB (hint: is this the right file?)");
}

/// The error message.
#[track_caller]
fn error_message(json: &str, form: RequestForm) -> String {
    read_single(json.as_bytes(), form).expect_err(json).to_string()
}

#[test]
fn text_without_escapes_is_borrowed() {
    let read = read_single(
        br#"{"domain": "api", "attributes": {"user": "4\u0032", "ip": "::1"}}"#,
        RequestForm::Check,
    );
    let read = read.unwrap();
    let borrowed = |text: &Cow<'_, str>| matches!(text, Cow::Borrowed(_));
    assert!(read.domain.as_ref().is_some_and(borrowed));
    let (entries, values) = (read.entry_refs(), read.entries.iter().map(|entry| borrowed(&entry.value)));
    assert_eq!(values.collect::<Vec<_>>(), [false, true]);
    assert_eq!(entries.descriptors()[0].entries[0].value, "42");
}

#[test]
fn required_fields_of_each_form() {
    let named = r#"{"domain": "api", "attributes": {}"#;
    for (form, more) in [
        (RequestForm::Check, ""),
        (RequestForm::Acquire, ""),
        (RequestForm::Acquire, r#", "ttl": "1m""#),
        (RequestForm::Renew, r#", "token": "t", "ttl": 60000"#),
        (RequestForm::Release, r#", "token": "t""#),
    ] {
        let json = format!("{named}{more}}}");
        let read = read_single(json.as_bytes(), form).unwrap_or_else(|error| panic!("{json}: {error}"));
        let minute = more.contains("ttl").then(|| Nanos::new(60_000_000_000));
        assert_eq!(read.ttl.map(Ttl::nanos), minute, "{json}");
        assert!(
            error_message(r#"{"attributes": {}, "token": "t"}"#, RequestForm::Release)
                .contains("has no domain")
        );
    }
    let cases = [
        (RequestForm::Check, r#"{"domain": "", "attributes": {}}"#, "the request has no domain (hint: "),
        (RequestForm::Release, r#"{"domain": "a", "attributes": {}}"#, "the request has no `token` (hint: "),
        (
            RequestForm::Renew,
            r#"{"domain": "a", "attributes": {}, "token": ""}"#,
            "the request has no `token` (hint: ",
        ),
        (
            RequestForm::Check,
            r#"{"token": "t"}"#,
            "a request has no field `token` (hint: a request has: domain, ",
        ),
        (RequestForm::Release, r#"{"ttl": 1}"#, "a request has no field `ttl` (hint: "),
        (RequestForm::Acquire, r#"{"ttl": "1 fortnight"}"#, "unknown unit of time `fortnight`"),
        (RequestForm::Acquire, r#"{"ttl": 0}"#, "the ttl is shorter than a millisecond (hint: "),
        (RequestForm::Acquire, r#"{"ttl": -5}"#, "invalid type: integer `-5`, expected a ttl (hint: "),
    ];
    for (form, json, message) in cases {
        let error = error_message(json, form);
        assert!(error.contains(message), "{json}: {error}");
    }
}

#[test]
fn batches() {
    let one = r#"{"domain": "api", "attributes": {"user": "1"}}"#;
    let batch = |count: usize| format!(r#"{{"requests": [{}]}}"#, vec![one; count].join(","));
    let Ok(SingleOrBatch::Single(_)) = read_single_or_batch(one.as_bytes()) else { panic!("one") };
    for count in [1, BATCH_REQUESTS_MAX] {
        let json = batch(count);
        let Ok(SingleOrBatch::Batch(read)) = read_single_or_batch(json.as_bytes()) else { panic!("{count}") };
        assert_eq!(read.len(), count);
    }
    let cases = [
        (batch(BATCH_REQUESTS_MAX + 1), "requests[1000]: there are more than 1000 requests (hint: "),
        (r#"{"requests": []}"#.to_owned(), "the list of requests is empty (hint: "),
        (
            format!(r#"{{"requests": [{one}, {{"attributes": {{}}}}]}}"#),
            "requests[1]: the request has no domain",
        ),
        (
            format!(r#"{{"requests": [{one},{one},{{"domain": 7}}]}}"#),
            "requests[2]: invalid type: integer `7`",
        ),
        (format!(r#"{{"requests": [{one}}}"#), "requests[1]: this is not JSON: expected `,` or `]`"),
        (format!(r#"{{"requests": [{one}], "domain": "api"}}"#), "`requests` must be the only field (hint: "),
        (
            format!(r#"{{"requests": [{{"requests": [{one}]}}]}}"#),
            "requests[0]: a request has no field `requests`",
        ),
        (
            r#"{"request": []}"#.to_owned(),
            "a request has no field `request` (hint: did you mean `requests`?)",
        ),
    ];
    for (json, message) in cases {
        let error = read_single_or_batch(json.as_bytes()).expect_err(message);
        assert!(error.message.starts_with(message), "{message}: {error}");
        assert!(error.location.is_some(), "{error}");
    }
}

#[test]
fn levels() {
    for (json, written) in [
        (r#"{"level": 0.25}"#, "0.25"),
        (r#"{"level": 1}"#, "1"),
        (r#"{"level": 0}"#, "0"),
        (r#"{"level": 1e-3}"#, "0.001"),
        (r#"{"level": 1.0}"#, "1"),
        (r#"{"level": 0.1234567}"#, "0.123456"),
    ] {
        assert_eq!(
            read_level(json.as_bytes()).map(|level| level.to_string()),
            Ok(written.to_owned()),
            "{json}"
        );
    }
    for (json, message) in [
        (r#"{"level": 1.1}"#, "line 1, column 13: this is not a level (hint: "),
        (r#"{"level": 2}"#, "line 1, column 11: this is not a level (hint: "),
        (r#"{"level": -0.5}"#, "line 1, column 14: this is not a level (hint: "),
        (r#"{"level": "0.5"}"#, "line 1, column 15: invalid type: string \"0.5\", expected a level, "),
        (r#"{"level": 0, "level": 1}"#, "line 1, column 20: duplicate field `level`"),
        (r#"{"value": 0}"#, "line 1, column 8: unknown field `value`, expected `level`"),
        ("{}", "line 1, column 2: missing field `level`"),
    ] {
        let error = read_level(json.as_bytes()).expect_err(json).to_string();
        assert!(error.starts_with(message), "{json}: {error}");
    }
}
