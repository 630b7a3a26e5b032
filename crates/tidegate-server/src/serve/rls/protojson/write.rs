//! Writes a response as protojson, without spaces.

use std::fmt::Write as _;

use tidegate::rules::{Metadata, MetadataValue};

use crate::serve::rls::{CurrentLimit, DescriptorStatus, DynamicMetadata, Header, RlsResponse, RlsUnit};

/// Appends a response to `json`.
pub fn write(response: &RlsResponse<'_>, json: &mut String) {
    let mut object = ObjectWriter::begin(json);
    object.text("overallCode", response.overall.code.as_str());
    object.list("statuses", &response.statuses, write_status);
    object.list("responseHeadersToAdd", &response.response_headers, write_header);
    object.list("requestHeadersToAdd", &response.request_headers, write_header);
    if let Some(metadata) = &response.metadata {
        write_metadata(object.name("dynamicMetadata"), metadata);
    }
    object.end();
}

fn write_status(json: &mut String, status: &DescriptorStatus<'_>) {
    let mut object = ObjectWriter::begin(json);
    object.text("code", status.code.as_str());
    if let Some(limit) = &status.limit {
        write_limit(object.name("currentLimit"), limit);
    }
    object.number("limitRemaining", status.remaining);
    if let Some(seconds) = status.until_reset_seconds {
        // Writing to a string does not fail.
        let _ = write!(object.name("durationUntilReset"), "\"{seconds}s\"");
    }
    object.end();
}

fn write_limit(json: &mut String, limit: &CurrentLimit<'_>) {
    let mut object = ObjectWriter::begin(json);
    if !limit.name.is_empty() {
        object.text("name", limit.name);
    }
    object.number("requestsPerUnit", limit.requests_per_unit);
    if limit.unit != RlsUnit::Unknown {
        object.text("unit", limit.unit.as_str());
    }
    object.end();
}

fn write_header(json: &mut String, header: &Header) {
    let mut object = ObjectWriter::begin(json);
    object.text("key", header.name);
    if !header.value.is_empty() {
        object.text("value", &header.value);
    }
    object.end();
}

/// Writes a `google.protobuf.Struct`: names are sorted, and zero values are written too.
fn write_metadata(json: &mut String, metadata: &DynamicMetadata<'_>) {
    let mut object = ObjectWriter::begin(json);
    object.text("decision", metadata.decision);
    let _ = write!(object.name("degraded"), "{}", metadata.degraded);
    let _ = write!(object.name("delay_ms"), "{}", metadata.delay_ms);
    if let Some(limit) = metadata.limit {
        object.text("limit", &limit.to_string());
    }
    if !metadata.rule_metadata.is_empty() {
        write_object(object.name("metadata"), &metadata.rule_metadata);
    }
    if let Some(wait) = metadata.retry_after_ms {
        let _ = write!(object.name("retry_after_ms"), "{wait}");
    }
    if let Some(rule) = metadata.rule {
        object.text("rule", rule);
    }
    object.end();
}

fn write_object(json: &mut String, metadata: &Metadata) {
    let mut object = ObjectWriter::begin(json);
    metadata.iter().for_each(|(name, value)| write_value(object.name(name), value));
    object.end();
}

fn write_value(json: &mut String, value: &MetadataValue) {
    match value {
        MetadataValue::Null => json.push_str("null"),
        MetadataValue::Boolean(truth) => json.push_str(if *truth { "true" } else { "false" }),
        MetadataValue::Number(number) => _ = write!(json, "{number}"),
        MetadataValue::Text(text) => write_text(json, text),
        MetadataValue::List(values) => write_list(json, values, write_value),
        MetadataValue::Object(object) => write_object(json, object),
    }
}

/// Writes an object.
struct ObjectWriter<'j> {
    json: &'j mut String,
    is_empty: bool,
}

impl<'j> ObjectWriter<'j> {
    fn begin(json: &'j mut String) -> Self {
        json.push('{');
        Self { json, is_empty: true }
    }

    /// Starts a field. The caller writes its value next.
    fn name(&mut self, name: &str) -> &mut String {
        if !std::mem::replace(&mut self.is_empty, false) {
            self.json.push(',');
        }
        write_text(self.json, name);
        self.json.push(':');
        self.json
    }

    fn text(&mut self, name: &str, text: &str) {
        write_text(self.name(name), text);
    }

    /// Writes a number, unless it is zero.
    fn number(&mut self, name: &str, number: u32) {
        if number > 0 {
            let json = self.name(name);
            json.push_str(itoa::Buffer::new().format(number));
        }
    }

    /// Writes a list, unless it is empty.
    fn list<T>(&mut self, name: &str, items: &[T], write: impl Fn(&mut String, &T)) {
        if !items.is_empty() {
            write_list(self.name(name), items, write);
        }
    }

    fn end(self) {
        self.json.push('}');
    }
}

fn write_list<T>(json: &mut String, items: &[T], write: impl Fn(&mut String, &T)) {
    json.push('[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            json.push(',');
        }
        write(json, item);
    }
    json.push(']');
}

fn write_text(json: &mut String, text: &str) {
    json.push('"');
    for c in text.chars() {
        match c {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            c if c.is_control() => {
                // Control characters need at most four hex digits.
                let _ = write!(json, "\\u{:04x}", c as u32);
            }
            c => json.push(c),
        }
    }
    json.push('"');
}
