//! Files of gRPC itself: health and reflection.

use crate::serve::grpc::reflection::schema::{Enum, Field, File, Kind, Message, Method, Service, Streams};

pub static HEALTH: File = File {
    name: "grpc/health/v1/health.proto",
    package: "grpc.health.v1",
    dependencies: &[],
    messages: &[
        Message::of("HealthCheckRequest", &[Field::new("service", 1, Kind::Text)]),
        Message {
            enums: &[Enum {
                name: "ServingStatus",
                values: &[("UNKNOWN", 0), ("SERVING", 1), ("NOT_SERVING", 2), ("SERVICE_UNKNOWN", 3)],
            }],
            ..Message::of(
                "HealthCheckResponse",
                &[Field::new("status", 1, Kind::Enum(".grpc.health.v1.HealthCheckResponse.ServingStatus"))],
            )
        },
        Message::of("HealthListRequest", &[]),
        Message {
            messages: &[Message {
                is_map_entry: true,
                ..Message::of(
                    "StatusesEntry",
                    &[
                        Field::new("key", 1, Kind::Text),
                        Field::new("value", 2, Kind::Message(".grpc.health.v1.HealthCheckResponse")),
                    ],
                )
            }],
            ..Message::of(
                "HealthListResponse",
                &[Field::new(
                    "statuses",
                    1,
                    Kind::Message(".grpc.health.v1.HealthListResponse.StatusesEntry"),
                )
                .list()],
            )
        },
    ],
    enums: &[],
    services: &[Service {
        full_name: "grpc.health.v1.Health",
        methods: &[
            Method {
                name: "Check",
                takes: ".grpc.health.v1.HealthCheckRequest",
                returns: ".grpc.health.v1.HealthCheckResponse",
                streams: Streams::Nobody,
            },
            Method {
                name: "List",
                takes: ".grpc.health.v1.HealthListRequest",
                returns: ".grpc.health.v1.HealthListResponse",
                streams: Streams::Nobody,
            },
            Method {
                name: "Watch",
                takes: ".grpc.health.v1.HealthCheckRequest",
                returns: ".grpc.health.v1.HealthCheckResponse",
                streams: Streams::Server,
            },
        ],
    }],
};

pub static REFLECTION_V1: File = reflection!("grpc/reflection/v1/reflection.proto", "grpc.reflection.v1");
pub static REFLECTION_V1ALPHA: File =
    reflection!("grpc/reflection/v1alpha/reflection.proto", "grpc.reflection.v1alpha");

/// The two versions differ in their names alone.
macro_rules! reflection {
    ($name:literal, $package:literal) => {
        File {
            name: $name,
            package: $package,
            dependencies: &[],
            messages: &[
                Message {
                    oneof: Some("message_request"),
                    ..Message::of(
                        "ServerReflectionRequest",
                        &[
                            Field::new("host", 1, Kind::Text),
                            Field::new("file_by_filename", 3, Kind::Text).in_oneof(),
                            Field::new("file_containing_symbol", 4, Kind::Text).in_oneof(),
                            Field::new(
                                "file_containing_extension",
                                5,
                                Kind::Message(concat!(".", $package, ".ExtensionRequest")),
                            )
                            .in_oneof(),
                            Field::new("all_extension_numbers_of_type", 6, Kind::Text).in_oneof(),
                            Field::new("list_services", 7, Kind::Text).in_oneof(),
                        ],
                    )
                },
                Message::of(
                    "ExtensionRequest",
                    &[
                        Field::new("containing_type", 1, Kind::Text),
                        Field::new("extension_number", 2, Kind::Int32),
                    ],
                ),
                Message {
                    oneof: Some("message_response"),
                    ..Message::of(
                        "ServerReflectionResponse",
                        &[
                            Field::new("valid_host", 1, Kind::Text),
                            Field::new(
                                "original_request",
                                2,
                                Kind::Message(concat!(".", $package, ".ServerReflectionRequest")),
                            ),
                            Field::new(
                                "file_descriptor_response",
                                4,
                                Kind::Message(concat!(".", $package, ".FileDescriptorResponse")),
                            )
                            .in_oneof(),
                            Field::new(
                                "all_extension_numbers_response",
                                5,
                                Kind::Message(concat!(".", $package, ".ExtensionNumberResponse")),
                            )
                            .in_oneof(),
                            Field::new(
                                "list_services_response",
                                6,
                                Kind::Message(concat!(".", $package, ".ListServiceResponse")),
                            )
                            .in_oneof(),
                            Field::new(
                                "error_response",
                                7,
                                Kind::Message(concat!(".", $package, ".ErrorResponse")),
                            )
                            .in_oneof(),
                        ],
                    )
                },
                Message::of(
                    "FileDescriptorResponse",
                    &[Field::new("file_descriptor_proto", 1, Kind::Bytes).list()],
                ),
                Message::of(
                    "ExtensionNumberResponse",
                    &[
                        Field::new("base_type_name", 1, Kind::Text),
                        Field::new("extension_number", 2, Kind::Int32).list(),
                    ],
                ),
                Message::of(
                    "ListServiceResponse",
                    &[Field::new("service", 1, Kind::Message(concat!(".", $package, ".ServiceResponse")))
                        .list()],
                ),
                Message::of("ServiceResponse", &[Field::new("name", 1, Kind::Text)]),
                Message::of(
                    "ErrorResponse",
                    &[Field::new("error_code", 1, Kind::Int32), Field::new("error_message", 2, Kind::Text)],
                ),
            ],
            enums: &[],
            services: &[Service {
                full_name: concat!($package, ".ServerReflection"),
                methods: &[Method {
                    name: "ServerReflectionInfo",
                    takes: concat!(".", $package, ".ServerReflectionRequest"),
                    returns: concat!(".", $package, ".ServerReflectionResponse"),
                    streams: Streams::Both,
                }],
            }],
        }
    };
}
use reflection;
