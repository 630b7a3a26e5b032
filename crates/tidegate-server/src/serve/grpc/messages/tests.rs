//! Compares the messages with prost's.

use bytes::BytesMut;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{
    Entry, RateLimitOverride,
};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::{self, DescriptorStatus};
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{Duration, UInt64Value};
use proptest::prelude::*;
use prost::Message as _;
use tidegate::rules::{LimitId, Metadata, MetadataValue};

use super::*;
use crate::serve::grpc::wire::Writer;
use crate::serve::rls::{
    CurrentLimit, DescriptorStatus as RlsStatus, DynamicMetadata, Header, HitsMode, Overall, RlsCode,
    RlsError, RlsResponse, RlsUnit,
};

fn entry() -> impl Strategy<Value = Entry> {
    (".{0,20}", ".{0,200}").prop_map(|(key, value)| Entry { key, value })
}

fn descriptor() -> impl Strategy<Value = RateLimitDescriptor> {
    let limit = prop::option::of((any::<u32>(), 1..=7i32));
    (prop::collection::vec(entry(), 0..5), limit, prop::option::of(any::<u64>()), any::<bool>()).prop_map(
        |(entries, limit, hits, is_negative_hits)| RateLimitDescriptor {
            entries,
            limit: limit.map(|(requests_per_unit, unit)| RateLimitOverride { requests_per_unit, unit }),
            hits_addend: hits.map(|value| UInt64Value { value: value >> (value % 64) }),
            is_negative_hits,
        },
    )
}

fn request() -> impl Strategy<Value = RateLimitRequest> {
    (".{1,20}", prop::collection::vec(descriptor(), 1..6), any::<u32>())
        .prop_map(|(domain, descriptors, hits_addend)| RateLimitRequest { domain, descriptors, hits_addend })
}

proptest! {
    #![proptest_config(tidegate_testing::proptest_config(64))]
    #[test]
    fn requests_match_prost(sent in request()) {
        let bytes = sent.encode_to_vec();
        let read = read_request(&bytes).unwrap();
        prop_assert_eq!(read.domain(), &sent.domain);
        prop_assert_eq!(read.descriptors().len(), sent.descriptors.len());
        for (ours, theirs) in read.descriptors().iter().zip(&sent.descriptors) {
            let entries: Vec<Entry> = read.entries_of(ours).iter()
                .map(|entry| Entry { key: entry.key.to_owned(), value: entry.value.to_owned() }).collect();
            prop_assert_eq!(&entries, &theirs.entries);
            let limit = ours.limit.map(|limit| RateLimitOverride {
                requests_per_unit: limit.units, unit: RlsUnit::from(limit.per) as i32
            });
            prop_assert_eq!(&limit, &theirs.limit);
            prop_assert_eq!(ours.hits_addend, theirs.hits_addend.as_ref().map(|hits| hits.value));
            prop_assert_eq!(ours.hits == HitsMode::Refund, theirs.is_negative_hits);
            let hits = theirs.hits_addend.as_ref().map_or(u64::from(sent.hits_addend.max(1)), |hits| hits.value);
            prop_assert_eq!(read.hits_of(ours), hits);
        }
    }

    /// Random changes to a request never cause a panic.
    #[test]
    fn mutated_requests_do_not_panic(sent in request(), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let mut bytes = sent.encode_to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = read_request(&bytes);
        if RateLimitRequest::decode(&bytes[..]).is_ok_and(|sent| sent.domain.is_empty()) {
            prop_assert!(read_request(&bytes).is_err());
        }
    }

    #[test]
    fn random_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let _ = read_request(&bytes);
    }
}

