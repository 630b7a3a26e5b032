//! Files of Envoy's API. `base.proto` and `ratelimit.proto` have only what the rate limit service needs.

use super::schema::{
    EnumSchema, FieldSchema, FieldType, FileSchema, MessageSchema, MethodSchema, ServiceSchema, Streaming,
};

pub static RLS: FileSchema = FileSchema {
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
        MessageSchema::new(
            "RateLimitRequest",
            &[
                FieldSchema::new("domain", 1, FieldType::String),
                FieldSchema::new(
                    "descriptors",
                    2,
                    FieldType::Message(".envoy.extensions.common.ratelimit.v3.RateLimitDescriptor"),
                )
                .repeated(),
                FieldSchema::new("hits_addend", 3, FieldType::Uint32),
            ],
        ),
        RESPONSE,
    ],
    enums: &[],
    services: &[ServiceSchema {
        full_name: "envoy.service.ratelimit.v3.RateLimitService",
        methods: &[MethodSchema {
            name: "ShouldRateLimit",
            input: ".envoy.service.ratelimit.v3.RateLimitRequest",
            output: ".envoy.service.ratelimit.v3.RateLimitResponse",
            streaming: Streaming::None,
        }],
    }],
};

const RESPONSE: MessageSchema = MessageSchema {
    messages: &[
        MessageSchema {
            enums: &[EnumSchema {
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
            ..MessageSchema::new(
                "RateLimit",
                &[
                    FieldSchema::new("name", 3, FieldType::String),
                    FieldSchema::new("requests_per_unit", 1, FieldType::Uint32),
                    FieldSchema::new(
                        "unit",
                        2,
                        FieldType::Enum(".envoy.service.ratelimit.v3.RateLimitResponse.RateLimit.Unit"),
                    ),
                ],
            )
        },
        MessageSchema {
            oneof: Some("expiration_specifier"),
            ..MessageSchema::new(
                "Quota",
                &[
                    FieldSchema::new("requests", 1, FieldType::Uint32),
                    FieldSchema::new("valid_until", 2, FieldType::Message(".google.protobuf.Timestamp"))
                        .in_oneof(),
                    FieldSchema::new("id", 3, FieldType::String),
                ],
            )
        },
        MessageSchema::new(
            "DescriptorStatus",
            &[
                FieldSchema::new(
                    "code",
                    1,
                    FieldType::Enum(".envoy.service.ratelimit.v3.RateLimitResponse.Code"),
                ),
                FieldSchema::new(
                    "current_limit",
                    2,
                    FieldType::Message(".envoy.service.ratelimit.v3.RateLimitResponse.RateLimit"),
                ),
                FieldSchema::new("limit_remaining", 3, FieldType::Uint32),
                FieldSchema::new("duration_until_reset", 4, FieldType::Message(".google.protobuf.Duration")),
                FieldSchema::new(
                    "quota",
                    5,
                    FieldType::Message(".envoy.service.ratelimit.v3.RateLimitResponse.Quota"),
                ),
            ],
        ),
    ],
    enums: &[EnumSchema { name: "Code", values: &[("UNKNOWN", 0), ("OK", 1), ("OVER_LIMIT", 2)] }],
    ..MessageSchema::new(
        "RateLimitResponse",
        &[
            FieldSchema::new(
                "overall_code",
                1,
                FieldType::Enum(".envoy.service.ratelimit.v3.RateLimitResponse.Code"),
            ),
            FieldSchema::new(
                "statuses",
                2,
                FieldType::Message(".envoy.service.ratelimit.v3.RateLimitResponse.DescriptorStatus"),
            )
            .repeated(),
            FieldSchema::new(
                "response_headers_to_add",
                3,
                FieldType::Message(".envoy.config.core.v3.HeaderValue"),
            )
            .repeated(),
            FieldSchema::new(
                "request_headers_to_add",
                4,
                FieldType::Message(".envoy.config.core.v3.HeaderValue"),
            )
            .repeated(),
            FieldSchema::new("raw_body", 5, FieldType::Bytes),
            FieldSchema::new("dynamic_metadata", 6, FieldType::Message(".google.protobuf.Struct")),
            FieldSchema::new(
                "quota",
                7,
                FieldType::Message(".envoy.service.ratelimit.v3.RateLimitResponse.Quota"),
            ),
        ],
    )
};

pub static RATELIMIT: FileSchema = FileSchema {
    name: "envoy/extensions/common/ratelimit/v3/ratelimit.proto",
    package: "envoy.extensions.common.ratelimit.v3",
    dependencies: &["envoy/type/v3/ratelimit_unit.proto", "google/protobuf/wrappers.proto"],
    messages: &[MessageSchema {
        messages: &[
            MessageSchema::new(
                "Entry",
                &[
                    FieldSchema::new("key", 1, FieldType::String),
                    FieldSchema::new("value", 2, FieldType::String),
                ],
            ),
            MessageSchema::new(
                "RateLimitOverride",
                &[
                    FieldSchema::new("requests_per_unit", 1, FieldType::Uint32),
                    FieldSchema::new("unit", 2, FieldType::Enum(".envoy.type.v3.RateLimitUnit")),
                ],
            ),
        ],
        ..MessageSchema::new(
            "RateLimitDescriptor",
            &[
                FieldSchema::new(
                    "entries",
                    1,
                    FieldType::Message(".envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.Entry"),
                )
                .repeated(),
                FieldSchema::new(
                    "limit",
                    2,
                    FieldType::Message(
                        ".envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.RateLimitOverride",
                    ),
                ),
                FieldSchema::new("hits_addend", 3, FieldType::Message(".google.protobuf.UInt64Value")),
                FieldSchema::new("is_negative_hits", 4, FieldType::Bool),
            ],
        )
    }],
    enums: &[],
    services: &[],
};

pub static BASE: FileSchema = FileSchema {
    name: "envoy/config/core/v3/base.proto",
    package: "envoy.config.core.v3",
    dependencies: &[],
    messages: &[MessageSchema::new(
        "HeaderValue",
        &[
            FieldSchema::new("key", 1, FieldType::String),
            FieldSchema::new("value", 2, FieldType::String),
            FieldSchema::new("raw_value", 3, FieldType::Bytes),
        ],
    )],
    enums: &[],
    services: &[],
};

pub static RATELIMIT_UNIT: FileSchema = FileSchema {
    name: "envoy/type/v3/ratelimit_unit.proto",
    package: "envoy.type.v3",
    dependencies: &[],
    messages: &[],
    enums: &[EnumSchema {
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
