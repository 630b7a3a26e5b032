//! Reads `envoy.service.ratelimit.v3.RateLimitRequest`.

use tidegate::rules::Entry;
use tidegate_core::rules::RequestLimit;

use crate::serve::grpc::wire::{Reader, Value, WireError};
use crate::serve::rls::{HitsMode, RlsDescriptor, RlsError, RlsRequest, RlsUnit};

/// Reads a request, which borrows from `bytes`. Unknown fields are skipped.
pub fn read_request(bytes: &[u8]) -> Result<RlsRequest<'_>, RlsError> {
    let mut request = RlsRequest::default();
    let mut fields = Reader::new(bytes);
    while let Some(field) = fields.next()? {
        match (field.number, field.value) {
            (1, Value::Bytes { bytes, .. }) => request.set_domain(utf8(bytes, "`domain`")?),
            (2, Value::Bytes { bytes, at }) => read_descriptor(Reader::nested(bytes, at), &mut request)?,
            (3, Value::Varint(hits)) => request.set_hits_addend(low_32(hits)),
            _ => {}
        }
    }
    request.validate()
}

fn read_descriptor<'a>(mut fields: Reader<'a>, request: &mut RlsRequest<'a>) -> Result<(), RlsError> {
    let mut descriptor = RlsDescriptor::default();
    let mut limit: Option<RawLimit> = None;
    while let Some(field) = fields.next()? {
        match (field.number, field.value) {
            (1, Value::Bytes { bytes, at }) => request.push_entry(read_entry(Reader::nested(bytes, at))?)?,
            // Protobuf merges a message that appears twice: later fields override earlier ones.
            (2, Value::Bytes { bytes, at }) => {
                read_limit(Reader::nested(bytes, at), limit.get_or_insert_default())?;
            }
            (3, Value::Bytes { bytes, at }) => {
                let hits = read_number(Reader::nested(bytes, at))?;
                descriptor.hits_addend = hits.or(descriptor.hits_addend).or(Some(0));
            }
            (4, Value::Varint(is_negative)) => {
                descriptor.hits = if is_negative == 0 { HitsMode::Charge } else { HitsMode::Refund };
            }
            _ => {}
        }
    }
    descriptor.limit = limit.map(RawLimit::validate).transpose()?;
    request.push_descriptor(descriptor)
}

fn read_entry<'a>(mut fields: Reader<'a>) -> Result<Entry<'a>, RlsError> {
    let mut entry = Entry { key: "", value: "" };
    while let Some(field) = fields.next()? {
        match (field.number, field.value) {
            (1, Value::Bytes { bytes, .. }) => entry.key = utf8(bytes, "the key of an entry")?,
            (2, Value::Bytes { bytes, .. }) => entry.value = utf8(bytes, "the value of an entry")?,
            _ => {}
        }
    }
    Ok(entry)
}

/// The limit of a descriptor, not yet validated.
#[derive(Clone, Copy, Debug, Default)]
struct RawLimit {
    requests_per_unit: u32,
    unit: u64,
}

impl RawLimit {
    fn validate(self) -> Result<RequestLimit, RlsError> {
        let unit = RlsUnit::from_number(self.unit).and_then(RlsUnit::to_unit);
        let per = unit.ok_or(RlsError::UnknownUnit(self.unit))?;
        Ok(RequestLimit { units: self.requests_per_unit, per })
    }
}

fn read_limit(mut fields: Reader<'_>, limit: &mut RawLimit) -> Result<(), RlsError> {
    while let Some(field) = fields.next()? {
        match (field.number, field.value) {
            (1, Value::Varint(units)) => limit.requests_per_unit = low_32(units),
            (2, Value::Varint(unit)) => limit.unit = unit,
            _ => {}
        }
    }
    Ok(())
}

/// Reads a wrapped number (`UInt64Value`), which distinguishes zero from absent.
fn read_number(mut fields: Reader<'_>) -> Result<Option<u64>, RlsError> {
    let mut number = None;
    while let Some(field) = fields.next()? {
        if let (1, Value::Varint(value)) = (field.number, field.value) {
            number = Some(value);
        }
    }
    Ok(number)
}

fn utf8<'a>(bytes: &'a [u8], what: &'static str) -> Result<&'a str, RlsError> {
    std::str::from_utf8(bytes).map_err(|_| RlsError::NotUtf8(what))
}

/// Takes the low 32 bits, as every protobuf reader does for a 32-bit field.
#[allow(clippy::cast_possible_truncation, reason = "truncation is intended")]
fn low_32(number: u64) -> u32 {
    number as u32
}

impl From<WireError> for RlsError {
    fn from(WireError { what, at }: WireError) -> Self {
        Self::Malformed { what, at }
    }
}
