//! Files of gRPC itself: health and reflection.

use super::schema::{
    EnumSchema, FieldSchema, FieldType, FileSchema, MessageSchema, MethodSchema, ServiceSchema, Streaming,
};

pub static HEALTH: FileSchema = FileSchema {
    name: "grpc/health/v1/health.proto",
    package: "grpc.health.v1",
    dependencies: &[],
    messages: &[
        MessageSchema::new("HealthCheckRequest", &[FieldSchema::new("service", 1, FieldType::String)]),
        MessageSchema {
            enums: &[EnumSchema {
                name: "ServingStatus",
                values: &[("UNKNOWN", 0), ("SERVING", 1), ("NOT_SERVING", 2), ("SERVICE_UNKNOWN", 3)],
            }],
            ..MessageSchema::new(
                "HealthCheckResponse",
                &[FieldSchema::new(
                    "status",
                    1,
                    FieldType::Enum(".grpc.health.v1.HealthCheckResponse.ServingStatus"),
                )],
            )
        },
        MessageSchema::new("HealthListRequest", &[]),
        MessageSchema {
            messages: &[MessageSchema {
                is_map_entry: true,
                ..MessageSchema::new(
                    "StatusesEntry",
                    &[
                        FieldSchema::new("key", 1, FieldType::String),
                        FieldSchema::new(
                            "value",
                            2,
                            FieldType::Message(".grpc.health.v1.HealthCheckResponse"),
                        ),
                    ],
                )
            }],
            ..MessageSchema::new(
                "HealthListResponse",
                &[FieldSchema::new(
                    "statuses",
                    1,
                    FieldType::Message(".grpc.health.v1.HealthListResponse.StatusesEntry"),
                )
                .repeated()],
            )
        },
    ],
    enums: &[],
    services: &[ServiceSchema {
        full_name: "grpc.health.v1.Health",
        methods: &[
            MethodSchema {
                name: "Check",
                input: ".grpc.health.v1.HealthCheckRequest",
                output: ".grpc.health.v1.HealthCheckResponse",
                streaming: Streaming::None,
            },
            MethodSchema {
                name: "List",
                input: ".grpc.health.v1.HealthListRequest",
                output: ".grpc.health.v1.HealthListResponse",
                streaming: Streaming::None,
            },
            MethodSchema {
                name: "Watch",
                input: ".grpc.health.v1.HealthCheckRequest",
                output: ".grpc.health.v1.HealthCheckResponse",
                streaming: Streaming::ServerOnly,
            },
        ],
    }],
};

pub static REFLECTION_V1: FileSchema =
    reflection!("grpc/reflection/v1/reflection.proto", "grpc.reflection.v1");
pub static REFLECTION_V1ALPHA: FileSchema =
    reflection!("grpc/reflection/v1alpha/reflection.proto", "grpc.reflection.v1alpha");

/// The two versions differ only in their names.
macro_rules! reflection {
    ($name:literal, $package:literal) => {
        FileSchema {
            name: $name,
            package: $package,
            dependencies: &[],
            messages: &[
                MessageSchema {
                    oneof: Some("message_request"),
                    ..MessageSchema::new(
                        "ServerReflectionRequest",
                        &[
                            FieldSchema::new("host", 1, FieldType::String),
                            FieldSchema::new("file_by_filename", 3, FieldType::String).in_oneof(),
                            FieldSchema::new("file_containing_symbol", 4, FieldType::String).in_oneof(),
                            FieldSchema::new(
                                "file_containing_extension",
                                5,
                                FieldType::Message(concat!(".", $package, ".ExtensionRequest")),
                            )
                            .in_oneof(),
                            FieldSchema::new("all_extension_numbers_of_type", 6, FieldType::String)
                                .in_oneof(),
                            FieldSchema::new("list_services", 7, FieldType::String).in_oneof(),
                        ],
                    )
                },
                MessageSchema::new(
                    "ExtensionRequest",
                    &[
                        FieldSchema::new("containing_type", 1, FieldType::String),
                        FieldSchema::new("extension_number", 2, FieldType::Int32),
                    ],
                ),
                MessageSchema {
                    oneof: Some("message_response"),
                    ..MessageSchema::new(
                        "ServerReflectionResponse",
                        &[
                            FieldSchema::new("valid_host", 1, FieldType::String),
                            FieldSchema::new(
                                "original_request",
                                2,
                                FieldType::Message(concat!(".", $package, ".ServerReflectionRequest")),
                            ),
                            FieldSchema::new(
                                "file_descriptor_response",
                                4,
                                FieldType::Message(concat!(".", $package, ".FileDescriptorResponse")),
                            )
                            .in_oneof(),
                            FieldSchema::new(
                                "all_extension_numbers_response",
                                5,
                                FieldType::Message(concat!(".", $package, ".ExtensionNumberResponse")),
                            )
                            .in_oneof(),
                            FieldSchema::new(
                                "list_services_response",
                                6,
                                FieldType::Message(concat!(".", $package, ".ListServiceResponse")),
                            )
                            .in_oneof(),
                            FieldSchema::new(
                                "error_response",
                                7,
                                FieldType::Message(concat!(".", $package, ".ErrorResponse")),
                            )
                            .in_oneof(),
                        ],
                    )
                },
                MessageSchema::new(
                    "FileDescriptorResponse",
                    &[FieldSchema::new("file_descriptor_proto", 1, FieldType::Bytes).repeated()],
                ),
                MessageSchema::new(
                    "ExtensionNumberResponse",
                    &[
                        FieldSchema::new("base_type_name", 1, FieldType::String),
                        FieldSchema::new("extension_number", 2, FieldType::Int32).repeated(),
                    ],
                ),
                MessageSchema::new(
                    "ListServiceResponse",
                    &[FieldSchema::new(
                        "service",
                        1,
                        FieldType::Message(concat!(".", $package, ".ServiceResponse")),
                    )
                    .repeated()],
                ),
                MessageSchema::new("ServiceResponse", &[FieldSchema::new("name", 1, FieldType::String)]),
                MessageSchema::new(
                    "ErrorResponse",
                    &[
                        FieldSchema::new("error_code", 1, FieldType::Int32),
                        FieldSchema::new("error_message", 2, FieldType::String),
                    ],
                ),
            ],
            enums: &[],
            services: &[ServiceSchema {
                full_name: concat!($package, ".ServerReflection"),
                methods: &[MethodSchema {
                    name: "ServerReflectionInfo",
                    input: concat!(".", $package, ".ServerReflectionRequest"),
                    output: concat!(".", $package, ".ServerReflectionResponse"),
                    streaming: Streaming::Bidirectional,
                }],
            }],
        }
    };
}
use reflection;
