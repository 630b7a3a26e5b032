//! Protobuf's well-known files. `wrappers.proto` has only what is needed.

use super::schema::{EnumSchema, FieldSchema, FieldType, FileSchema, MessageSchema};

pub static DURATION: FileSchema = FileSchema {
    name: "google/protobuf/duration.proto",
    package: "google.protobuf",
    dependencies: &[],
    messages: &[MessageSchema::new("Duration", SECONDS_AND_NANOS)],
    enums: &[],
    services: &[],
};

pub static TIMESTAMP: FileSchema = FileSchema {
    name: "google/protobuf/timestamp.proto",
    package: "google.protobuf",
    dependencies: &[],
    messages: &[MessageSchema::new("Timestamp", SECONDS_AND_NANOS)],
    enums: &[],
    services: &[],
};

const SECONDS_AND_NANOS: &[FieldSchema] =
    &[FieldSchema::new("seconds", 1, FieldType::Int64), FieldSchema::new("nanos", 2, FieldType::Int32)];

pub static WRAPPERS: FileSchema = FileSchema {
    name: "google/protobuf/wrappers.proto",
    package: "google.protobuf",
    dependencies: &[],
    messages: &[MessageSchema::new("UInt64Value", &[FieldSchema::new("value", 1, FieldType::Uint64)])],
    enums: &[],
    services: &[],
};

pub static STRUCT: FileSchema = FileSchema {
    name: "google/protobuf/struct.proto",
    package: "google.protobuf",
    dependencies: &[],
    messages: &[
        MessageSchema {
            messages: &[MessageSchema {
                is_map_entry: true,
                ..MessageSchema::new(
                    "FieldsEntry",
                    &[
                        FieldSchema::new("key", 1, FieldType::String),
                        FieldSchema::new("value", 2, FieldType::Message(".google.protobuf.Value")),
                    ],
                )
            }],
            ..MessageSchema::new(
                "Struct",
                &[FieldSchema::new("fields", 1, FieldType::Message(".google.protobuf.Struct.FieldsEntry"))
                    .repeated()],
            )
        },
        MessageSchema {
            oneof: Some("kind"),
            ..MessageSchema::new(
                "Value",
                &[
                    FieldSchema::new("null_value", 1, FieldType::Enum(".google.protobuf.NullValue"))
                        .in_oneof(),
                    FieldSchema::new("number_value", 2, FieldType::Double).in_oneof(),
                    FieldSchema::new("string_value", 3, FieldType::String).in_oneof(),
                    FieldSchema::new("bool_value", 4, FieldType::Bool).in_oneof(),
                    FieldSchema::new("struct_value", 5, FieldType::Message(".google.protobuf.Struct"))
                        .in_oneof(),
                    FieldSchema::new("list_value", 6, FieldType::Message(".google.protobuf.ListValue"))
                        .in_oneof(),
                ],
            )
        },
        MessageSchema::new(
            "ListValue",
            &[FieldSchema::new("values", 1, FieldType::Message(".google.protobuf.Value")).repeated()],
        ),
    ],
    enums: &[EnumSchema { name: "NullValue", values: &[("NULL_VALUE", 0)] }],
    services: &[],
};
