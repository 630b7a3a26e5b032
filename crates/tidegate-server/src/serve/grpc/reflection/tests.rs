//! Compares the tables with published descriptors and messages.

use std::collections::BTreeSet;

use envoy_types::pb::envoy::config::core::v3::HeaderValue;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{
    Entry, RateLimitOverride,
};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::quota::ExpirationSpecifier;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::{
    DescriptorStatus, Quota, RateLimit,
};
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use envoy_types::pb::google::protobuf::value::Kind as ValueKind;
use envoy_types::pb::google::protobuf::{
    Duration, ListValue, Struct, Timestamp, UInt64Value, Value as AnyValue,
};
use prost::Message as _;
use prost_types::field_descriptor_proto::Type;
use prost_types::{DescriptorProto, FileDescriptorProto, FileDescriptorSet};

use super::*;
use crate::serve::grpc::wire::{Reader, Value};

fn decoded(file: &FileSchema) -> FileDescriptorProto {
    FileDescriptorProto::decode(file.encode()).unwrap()
}

/// All messages by full name, with a leading dot.
fn messages() -> Vec<(String, DescriptorProto)> {
    fn collect(prefix: &str, message: &DescriptorProto, all: &mut Vec<(String, DescriptorProto)>) {
        let name = format!("{prefix}.{}", message.name());
        message.nested_type.iter().for_each(|inner| collect(&name, inner, all));
        all.push((name, message.clone()));
    }
    let mut all = Vec::new();
    for file in FILES {
        let file = decoded(file);
        file.message_type.iter().for_each(|one| collect(&format!(".{}", file.package()), one, &mut all));
    }
    all
}

/// Each field of health and reflection equals tonic's. File options, comments and the order of methods are not
/// compared.
#[test]
fn grpc_files_match_tonic() {
    let sets = [
        (tonic_health::pb::FILE_DESCRIPTOR_SET, &["grpc.health.v1"][..]),
        (tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET, &["grpc.reflection.v1"]),
        (tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET, &["grpc.reflection.v1alpha"]),
    ];
    for (set, packages) in sets {
        let set = FileDescriptorSet::decode(set).unwrap();
        for package in packages {
            let real = set.file.iter().find(|file| file.package() == *package).unwrap();
            let ours = FILES.iter().find(|file| file.package == *package).unwrap();
            let ours = decoded(ours);
            for message in &real.message_type {
                let mine = ours.message_type.iter().find(|mine| mine.name == message.name);
                assert_eq!(mine, Some(message), "{package}");
            }
            assert_eq!(ours.enum_type, real.enum_type);
            for method in &real.service[0].method {
                let mine = ours.service[0].method.iter().find(|mine| mine.name == method.name).unwrap();
                assert_eq!((&mine.input_type, &mine.output_type), (&method.input_type, &method.output_type));
                assert_eq!(
                    (mine.client_streaming(), mine.server_streaming()),
                    (method.client_streaming(), method.server_streaming())
                );
            }
        }
    }
}

/// Every type that a file uses is defined in that file or in one of its dependencies.
#[test]
fn every_referenced_name_is_defined() {
    for file in FILES {
        let proto = decoded(file);
        assert_eq!(proto.syntax(), "proto3");
        let reachable = with_dependencies(file);
        let mut used = BTreeSet::new();
        fn collect(message: &DescriptorProto, used: &mut BTreeSet<String>) {
            used.extend(message.field.iter().filter_map(|field| field.type_name.clone()));
            message.nested_type.iter().for_each(|inner| collect(inner, used));
        }
        proto.message_type.iter().for_each(|message| collect(message, &mut used));
        for service in &proto.service {
            used.extend(
                service
                    .method
                    .iter()
                    .flat_map(|one| [one.input_type().to_owned(), one.output_type().to_owned()]),
            );
        }
        for name in used {
            let home = file_by_symbol(name.strip_prefix('.').unwrap()).unwrap_or_else(|| panic!("{name}"));
            assert!(
                reachable.iter().any(|file| file.name == home.name),
                "{} does not reach {name}",
                file.name
            );
        }
    }
}