#[test]
fn repeated_messages_are_merged() {
    let one = RateLimitDescriptor {
        limit: Some(RateLimitOverride { requests_per_unit: 7, unit: 0 }),
        hits_addend: Some(UInt64Value { value: 3 }),
        ..RateLimitDescriptor::default()
    };
    let other = RateLimitDescriptor {
        limit: Some(RateLimitOverride { requests_per_unit: 0, unit: 2 }),
        hits_addend: Some(UInt64Value { value: 0 }),
        ..RateLimitDescriptor::default()
    };
    let both = [one.encode_to_vec(), other.encode_to_vec()].concat();
    let merged = RateLimitDescriptor::decode(&both[..]).unwrap();
    assert_eq!(merged.limit, Some(RateLimitOverride { requests_per_unit: 7, unit: 2 }));

    let mut bytes = BytesMut::new();
    let mut out = Writer::new(&mut bytes);
    out.text(1, "api");
    out.bytes_or_empty(2, &both);
    let read = read_request(&bytes).unwrap();
    let limit = read.descriptors()[0].limit.unwrap();
    assert_eq!((limit.units, RlsUnit::from(limit.per)), (7, RlsUnit::Minute));
    assert_eq!(read.descriptors()[0].hits_addend, merged.hits_addend.map(|hits| hits.value));
}

#[test]
fn invalid_requests() {
    let good = RateLimitRequest {
        domain: "api".to_owned(),
        descriptors: vec![RateLimitDescriptor::default()],
        hits_addend: 0,
    };
    let error_of = |request: &RateLimitRequest| read_request(&request.encode_to_vec()).unwrap_err();
    assert!(read_request(&good.encode_to_vec()).is_ok(), "as lenient as envoyproxy/ratelimit");
    assert_eq!(error_of(&RateLimitRequest { domain: String::new(), ..good.clone() }), RlsError::EmptyDomain);
    assert_eq!(error_of(&RateLimitRequest { descriptors: vec![], ..good.clone() }), RlsError::NoDescriptors);
    for unit in [0, 8, -1] {
        let limit = Some(RateLimitOverride { requests_per_unit: 1, unit });
        let descriptors = vec![RateLimitDescriptor { limit, ..RateLimitDescriptor::default() }];
        let error = error_of(&RateLimitRequest { descriptors, ..good.clone() });
        assert!(matches!(error, RlsError::UnknownUnit(_)), "{error}");
    }
    let many = RateLimitRequest { descriptors: vec![RateLimitDescriptor::default(); 1_001], ..good.clone() };
    assert_eq!(error_of(&many), RlsError::TooManyDescriptors);
    let entries = vec![Entry::default(); 1_001];
    let descriptors = vec![RateLimitDescriptor { entries, ..RateLimitDescriptor::default() }];
    assert_eq!(error_of(&RateLimitRequest { descriptors, ..good }), RlsError::TooManyEntries);
    assert_eq!(read_request(b"\x0a\x01\xff"), Err(RlsError::NotUtf8("`domain`")));
    assert_eq!(
        read_request(b"\x12\x05\x0a\x03\x0a\x05a").unwrap_err().to_string(),
        "this is not a RateLimitRequest: a length past the end at byte 6 (hint: is the client's schema \
         envoy.service.ratelimit.v3?)"
    );
}

