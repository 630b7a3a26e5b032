//! Writes `envoy.service.ratelimit.v3.RateLimitResponse`.

use tidegate::rules::{Metadata, MetadataValue};

use crate::serve::grpc::wire::Writer;
use crate::serve::rls::{CurrentLimit, DescriptorStatus, DynamicMetadata, Header, RlsResponse};

pub fn write_response(out: &mut Writer<'_>, response: &RlsResponse<'_>) {
    out.varint(1, response.overall.code as u64);
    for status in &response.statuses {
        out.message(2, |out| write_status(out, status));
    }
    for header in &response.response_headers {
        out.message(3, |out| write_header(out, header));
    }
    for header in &response.request_headers {
        out.message(4, |out| write_header(out, header));
    }
    if let Some(metadata) = &response.metadata {
        out.message(6, |out| write_metadata(out, metadata));
    }
}

fn write_status(out: &mut Writer<'_>, status: &DescriptorStatus<'_>) {
    out.varint(1, status.code as u64);
    if let Some(limit) = &status.limit {
        out.message(2, |out| write_limit(out, limit));
    }
    out.varint(3, status.remaining.into());
    if let Some(seconds) = status.until_reset_seconds {
        // A `google.protobuf.Duration` of whole seconds.
        out.message(4, |out| out.varint(1, seconds));
    }
}

fn write_limit(out: &mut Writer<'_>, limit: &CurrentLimit<'_>) {
    out.varint(1, limit.requests_per_unit.into());
    out.varint(2, limit.unit as u64);
    out.text(3, limit.name);
}

fn write_header(out: &mut Writer<'_>, header: &Header) {
    out.text(1, header.name);
    out.text(2, &header.value);
}

/// Writes the metadata as a `google.protobuf.Struct`.
fn write_metadata(out: &mut Writer<'_>, metadata: &DynamicMetadata<'_>) {
    let mut object = StructWriter { out };
    object.text("decision", metadata.decision);
    object.boolean("degraded", metadata.degraded);
    object.number("delay_ms", metadata.delay_ms);
    if let Some(limit) = metadata.limit {
        object.text("limit", &limit.to_string());
    }
    if !metadata.rule_metadata.is_empty() {
        object.value("metadata", |value| value.message(5, |out| write_object(out, &metadata.rule_metadata)));
    }
    if let Some(wait) = metadata.retry_after_ms {
        object.number("retry_after_ms", wait);
    }
    if let Some(rule) = metadata.rule {
        object.text("rule", rule);
    }
}

/// Writes a `google.protobuf.Struct`.
fn write_object(out: &mut Writer<'_>, metadata: &Metadata) {
    let mut object = StructWriter { out };
    metadata.iter().for_each(|(name, value)| object.value(name, |out| write_value(out, value)));
}

/// Writes a `google.protobuf.Value`.
fn write_value(out: &mut Writer<'_>, value: &MetadataValue) {
    match value {
        MetadataValue::Null => out.varint_or_zero(1, 0),
        MetadataValue::Number(number) => out.double_or_zero(2, *number),
        MetadataValue::Text(text) => out.bytes_or_empty(3, text.as_bytes()),
        MetadataValue::Boolean(truth) => out.varint_or_zero(4, (*truth).into()),
        MetadataValue::Object(object) => out.message(5, |out| write_object(out, object)),
        MetadataValue::List(values) => out.message(6, |out| {
            values.iter().for_each(|value| out.message(1, |out| write_value(out, value)));
        }),
    }
}

/// Writes a `google.protobuf.Struct`.
struct StructWriter<'w, 'b> {
    out: &'w mut Writer<'b>,
}

impl StructWriter<'_, '_> {
    fn text(&mut self, name: &str, text: &str) {
        self.value(name, |value| value.bytes_or_empty(3, text.as_bytes()));
    }

    fn boolean(&mut self, name: &str, truth: bool) {
        self.value(name, |value| value.varint_or_zero(4, truth.into()));
    }

    #[allow(clippy::cast_precision_loss, reason = "a protobuf struct has only doubles")]
    fn number(&mut self, name: &str, number: u64) {
        self.value(name, |value| value.double_or_zero(2, number as f64));
    }

    fn value(&mut self, name: &str, write: impl FnOnce(&mut Writer<'_>)) {
        self.out.message(1, |entry| {
            entry.text(1, name);
            entry.message(2, write);
        });
    }
}
