//! What a file of protobuf is made of, and how it is encoded: as a `google.protobuf.FileDescriptorProto`.

use bytes::{Bytes, BytesMut};

use crate::serve::grpc::wire::Writer;

/// A file.
#[derive(Debug)]
pub struct FileSchema {
    pub name: &'static str,
    pub package: &'static str,
    pub dependencies: &'static [&'static str],
    pub messages: &'static [MessageSchema],
    pub enums: &'static [EnumSchema],
    pub services: &'static [ServiceSchema],
}

/// A message.
#[derive(Debug)]
pub struct MessageSchema {
    pub name: &'static str,
    pub fields: &'static [FieldSchema],
    pub messages: &'static [MessageSchema],
    pub enums: &'static [EnumSchema],
    /// Of the fields that [`Field::in_oneof`] marks, which are alternatives; there is one such set at most.
    pub oneof: Option<&'static str>,
    /// Whether it stands for the pairs of a map.
    pub is_map_entry: bool,
}

/// A field.
#[derive(Clone, Copy, Debug)]
pub struct FieldSchema {
    name: &'static str,
    number: u32,
    field_type: FieldType,
    is_repeated: bool,
    is_in_oneof: bool,
}

/// What a value is. Messages and enums by their full names, with a dot in front.
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

/// An enum.
#[derive(Debug)]
pub struct EnumSchema {
    pub name: &'static str,
    pub values: &'static [(&'static str, u32)],
}

/// A service.
#[derive(Debug)]
pub struct ServiceSchema {
    pub full_name: &'static str,
    pub methods: &'static [MethodSchema],
}

/// A method.
#[derive(Debug)]
pub struct MethodSchema {
    pub name: &'static str,
    pub input: &'static str,
    pub output: &'static str,
    pub streaming: Streaming,
}

/// Who sends more than one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streaming {
    None,
    ServerOnly,
    Bidirectional,
}

impl MessageSchema {
    /// A message of these fields.
    pub const fn new(name: &'static str, fields: &'static [FieldSchema]) -> Self {
        Self { name, fields, messages: &[], enums: &[], oneof: None, is_map_entry: false }
    }
}

impl FieldSchema {
    /// A field.
    pub const fn new(name: &'static str, number: u32, kind: FieldType) -> Self {
        Self { name, number, field_type: kind, is_repeated: false, is_in_oneof: false }
    }

    /// The same, any number of times.
    pub const fn repeated(self) -> Self {
        Self { is_repeated: true, ..self }
    }

    /// The same, as an alternative.
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
    /// Whether something of this full name is in it: a message, an enum, a service, or a field, value or method of one.
    pub fn contains(&self, symbol: &str) -> bool {
        let Some(rest) = strip_name(symbol, self.package) else { return false };
        let in_service = |service: &ServiceSchema| match strip_name(symbol, service.full_name) {
            Some(method) => service.methods.iter().any(|known| known.name == method),
            None => symbol == service.full_name,
        };
        self.messages.iter().any(|message| message.contains(rest))
            || self.enums.iter().any(|one| one.contains(rest))
            || self.services.iter().any(in_service)
    }

    /// Encoded.
    pub fn encode(&self) -> Bytes {
        let mut bytes = BytesMut::new();
        let mut out = Writer::new(&mut bytes);
        out.text(1, self.name);
        out.text(2, self.package);
        self.dependencies.iter().for_each(|name| out.text(3, name));
        self.messages.iter().for_each(|message| out.message(4, |out| message.write(out)));
        self.enums.iter().for_each(|one| out.message(5, |out| one.write(out)));
        self.services.iter().for_each(|service| out.message(6, |out| service.write(self.package, out)));
        out.text(12, "proto3");
        bytes.freeze()
    }
}

/// What comes after `name` and a dot.
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
            || self.enums.iter().any(|one| one.contains(rest))
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.text(1, self.name);
        self.fields.iter().for_each(|field| out.message(2, |out| field.write(out)));
        self.messages.iter().for_each(|message| out.message(3, |out| message.write(out)));
        self.enums.iter().for_each(|one| out.message(4, |out| one.write(out)));
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

/// `limit_remaining` is `limitRemaining` in JSON.
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
