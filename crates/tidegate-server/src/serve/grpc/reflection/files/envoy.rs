//! Files of Envoy's API. Of `base.proto` and `ratelimit.proto`, what the rate limit service needs.

use crate::serve::grpc::reflection::schema::{Enum, Field, File, Kind, Message, Method, Service, Streams};

pub static RLS: File = File {
    name: "envoy/service/ratelimit/v3/rls.proto",
    package: "envoy.service.ratelimit.v3",
    dependencies: &[
        "envoy/config/core/v3/base.proto",
        "envoy/extensions/common/ratelimit/v3/ratelimit.proto",
        "google/protobuf/duration.proto",
        "google/protobuf/struct.proto",
        "google/protobuf/timestamp.proto",
    ],
    messages: &[
        Message::of(
            "RateLimitRequest",
            &[
                Field::new("domain", 1, Kind::Text),
                Field::new(
                    "descriptors",
                    2,
                    Kind::Message(".envoy.extensions.common.ratelimit.v3.RateLimitDescriptor"),
                )
                .list(),
                Field::new("hits_addend", 3, Kind::Uint32),
            ],
        ),
        RESPONSE,
    ],
    enums: &[],
    services: &[Service {
        full_name: "envoy.service.ratelimit.v3.RateLimitService",
        methods: &[Method {
            name: "ShouldRateLimit",
            takes: ".envoy.service.ratelimit.v3.RateLimitRequest",
            returns: ".envoy.service.ratelimit.v3.RateLimitResponse",
            streams: Streams::Nobody,
        }],
    }],
};

const RESPONSE: Message = Message {
    messages: &[
        Message {
            enums: &[Enum {
                name: "Unit",
                values: &[
                    ("UNKNOWN", 0),
                    ("SECOND", 1),
                    ("MINUTE", 2),
                    ("HOUR", 3),
                    ("DAY", 4),
                    ("WEEK", 7),
                    ("MONTH", 5),
                    ("YEAR", 6),
                ],
            }],
            ..Message::of(
                "RateLimit",
                &[
                    Field::new("name", 3, Kind::Text),
                    Field::new("requests_per_unit", 1, Kind::Uint32),
                    Field::new(
                        "unit",
                        2,
                        Kind::Enum(".envoy.service.ratelimit.v3.RateLimitResponse.RateLimit.Unit"),
                    ),
                ],
            )
        },
        Message {
            oneof: Some("expiration_specifier"),
            ..Message::of(
                "Quota",
                &[
                    Field::new("requests", 1, Kind::Uint32),
                    Field::new("valid_until", 2, Kind::Message(".google.protobuf.Timestamp")).in_oneof(),
                    Field::new("id", 3, Kind::Text),
                ],
            )
        },
        Message::of(
            "DescriptorStatus",
            &[
                Field::new("code", 1, Kind::Enum(".envoy.service.ratelimit.v3.RateLimitResponse.Code")),
                Field::new(
                    "current_limit",
                    2,
                    Kind::Message(".envoy.service.ratelimit.v3.RateLimitResponse.RateLimit"),
                ),
                Field::new("limit_remaining", 3, Kind::Uint32),
                Field::new("duration_until_reset", 4, Kind::Message(".google.protobuf.Duration")),
                Field::new("quota", 5, Kind::Message(".envoy.service.ratelimit.v3.RateLimitResponse.Quota")),
            ],
        ),
    ],
    enums: &[Enum { name: "Code", values: &[("UNKNOWN", 0), ("OK", 1), ("OVER_LIMIT", 2)] }],
    ..Message::of(
        "RateLimitResponse",
        &[
            Field::new("overall_code", 1, Kind::Enum(".envoy.service.ratelimit.v3.RateLimitResponse.Code")),
            Field::new(
                "statuses",
                2,
                Kind::Message(".envoy.service.ratelimit.v3.RateLimitResponse.DescriptorStatus"),
            )
            .list(),
            Field::new("response_headers_to_add", 3, Kind::Message(".envoy.config.core.v3.HeaderValue"))
                .list(),
            Field::new("request_headers_to_add", 4, Kind::Message(".envoy.config.core.v3.HeaderValue"))
                .list(),
            Field::new("raw_body", 5, Kind::Bytes),
            Field::new("dynamic_metadata", 6, Kind::Message(".google.protobuf.Struct")),
            Field::new("quota", 7, Kind::Message(".envoy.service.ratelimit.v3.RateLimitResponse.Quota")),
        ],
    )
};

pub static RATELIMIT: File = File {
    name: "envoy/extensions/common/ratelimit/v3/ratelimit.proto",
    package: "envoy.extensions.common.ratelimit.v3",
    dependencies: &["envoy/type/v3/ratelimit_unit.proto", "google/protobuf/wrappers.proto"],
    messages: &[Message {
        messages: &[
            Message::of("Entry", &[Field::new("key", 1, Kind::Text), Field::new("value", 2, Kind::Text)]),
            Message::of(
                "RateLimitOverride",
                &[
                    Field::new("requests_per_unit", 1, Kind::Uint32),
                    Field::new("unit", 2, Kind::Enum(".envoy.type.v3.RateLimitUnit")),
                ],
            ),
        ],
        ..Message::of(
            "RateLimitDescriptor",
            &[
                Field::new(
                    "entries",
                    1,
                    Kind::Message(".envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.Entry"),
                )
                .list(),
                Field::new(
                    "limit",
                    2,
                    Kind::Message(
                        ".envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.RateLimitOverride",
                    ),
                ),
                Field::new("hits_addend", 3, Kind::Message(".google.protobuf.UInt64Value")),
                Field::new("is_negative_hits", 4, Kind::Bool),
            ],
        )
    }],
    enums: &[],
    services: &[],
};

pub static BASE: File = File {
    name: "envoy/config/core/v3/base.proto",
    package: "envoy.config.core.v3",
    dependencies: &[],
    messages: &[Message::of(
        "HeaderValue",
        &[
            Field::new("key", 1, Kind::Text),
            Field::new("value", 2, Kind::Text),
            Field::new("raw_value", 3, Kind::Bytes),
        ],
    )],
    enums: &[],
    services: &[],
};

pub static RATELIMIT_UNIT: File = File {
    name: "envoy/type/v3/ratelimit_unit.proto",
    package: "envoy.type.v3",
    dependencies: &[],
    messages: &[],
    enums: &[Enum {
        name: "RateLimitUnit",
        values: &[
            ("UNKNOWN", 0),
            ("SECOND", 1),
            ("MINUTE", 2),
            ("HOUR", 3),
            ("DAY", 4),
            ("MONTH", 5),
            ("YEAR", 6),
        ],
    }],
    services: &[],
};
