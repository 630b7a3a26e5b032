//! Annotations of responses: headers for the client and the upstream, and metadata.

use std::collections::BTreeMap;

use envoy_types::pb::envoy::config::core::v3::HeaderValue;
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitResponse;
use envoy_types::pb::google::protobuf::value::Kind;
use tidegate_server::serve::Bounds;
use tidegate_server::serve::rls::Details;

use crate::grpc::server::{Client, OK, OVER_LIMIT, Server, descriptor, request, send};

const RULES: &str = "
domain: api
rules:
  - { name: hard, match: { do: hard }, limit: '{algorithm: fixed_window, limit: 1, per: 1d, align: first_hit}' }
  - { name: dry, match: { do: dry }, limit: 1 per day, action: shadow }
  - { name: month, match: { do: quota }, limit: 1 per day, action: quota }
  - { name: lenient, match: { do: soft }, limit: 1 per day, action: { soft: { margin: 100% } } }
  - { name: banned, match: { do: ban }, limit: 1 per day, action: shadow_ban }
  - { name: queue, match: { do: queue }, limit: '{algorithm: leaky_bucket, limit: 1, per: 1h, queue: 5}' }
  - { name: team, match: { do: carry }, limit: 5 per day, metadata: { team: red, cost_centre: '7' } }
";

fn headers(all: &[HeaderValue]) -> BTreeMap<&str, &str> {
    all.iter().map(|header| (&*header.key, &*header.value)).collect()
}

fn metadata(answer: &RateLimitResponse) -> BTreeMap<&str, String> {
    let text = |kind: &Kind| match kind {
        Kind::StringValue(text) => text.clone(),
        Kind::NumberValue(number) => format!("{number}"),
        Kind::BoolValue(truth) => format!("{truth}"),
        Kind::StructValue(inner) => {
            let inner: BTreeMap<_, _> = inner.fields.iter().collect();
            inner.iter().map(|(name, value)| format!("{name}={:?} ", value.kind)).collect()
        }
        other => panic!("{other:?}"),
    };
    let Some(fields) = &answer.dynamic_metadata else { return BTreeMap::new() };
    fields.fields.iter().map(|(name, value)| (&**name, text(value.kind.as_ref().unwrap()))).collect()
}

async fn twice(client: &mut Client, what: &str) -> [RateLimitResponse; 2] {
    let first = send(client, request([descriptor(&[("do", what)])])).await;
    let second = send(client, request([descriptor(&[("do", what)])])).await;
    [first, second]
}

fn assert_plain(answer: &RateLimitResponse) {
    assert_eq!(answer.overall_code, OK);
    assert!(answer.response_headers_to_add.is_empty(), "{answer:?}");
    assert!(answer.request_headers_to_add.is_empty(), "{answer:?}");
    assert!(answer.dynamic_metadata.is_none(), "{answer:?}");
}

#[tokio::test]
async fn denied_answers_annotate_the_client() {
    let server = Server::with_rules(RULES).await;
    let mut client = server.client().await;
    let [first, second] = twice(&mut client, "hard").await;
    assert_plain(&first);
    assert_eq!(second.overall_code, OVER_LIMIT);
    assert!(second.request_headers_to_add.is_empty());
    let headers = headers(&second.response_headers_to_add);
    let wait: u64 = headers["retry-after"].parse().unwrap();
    assert!((86_000..=86_400).contains(&wait), "{wait}");
    assert_eq!(headers["x-ratelimit-limit"], "1");
    assert_eq!(headers["x-ratelimit-remaining"], "0");
    assert_eq!(headers["x-ratelimit-reset"], headers["retry-after"]);
    assert_eq!(headers["x-ratelimit-retry-after"], headers["retry-after"]);
    assert_eq!(headers["ratelimit-policy"], r#""hard/1";q=1;w=86400"#);
    assert_eq!(headers["ratelimit"], format!(r#""hard/1";r=0;t={wait}"#));
    assert_eq!((headers["x-tidegate-decision"], headers["x-tidegate-rule"]), ("denied", "hard"));
    let metadata = metadata(&second);
    assert_eq!((&*metadata["decision"], &*metadata["rule"], &*metadata["limit"]), ("denied", "hard", "1"));
    assert_eq!((&*metadata["degraded"], &*metadata["delay_ms"]), ("false", "0"));
    assert!(metadata["retry_after_ms"].parse::<u64>().unwrap() > 86_000_000);
}

/// An allowed request has the code OK and annotates the upstream. Only a soft limit annotates the client too.
#[tokio::test]
async fn allowed_answers_annotate_the_upstream() {
    let server = Server::with_rules(RULES).await;
    let mut client = server.client().await;
    for (what, decision, rule, code) in [
        ("dry", "shadow_denied", "dry", OK),
        ("quota", "over_quota", "month", OVER_LIMIT),
        ("soft", "soft", "lenient", OK),
        ("ban", "shadow_banned", "banned", OK),
        ("queue", "delayed", "queue", OK),
    ] {
        let [first, second] = twice(&mut client, what).await;
        assert_plain(&first);
        assert_eq!((second.overall_code, second.statuses[0].code), (OK, code), "{what}");
        let upstream = headers(&second.request_headers_to_add);
        assert_eq!((upstream["x-tidegate-decision"], upstream["x-tidegate-rule"]), (decision, rule));
        let client = headers(&second.response_headers_to_add);
        assert_eq!(client.get("x-tidegate-decision").copied(), (what == "soft").then_some("soft"), "{what}");
        let metadata = metadata(&second);
        assert_eq!((&*metadata["decision"], &*metadata["rule"]), (decision, rule));
        let delay = upstream.get("x-tidegate-delay-ms").copied().unwrap_or("0");
        assert_eq!(metadata["delay_ms"], delay);
        assert_eq!(delay != "0", what == "queue", "{delay}");
    }
}

#[tokio::test]
async fn rule_metadata_is_returned() {
    let server = Server::with_rules(RULES).await;
    let mut client = server.client().await;
    let [first, _] = twice(&mut client, "carry").await;
    assert!(first.response_headers_to_add.is_empty() && first.request_headers_to_add.is_empty());
    let carried = r#"cost_centre=Some(StringValue("7")) team=Some(StringValue("red")) "#;
    assert_eq!(metadata(&first)["metadata"], carried);
}

#[tokio::test]
async fn details_all_and_off() {
    let off = Server::with(RULES, Bounds::default(), Details::Off).await;
    let [_, denied] = twice(&mut off.client().await, "hard").await;
    assert_eq!(denied.overall_code, OVER_LIMIT);
    assert!(denied.response_headers_to_add.is_empty() && denied.dynamic_metadata.is_none(), "{denied:?}");

    let all = Server::with(RULES, Bounds::default(), Details::All).await;
    let [allowed, _] = twice(&mut all.client().await, "hard").await;
    assert_eq!(headers(&allowed.response_headers_to_add)["x-ratelimit-remaining"], "0");
    assert_eq!(headers(&allowed.request_headers_to_add)["x-tidegate-decision"], "allowed");
    assert_eq!(metadata(&allowed)["decision"], "allowed");
    let [_, banned] = twice(&mut all.client().await, "ban").await;
    assert!(banned.response_headers_to_add.is_empty(), "the ban stays hidden");
}
