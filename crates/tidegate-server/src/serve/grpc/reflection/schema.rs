//! The content of a .proto file as constants, and its encoding as a `google.protobuf.FileDescriptorProto`.

use bytes::{Bytes, BytesMut};

use crate::serve::grpc::wire::Writer;

#[derive(Debug)]
pub struct FileSchema {
    pub name: &'static str,
    pub package: &'static str,
    pub dependencies: &'static [&'static str],
    pub messages: &'static [MessageSchema],
    pub enums: &'static [EnumSchema],
    pub services: &'static [ServiceSchema],
}

#[derive(Debug)]
pub struct MessageSchema {
    pub name: &'static str,
    pub fields: &'static [FieldSchema],
    pub messages: &'static [MessageSchema],
    pub enums: &'static [EnumSchema],
    /// The oneof that contains the fields marked by [`FieldSchema::in_oneof`]. At most one per message.
    pub oneof: Option<&'static str>,
    /// Whether the message is the entry type of a map.
    pub is_map_entry: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct FieldSchema {
    name: &'static str,
    number: u32,
    field_type: FieldType,
    is_repeated: bool,
    is_in_oneof: bool,
}

/// The type of a field. Messages and enums have their full name, with a leading dot.
#[derive(Clone, Copy, Debug)]
pub enum FieldType {
    Double,
    Int64,
    Uint64,
    Int32,
    Bool,
    String,
    Message(&'static str),
    Bytes,
    Uint32,
    Enum(&'static str),
}

#[derive(Debug)]
pub struct EnumSchema {
    pub name: &'static str,
    pub values: &'static [(&'static str, u32)],
}

#[derive(Debug)]
pub struct ServiceSchema {
    pub full_name: &'static str,
    pub methods: &'static [MethodSchema],
}

#[derive(Debug)]
pub struct MethodSchema {
    pub name: &'static str,
    pub input: &'static str,
    pub output: &'static str,
    pub streaming: Streaming,
}

/// Which side sends more than one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streaming {
    None,
    ServerOnly,
    Bidirectional,
}

impl MessageSchema {
    /// A message with only fields.
    pub const fn new(name: &'static str, fields: &'static [FieldSchema]) -> Self {
        Self { name, fields, messages: &[], enums: &[], oneof: None, is_map_entry: false }
    }
}

impl FieldSchema {
    /// A field that is neither repeated nor in a oneof.
    pub const fn new(name: &'static str, number: u32, kind: FieldType) -> Self {
        Self { name, number, field_type: kind, is_repeated: false, is_in_oneof: false }
    }

    /// Makes the field repeated.
    pub const fn repeated(self) -> Self {
        Self { is_repeated: true, ..self }
    }

    /// Puts the field into the message's oneof.
    pub const fn in_oneof(self) -> Self {
        Self { is_in_oneof: true, ..self }
    }
}

impl FieldType {
    const fn number(self) -> u64 {
        match self {
            Self::Double => 1,
            Self::Int64 => 3,
            Self::Uint64 => 4,
            Self::Int32 => 5,
            Self::Bool => 8,
            Self::String => 9,
            Self::Message(_) => 11,
            Self::Bytes => 12,
            Self::Uint32 => 13,
            Self::Enum(_) => 14,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Message(name) | Self::Enum(name) => name,
            _ => "",
        }
    }
}

impl FileSchema {
    /// Whether the file defines this full name: a message, an enum, a service, a field or a method.
    pub fn contains(&self, symbol: &str) -> bool {
        let Some(rest) = strip_name(symbol, self.package) else { return false };
        let in_service = |service: &ServiceSchema| match strip_name(symbol, service.full_name) {
            Some(method) => service.methods.iter().any(|other| other.name == method),
            None => symbol == service.full_name,
        };
        self.messages.iter().any(|message| message.contains(rest))
            || self.enums.iter().any(|enumeration| enumeration.contains(rest))
            || self.services.iter().any(in_service)
    }

    /// As a `FileDescriptorProto`.
    pub fn encode(&self) -> Bytes {
        let mut bytes = BytesMut::new();
        let mut out = Writer::new(&mut bytes);
        out.text(1, self.name);
        out.text(2, self.package);
        self.dependencies.iter().for_each(|name| out.text(3, name));
        self.messages.iter().for_each(|message| out.message(4, |out| message.write(out)));
        self.enums.iter().for_each(|enumeration| out.message(5, |out| enumeration.write(out)));
        self.services.iter().for_each(|service| out.message(6, |out| service.write(self.package, out)));
        out.text(12, "proto3");
        bytes.freeze()
    }
}

/// The part of `symbol` after `name` and a dot.
fn strip_name<'s>(symbol: &'s str, name: &str) -> Option<&'s str> {
    symbol.strip_prefix(name)?.strip_prefix('.')
}

impl MessageSchema {
    fn contains(&self, symbol: &str) -> bool {
        if symbol == self.name {
            return true;
        }
        let Some(rest) = strip_name(symbol, self.name) else { return false };
        self.fields.iter().any(|field| field.name == rest)
            || self.messages.iter().any(|message| message.contains(rest))
            || self.enums.iter().any(|enumeration| enumeration.contains(rest))
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.text(1, self.name);
        self.fields.iter().for_each(|field| out.message(2, |out| field.write(out)));
        self.messages.iter().for_each(|message| out.message(3, |out| message.write(out)));
        self.enums.iter().for_each(|enumeration| out.message(4, |out| enumeration.write(out)));
        if self.is_map_entry {
            out.message(7, |options| options.varint(7, 1));
        }
        if let Some(oneof) = self.oneof {
            out.message(8, |out| out.text(1, oneof));
        }
    }
}

impl FieldSchema {
    fn write(&self, out: &mut Writer<'_>) {
        const OPTIONAL: u64 = 1;
        const REPEATED: u64 = 3;
        out.text(1, self.name);
        out.varint(3, self.number.into());
        out.varint(4, if self.is_repeated { REPEATED } else { OPTIONAL });
        out.varint(5, self.field_type.number());
        out.text(6, self.field_type.name());
        if self.is_in_oneof {
            out.varint_or_zero(9, 0);
        }
        out.text(10, &json_name(self.name));
    }
}

impl EnumSchema {
    fn contains(&self, symbol: &str) -> bool {
        symbol == self.name
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.text(1, self.name);
        for (name, number) in self.values {
            out.message(2, |out| {
                out.text(1, name);
                out.varint_or_zero(2, (*number).into());
            });
        }
    }
}

impl ServiceSchema {
    fn write(&self, package: &str, out: &mut Writer<'_>) {
        out.text(1, strip_name(self.full_name, package).unwrap_or(self.full_name));
        for method in self.methods {
            out.message(2, |out| {
                out.text(1, method.name);
                out.text(2, method.input);
                out.text(3, method.output);
                out.varint(5, (method.streaming == Streaming::Bidirectional).into());
                out.varint(6, (method.streaming != Streaming::None).into());
            });
        }
    }
}

/// The name in JSON: `limit_remaining` becomes `limitRemaining`.
fn json_name(name: &str) -> String {
    let mut is_upper = false;
    let mut json = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '_' => is_upper = true,
            c if std::mem::take(&mut is_upper) => json.push(c.to_ascii_uppercase()),
            c => json.push(c),
        }
    }
    json
}
