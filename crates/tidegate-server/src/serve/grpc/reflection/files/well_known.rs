//! Files that come with protobuf. Of `wrappers.proto`, what is needed.

use crate::serve::grpc::reflection::schema::{Enum, Field, File, Kind, Message};

pub static DURATION: File = File {
    name: "google/protobuf/duration.proto",
    package: "google.protobuf",
    dependencies: &[],
    messages: &[Message::of("Duration", SECONDS_AND_NANOS)],
    enums: &[],
    services: &[],
};

pub static TIMESTAMP: File = File {
    name: "google/protobuf/timestamp.proto",
    package: "google.protobuf",
    dependencies: &[],
    messages: &[Message::of("Timestamp", SECONDS_AND_NANOS)],
    enums: &[],
    services: &[],
};

const SECONDS_AND_NANOS: &[Field] =
    &[Field::new("seconds", 1, Kind::Int64), Field::new("nanos", 2, Kind::Int32)];

pub static WRAPPERS: File = File {
    name: "google/protobuf/wrappers.proto",
    package: "google.protobuf",
    dependencies: &[],
    messages: &[Message::of("UInt64Value", &[Field::new("value", 1, Kind::Uint64)])],
    enums: &[],
    services: &[],
};

pub static STRUCT: File = File {
    name: "google/protobuf/struct.proto",
    package: "google.protobuf",
    dependencies: &[],
    messages: &[
        Message {
            messages: &[Message {
                is_map_entry: true,
                ..Message::of(
                    "FieldsEntry",
                    &[
                        Field::new("key", 1, Kind::Text),
                        Field::new("value", 2, Kind::Message(".google.protobuf.Value")),
                    ],
                )
            }],
            ..Message::of(
                "Struct",
                &[Field::new("fields", 1, Kind::Message(".google.protobuf.Struct.FieldsEntry")).list()],
            )
        },
        Message {
            oneof: Some("kind"),
            ..Message::of(
                "Value",
                &[
                    Field::new("null_value", 1, Kind::Enum(".google.protobuf.NullValue")).in_oneof(),
                    Field::new("number_value", 2, Kind::Double).in_oneof(),
                    Field::new("string_value", 3, Kind::Text).in_oneof(),
                    Field::new("bool_value", 4, Kind::Bool).in_oneof(),
                    Field::new("struct_value", 5, Kind::Message(".google.protobuf.Struct")).in_oneof(),
                    Field::new("list_value", 6, Kind::Message(".google.protobuf.ListValue")).in_oneof(),
                ],
            )
        },
        Message::of("ListValue", &[Field::new("values", 1, Kind::Message(".google.protobuf.Value")).list()]),
    ],
    enums: &[Enum { name: "NullValue", values: &[("NULL_VALUE", 0)] }],
    services: &[],
};
