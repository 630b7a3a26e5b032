//! The value of overrides in the config store: JSON with a format number.
//!
//! ```text
//! {"v":1,"overrides":[{"limit":5,"per_ns":1000000000,"set_at":1767225600000000000,"author":"ann","note":"#4711"}]}
//! ```
//!
//! Fields that are not set are left out. A record with a greater format number was written by a newer version: it is reported
//! and not used. An unknown field is an error too, because ignoring it could lift a limit.

use serde_json::{Map, Value};
use tidegate_core::rules::{
    Access, BlockStatus, KeyOverrides, Override, OverrideValues, PreviousTier, PreviousValues,
};

use crate::config::{Fields, RecordError, encode_record, put};

/// The number of this format.
pub const RECORD_FORMAT: u64 = 1;
/// The most overrides of a key: for each limit name a block, and one besides.
pub(super) const OVERRIDES_MAX: usize = 64;
/// The most previous values of an override.
pub(super) const PREVIOUS_MAX: usize = 8;

/// Writes a record.
pub(super) fn encode(overrides: &[Override]) -> Box<[u8]> {
    let list: Vec<Value> = overrides.iter().map(|one| Value::Object(encode_override(one))).collect();
    encode_record(RECORD_FORMAT, [("overrides", list.into())])
}

fn encode_override(one: &Override) -> Map<String, Value> {
    let mut fields = Map::new();
    let text = |text: &Option<Box<str>>| text.as_deref().map(Value::from);
    put(&mut fields, "limit_name", text(&one.limit_name));
    encode_values(&mut fields, &one.values);
    put(&mut fields, "tier", text(&one.tier));
    put(
        &mut fields,
        "access",
        match one.access {
            Access::Limited => None,
            Access::Allowed => Some("allow".into()),
            Access::Unlimited => Some("unlimited".into()),
            Access::Blocked(_) => Some("blocked".into()),
        },
    );
    if one.access == Access::Blocked(BlockStatus::Forbidden) {
        put(&mut fields, "status", Some(BlockStatus::Forbidden.code().into()));
    }
    put(&mut fields, "expires_at", one.expires_at.map(|at| at.as_nanos().into()));
    if !one.previous.is_empty() {
        let previous = one.previous.iter().map(|PreviousValues { values, tier, until }| {
            let mut fields = Map::new();
            encode_values(&mut fields, values);
            if let Some(PreviousTier { name, changed_at }) = tier {
                put(&mut fields, "tier", name.as_deref().map(Value::from));
                put(&mut fields, "changed_at", Some(changed_at.as_nanos().into()));
            }
            put(&mut fields, "until", Some(until.as_nanos().into()));
            Value::Object(fields)
        });
        put(&mut fields, "previous", Some(previous.collect::<Vec<_>>().into()));
    }
    put(&mut fields, "set_at", Some(one.set_at.as_nanos().into()));
    put(&mut fields, "author", text(&one.author));
    put(&mut fields, "note", text(&one.note));
    fields
}

fn encode_values(fields: &mut Map<String, Value>, values: &OverrideValues) {
    let OverrideValues { limit, per_ns, burst, sub_windows } = *values;
    for (name, value) in
        [("limit", limit), ("per_ns", per_ns), ("burst", burst), ("sub_windows", sub_windows)]
    {
        put(fields, name, value.map(Value::from));
    }
}

/// What the log says about a record that cannot be used.
pub(super) fn unusable(id: &str, error: &RecordError) -> String {
    format!("the override at {id:?} is not used: {error}")
}

/// Reads a record.
pub(super) fn decode(id: &str, version: u64, bytes: &[u8]) -> Result<KeyOverrides, RecordError> {
    let mut record = Fields::of_record(bytes, RECORD_FORMAT)?;
    let overrides = record.list("overrides", OVERRIDES_MAX)?;
    record.finish()?;
    let overrides = overrides.into_iter().map(decode_override).collect::<Result<_, _>>()?;
    Ok(KeyOverrides { id: id.into(), version, overrides })
}