#[test]
fn responses_match_prost() {
    let limit = CurrentLimit { name: "few", requests_per_unit: 5, unit: RlsUnit::Week };
    let header = |name, value: &str| Header { name, value: value.to_owned() };
    let response = RlsResponse {
        overall: Overall { code: RlsCode::OverLimit, ..Overall::OK },
        statuses: [
            RlsStatus {
                code: RlsCode::OverLimit,
                limit: Some(limit),
                remaining: 300,
                until_reset_seconds: Some(1 << 33),
            },
            RlsStatus::NO_LIMIT,
            RlsStatus { code: RlsCode::Ok, limit: Some(limit), remaining: 0, until_reset_seconds: Some(0) },
        ]
        .into_iter()
        .collect(),
        response_headers: vec![header("retry-after", "12"), header("ratelimit-policy", &"x".repeat(500))],
        request_headers: vec![header("x-tidegate-decision", "denied")],
        metadata: Some(DynamicMetadata {
            decision: "denied",
            rule: Some("login"),
            limit: Some(&LimitId::Position(0)),
            delay_ms: 0,
            retry_after_ms: Some(11_500),
            degraded: false,
            rule_metadata: Metadata::new([("team".into(), MetadataValue::Text("red".into()))]),
        }),
    };
    let mut bytes = BytesMut::new();
    write_response(&mut Writer::new(&mut bytes), &response);
    let read = RateLimitResponse::decode(&bytes[..]).unwrap();
    assert_eq!(read.encode_to_vec().len(), bytes.len(), "prost reads everything");
    assert_eq!(read.overall_code, rate_limit_response::Code::OverLimit as i32);
    let few = rate_limit_response::RateLimit {
        name: "few".to_owned(),
        requests_per_unit: 5,
        unit: rate_limit_response::rate_limit::Unit::Week as i32,
    };
    let status = |code, limit_remaining, seconds| DescriptorStatus {
        code,
        current_limit: Some(few.clone()),
        limit_remaining,
        duration_until_reset: Some(Duration { seconds, nanos: 0 }),
        quota: None,
    };
    let bare = DescriptorStatus { code: 1, ..DescriptorStatus::default() };
    assert_eq!(read.statuses, [status(2, 300, 1 << 33), bare, status(1, 0, 0)]);
    assert_eq!(read.response_headers_to_add.len(), 2);
    assert_eq!(read.response_headers_to_add[1].value.len(), 500);
    assert_eq!(read.request_headers_to_add[0].key, "x-tidegate-decision");

    let fields = read.dynamic_metadata.unwrap().fields;
    let kind = |name: &str| fields[name].kind.clone().unwrap();
    assert_eq!(kind("decision"), Kind::StringValue("denied".to_owned()));
    assert_eq!(kind("degraded"), Kind::BoolValue(false));
    assert_eq!(kind("delay_ms"), Kind::NumberValue(0.0));
    assert_eq!(kind("limit"), Kind::StringValue("1".to_owned()));
    assert_eq!(kind("retry_after_ms"), Kind::NumberValue(11_500.0));
    assert_eq!(kind("rule"), Kind::StringValue("login".to_owned()));
    let Kind::StructValue(rule_metadata) = kind("metadata") else { panic!("{fields:?}") };
    assert_eq!(rule_metadata.fields["team"].kind, Some(Kind::StringValue("red".to_owned())));
}

/// Protobuf readers refuse deeply nested messages, and Envoy would then ignore the answer.
#[test]
fn the_deepest_metadata_can_be_read() {
    let nested = |inner| Metadata::new([("x".into(), MetadataValue::Object(inner))]);
    let mut rule_metadata = Metadata::new([("x".into(), MetadataValue::Null)]);
    for _ in 1..Metadata::DEPTH_MAX {
        rule_metadata = nested(rule_metadata);
    }
    let response = RlsResponse {
        overall: Overall::OK,
        statuses: std::iter::empty().collect(),
        response_headers: vec![],
        request_headers: vec![],
        metadata: Some(DynamicMetadata {
            decision: "allowed",
            rule: None,
            limit: None,
            delay_ms: 0,
            retry_after_ms: None,
            degraded: false,
            rule_metadata,
        }),
    };
    let mut bytes = BytesMut::new();
    write_response(&mut Writer::new(&mut bytes), &response);
    let mut fields = RateLimitResponse::decode(&bytes[..]).unwrap().dynamic_metadata.unwrap().fields;
    let mut value = fields.remove("metadata").unwrap().kind;
    for _ in 0..Metadata::DEPTH_MAX {
        let Some(Kind::StructValue(mut object)) = value else { panic!("{value:?}") };
        value = object.fields.remove("x").unwrap().kind;
    }
    assert_eq!(value, Some(Kind::NullValue(0)));
}