#[test]
fn symbol_lookup() {
    for (symbol, file) in [
        ("envoy.service.ratelimit.v3.RateLimitService", "envoy/service/ratelimit/v3/rls.proto"),
        (
            "envoy.service.ratelimit.v3.RateLimitService.ShouldRateLimit",
            "envoy/service/ratelimit/v3/rls.proto",
        ),
        (
            "envoy.service.ratelimit.v3.RateLimitResponse.RateLimit.Unit",
            "envoy/service/ratelimit/v3/rls.proto",
        ),
        ("envoy.service.ratelimit.v3.RateLimitRequest.domain", "envoy/service/ratelimit/v3/rls.proto"),
        ("google.protobuf.Struct.FieldsEntry", "google/protobuf/struct.proto"),
        ("google.protobuf.Timestamp", "google/protobuf/timestamp.proto"),
        ("grpc.reflection.v1.ServerReflection", "grpc/reflection/v1/reflection.proto"),
    ] {
        assert_eq!(file_by_symbol(symbol).map(|file| file.name), Some(file), "{symbol}");
    }
    for symbol in
        ["", ".", "envoy", "envoy.service.ratelimit.v3", "google.protobuf.Any", "grpc.health.v1.Health.Nope"]
    {
        assert!(file_by_symbol(symbol).is_none(), "{symbol}");
    }
    assert_eq!(with_dependencies(file_by_name("envoy/service/ratelimit/v3/rls.proto").unwrap()).len(), 8);
}

/// Encodes messages with every field set, and looks up each field in the tables.
#[test]
fn envoy_messages_match_prost() {
    let seconds = Duration { seconds: 1, nanos: 1 };
    let quota = Quota {
        requests: 1,
        id: "x".to_owned(),
        expiration_specifier: Some(ExpirationSpecifier::ValidUntil(Timestamp { seconds: 1, nanos: 1 })),
    };
    let header = HeaderValue { key: "x".to_owned(), value: "x".to_owned(), raw_value: vec![1] };
    let any = |kind| AnyValue { kind: Some(kind) };
    let fields = [
        ValueKind::NullValue(0),
        ValueKind::NumberValue(1.0),
        ValueKind::StringValue("x".to_owned()),
        ValueKind::BoolValue(true),
        ValueKind::StructValue(Struct::default()),
        ValueKind::ListValue(ListValue { values: vec![any(ValueKind::BoolValue(true))] }),
    ];
    let fields = fields.into_iter().enumerate().map(|(n, kind)| (format!("{n}"), any(kind))).collect();
    let status = DescriptorStatus {
        code: 1,
        current_limit: Some(RateLimit { name: "x".to_owned(), requests_per_unit: 1, unit: 1 }),
        limit_remaining: 1,
        duration_until_reset: Some(seconds),
        quota: Some(quota.clone()),
    };
    let response = RateLimitResponse {
        overall_code: 1,
        statuses: vec![status],
        response_headers_to_add: vec![header.clone()],
        request_headers_to_add: vec![header],
        raw_body: vec![1],
        dynamic_metadata: Some(Struct { fields }),
        quota: Some(quota),
    };
    let descriptor = RateLimitDescriptor {
        entries: vec![Entry { key: "x".to_owned(), value: "x".to_owned() }],
        limit: Some(RateLimitOverride { requests_per_unit: 1, unit: 1 }),
        hits_addend: Some(UInt64Value { value: 1 }),
        is_negative_hits: true,
    };
    let request = RateLimitRequest { domain: "x".to_owned(), descriptors: vec![descriptor], hits_addend: 1 };

    let all = messages();
    let mut met = BTreeSet::new();
    let package = ".envoy.service.ratelimit.v3";
    compare(&all, &format!("{package}.RateLimitRequest"), &request.encode_to_vec(), &mut met);
    compare(&all, &format!("{package}.RateLimitResponse"), &response.encode_to_vec(), &mut met);
    for (name, message) in all.iter().filter(|(name, _)| !name.starts_with(".grpc.")) {
        for field in &message.field {
            assert!(met.contains(&(name.clone(), field.number())), "{name}.{} was never sent", field.name());
        }
    }
}

fn compare(all: &[(String, DescriptorProto)], name: &str, bytes: &[u8], met: &mut BTreeSet<(String, i32)>) {
    let (_, message) = all.iter().find(|(known, _)| known == name).unwrap_or_else(|| panic!("{name}"));
    let mut fields = Reader::new(bytes);
    while let Some(sent) = fields.next().unwrap() {
        let number = i32::try_from(sent.number).unwrap();
        let field = message.field.iter().find(|field| field.number() == number);
        let field = field.unwrap_or_else(|| panic!("{name} has no field {number}"));
        met.insert((name.to_owned(), number));
        match (field.r#type(), sent.value) {
            (Type::Message, Value::Bytes { bytes, .. }) => compare(all, field.type_name(), bytes, met),
            (Type::String | Type::Bytes, Value::Bytes { .. }) | (Type::Double, Value::Fixed64(_)) => {}
            (
                Type::Uint32 | Type::Uint64 | Type::Int32 | Type::Int64 | Type::Bool | Type::Enum,
                Value::Varint(_),
            ) => {}
            (kind, value) => panic!("{name}.{} is {kind:?}, but {value:?} was sent", field.name()),
        }
    }
}