fn decode_override(value: Value) -> Result<Override, RecordError> {
    let mut fields = Fields::new(value)?;
    let status = match fields.number("status")? {
        None | Some(429) => BlockStatus::TooManyRequests,
        Some(403) => BlockStatus::Forbidden,
        Some(_) => return Err(RecordError::Damaged("unknown status".into())),
    };
    let access = match fields.text("access")?.as_deref() {
        None => Access::Limited,
        Some("allow") => Access::Allowed,
        Some("unlimited") => Access::Unlimited,
        Some("blocked") => Access::Blocked(status),
        Some(_) => return Err(RecordError::Damaged("unknown access".into())),
    };
    let previous = match fields.has("previous") {
        false => Vec::new(),
        true => fields
            .list("previous", PREVIOUS_MAX)?
            .into_iter()
            .map(|value| {
                let mut fields = Fields::new(value)?;
                let until = fields.timestamp("until")?.unwrap_or_default();
                let (values, name) = (decode_values(&mut fields)?, fields.text("tier")?);
                let tier = fields.timestamp("changed_at")?;
                let tier = tier.map(|changed_at| PreviousTier { name, changed_at });
                fields.finish().map(|()| PreviousValues { values, tier, until })
            })
            .collect::<Result<_, _>>()?,
    };
    let one = Override {
        limit_name: fields.text("limit_name")?,
        values: decode_values(&mut fields)?,
        tier: fields.text("tier")?,
        access,
        expires_at: fields.timestamp("expires_at")?,
        previous,
        set_at: fields.timestamp("set_at")?.unwrap_or_default(),
        author: fields.text("author")?,
        note: fields.text("note")?,
    };
    fields.finish().map(|()| one)
}

fn decode_values(fields: &mut Fields) -> Result<OverrideValues, RecordError> {
    Ok(OverrideValues {
        limit: fields.number("limit")?,
        per_ns: fields.number("per_ns")?,
        burst: fields.number("burst")?,
        sub_windows: fields.number("sub_windows")?,
    })
}

#[cfg(test)]
mod tests {
    use tidegate_core::Timestamp;

    use super::*;

    #[test]
    fn a_record_decodes_to_its_overrides() {
        let at = Timestamp::from_nanos;
        let values =
            OverrideValues { limit: Some(5), per_ns: Some(1_000_000_000), burst: None, sub_windows: Some(7) };
        let full = Override {
            limit_name: Some("daily".into()),
            values,
            tier: Some("pro".into()),
            access: Access::Blocked(BlockStatus::Forbidden),
            expires_at: Some(at(7)),
            previous: [None, Some(None), Some(Some("free".into()))]
                .map(|tier| PreviousValues {
                    values: OverrideValues::default(),
                    tier: tier.map(|name| PreviousTier { name, changed_at: at(8) }),
                    until: at(9),
                })
                .into(),
            set_at: at(3),
            author: Some("ann".into()),
            note: Some("\"quoted\"\n".into()),
        };
        let accesses = [Access::Allowed, Access::Unlimited, Access::Blocked(BlockStatus::TooManyRequests)];
        let others = accesses.map(|access| Override { access, ..Override::default() });
        let overrides: Vec<Override> = [full].into_iter().chain(others).collect();
        let decoded = decode("id", 4, &encode(&overrides)).unwrap();
        assert_eq!(decoded, KeyOverrides { id: "id".into(), version: 4, overrides });
    }

    #[test]
    fn damaged_and_newer_records_are_errors() {
        assert_eq!(decode("id", 1, br#"{"v":2,"anything":[]}"#), Err(RecordError::Newer(2, 1)));
        let damaged: [&[u8]; 8] = [
            b"",
            b"\xff",
            b"7",
            b"{}",
            br#"{"v":1}"#,
            br#"{"v":1,"overrides":[{"limit":"5"}]}"#,
            br#"{"v":1,"overrides":[{"limits":5}]}"#,
            br#"{"v":1,"overrides":[{"access":"maybe"}]}"#,
        ];
        for bytes in damaged {
            assert!(matches!(decode("id", 1, bytes), Err(RecordError::Damaged(_))), "{bytes:?}");
        }
        let whole = encode(&[Override { note: Some("n".into()), ..Override::default() }]);
        for length in 0..whole.len() {
            assert!(decode("id", 1, &whole[..length]).is_err());
        }
    }
}
