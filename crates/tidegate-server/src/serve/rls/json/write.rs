//! An answer as protojson, without any spaces.

use std::fmt::Write as _;

use crate::serve::rls::{CurrentLimit, Header, DynamicMetadata, RlsResponse, RlsUnit, DescriptorStatus};

/// Writes an answer at the end of `json`.
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

/// A `google.protobuf.Struct`, whose names are sorted and whose values are written even if they are zero.
fn write_metadata(json: &mut String, metadata: &DynamicMetadata<'_>) {
    let mut object = ObjectWriter::begin(json);
    object.text("decision", metadata.decision);
    let _ = write!(object.name("degraded"), "{}", metadata.degraded);
    let _ = write!(object.name("delay_ms"), "{}", metadata.delay_ms);
    if let Some(limit) = metadata.limit {
        object.text("limit", &limit.to_string());
    }
    if !metadata.rule_metadata.is_empty() {
        let mut carried = ObjectWriter::begin(object.name("metadata"));
        metadata.rule_metadata.iter().for_each(|(name, value)| carried.text(name, value));
        carried.end();
    }
    if let Some(wait) = metadata.retry_after_ms {
        let _ = write!(object.name("retry_after_ms"), "{wait}");
    }
    if let Some(rule) = metadata.rule {
        object.text("rule", rule);
    }
    object.end();
}

/// An object that is being written.
struct ObjectWriter<'j> {
    json: &'j mut String,
    is_empty: bool,
}

impl<'j> ObjectWriter<'j> {
    fn begin(json: &'j mut String) -> Self {
        json.push('{');
        Self { json, is_empty: true }
    }

    /// Begins a field; its value is to be written next.
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

    /// Unless it is zero.
    fn number(&mut self, name: &str, number: u32) {
        if number > 0 {
            let json = self.name(name);
            json.push_str(itoa::Buffer::new().format(number));
        }
    }

    /// Unless it is empty.
    fn list<T>(&mut self, name: &str, all: &[T], write: impl Fn(&mut String, &T)) {
        if all.is_empty() {
            return;
        }
        let json = self.name(name);
        json.push('[');
        for (place, one) in all.iter().enumerate() {
            if place > 0 {
                json.push(',');
            }
            write(json, one);
        }
        json.push(']');
    }

    fn end(self) {
        self.json.push('}');
    }
}

fn write_text(json: &mut String, text: &str) {
    json.push('"');
    for c in text.chars() {
        match c {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            c if c.is_control() => {
                // Control characters are all of 16 bits.
                let _ = write!(json, "\\u{:04x}", c as u32);
            }
            c => json.push(c),
        }
    }
    json.push('"');
}
