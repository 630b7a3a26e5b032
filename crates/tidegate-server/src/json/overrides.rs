//! Reads edits of overrides.
//!
//! ```text
//! {"domain": "api", "rule": "per-user", "key": {"user": "241531"}, "limit": "5 per second", "expires_in": "2h"}
//! {"key": {"user": "241531"}, "for": "15m"}
//! ```

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use tidegate::Timestamp;
use tidegate::overrides::{OverrideChange, OverridePlace};
use tidegate::rules::{Access, BlockStatus, OverrideValues};
use tidegate_core::LimitSpec;
use tidegate_core::text::{parse_duration, parse_number};

use super::fields::{optional_whole_number, whole_json_number};
use super::{ObjectSeed, RequestError, read_with};

const SECOND_NS: u64 = 1_000_000_000;

/// An override to set, as the API returns it too.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OverrideBody {
    domain: String,
    rule: String,
    key: BTreeMap<String, String>,
    limit_name: Option<String>,
    /// `5 per second`, or a number.
    limit: Option<Value>,
    per: Option<String>,
    #[serde(default, deserialize_with = "optional_whole_number")]
    burst: Option<u64>,
    #[serde(default, deserialize_with = "optional_whole_number")]
    sub_windows: Option<u64>,
    tier: Option<String>,
    #[serde(default)]
    unlimited: bool,
    #[serde(default)]
    blocked: bool,
    #[serde(default)]
    allow: bool,
    #[serde(default, deserialize_with = "optional_whole_number")]
    status: Option<u64>,
    expires_in: Option<String>,
    expires_at: Option<Value>,
    author: Option<String>,
    note: Option<String>,
    /// Only if the overrides of the key have this version.
    #[serde(default, deserialize_with = "optional_whole_number")]
    pub if_version: Option<u64>,
    // The API returns these fields. They are ignored, so that what it returned can be edited and sent back.
    #[serde(rename = "id")]
    _id: Option<IgnoredAny>,
    #[serde(rename = "version")]
    _version: Option<IgnoredAny>,
    #[serde(rename = "set_at")]
    _set_at: Option<IgnoredAny>,
    #[serde(rename = "warning")]
    _warning: Option<IgnoredAny>,
}

/// An override to delete.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteBody {
    domain: String,
    rule: String,
    key: BTreeMap<String, String>,
    limit_name: Option<String>,
    /// The operator, for the audit log.
    pub author: Option<String>,
    /// Only if the overrides of the key have this version.
    #[serde(default, deserialize_with = "optional_whole_number")]
    pub if_version: Option<u64>,
}

/// A key to ban, or to unban.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BanBody {
    key: BTreeMap<String, String>,
    /// Only in this domain.
    pub domain: Option<String>,
    /// Only in rules with this name.
    pub rule: Option<String>,
    #[serde(rename = "for")]
    ban_for: Option<String>,
    #[serde(default, deserialize_with = "optional_whole_number")]
    status: Option<u64>,
    /// The operator.
    pub author: Option<String>,
    note: Option<String>,
}

/// A key to unban.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnbanBody {
    key: BTreeMap<String, String>,
    /// Only in this domain.
    pub domain: Option<String>,
    /// Only in rules with this name.
    pub rule: Option<String>,
    /// The operator, for the audit log.
    pub author: Option<String>,
}

/// Reads an override to set.
pub fn read_override(json: &[u8]) -> Result<OverrideBody, RequestError> {
    read_with(json, ObjectSeed::new("an override (hint: an object with domain, rule and key)"))
}

/// Reads an override to delete.
pub fn read_delete(json: &[u8]) -> Result<DeleteBody, RequestError> {
    read_with(json, ObjectSeed::new("an override (hint: an object with domain, rule and key)"))
}

/// Reads a key to ban.
pub fn read_ban(json: &[u8]) -> Result<BanBody, RequestError> {
    read_with(json, ObjectSeed::new("a ban (hint: an object with key)"))
}

/// Reads a key to unban.
pub fn read_unban(json: &[u8]) -> Result<UnbanBody, RequestError> {
    read_with(json, ObjectSeed::new("a key to unban (hint: an object with key)"))
}

impl OverrideBody {
    /// Which override.
    pub fn place(&self) -> OverridePlace {
        place(&self.domain, &self.rule, &self.key, self.limit_name.as_deref())
    }

    /// What it sets. An error says what is wrong, with a hint.
    pub fn change(&self, now: Timestamp) -> Result<OverrideChange, String> {
        Ok(OverrideChange {
            values: self.values()?,
            tier: boxed(&self.tier),
            access: self.access()?,
            expires_at: self.expires_at(now)?,
            author: boxed(&self.author),
            note: boxed(&self.note),
        })
    }

    fn values(&self) -> Result<OverrideValues, String> {
        let mut values = match &self.limit {
            None | Some(Value::Null) => OverrideValues::default(),
            Some(Value::Number(number)) => OverrideValues {
                limit: Some(whole_json_number(number).ok_or_else(|| {
                    format!("the limit {number} is not a whole number (hint: write a number such as 100)")
                })?),
                ..OverrideValues::default()
            },
            Some(Value::String(text)) => limit_values(text)?,
            Some(_) => {
                return Err(
                    "`limit` is neither text nor a number (hint: write \"5 per second\" or 5)".to_owned()
                );
            }
        };
        let mut set = |slot: fn(&mut OverrideValues) -> &mut Option<u64>, name: &str, value: Option<u64>| {
            let slot = slot(&mut values);
            match (value, *slot) {
                (Some(_), Some(_)) => {
                    Err(format!("the text of the limit has a `{name}` already (hint: give it once)"))
                }
                (Some(value), None) => {
                    *slot = Some(value);
                    Ok(())
                }
                (None, _) => Ok(()),
            }
        };
        let per_ns = self.per.as_deref().map(duration_ns).transpose()?;
        set(|values| &mut values.per_ns, "per", per_ns)?;
        set(|values| &mut values.burst, "burst", self.burst)?;
        set(|values| &mut values.sub_windows, "sub_windows", self.sub_windows)?;
        Ok(values)
    }

    fn access(&self) -> Result<Access, String> {
        if self.status.is_some() && !self.blocked {
            return Err("only a block has a status (hint: add blocked, or remove status)".to_owned());
        }
        match (self.unlimited, self.blocked, self.allow) {
            (false, false, false) => Ok(Access::Limited),
            (true, false, false) => Ok(Access::Unlimited),
            (false, true, false) => block_status(self.status).map(Access::Blocked),
            (false, false, true) => Ok(Access::Allowed),
            _ => Err("unlimited, blocked and allow exclude each other (hint: set one of them)".to_owned()),
        }
    }

    fn expires_at(&self, now: Timestamp) -> Result<Option<Timestamp>, String> {
        match (&self.expires_in, &self.expires_at) {
            (Some(_), Some(Value::String(_) | Value::Number(_))) => {
                Err("expires_in and expires_at exclude each other (hint: set one of them)".to_owned())
            }
            (Some(expires_in), _) => after(now, expires_in).map(Some),
            (None, None | Some(Value::Null)) => Ok(None),
            (None, Some(at)) => instant(at).map(Some),
        }
    }
}

impl DeleteBody {
    /// Which override.
    pub fn place(&self) -> OverridePlace {
        place(&self.domain, &self.rule, &self.key, self.limit_name.as_deref())
    }
}

impl BanBody {
    /// The key.
    pub fn key(&self) -> Vec<(Box<str>, Box<str>)> {
        key_parts(&self.key)
    }

    /// The block. An error says what is wrong, with a hint.
    pub fn change(&self, now: Timestamp) -> Result<OverrideChange, String> {
        Ok(OverrideChange {
            access: Access::Blocked(block_status(self.status)?),
            expires_at: self.ban_for.as_deref().map(|ban_for| after(now, ban_for)).transpose()?,
            author: boxed(&self.author),
            note: boxed(&self.note),
            ..OverrideChange::default()
        })
    }
}

impl UnbanBody {
    /// The key.
    pub fn key(&self) -> Vec<(Box<str>, Box<str>)> {
        key_parts(&self.key)
    }
}

fn boxed(text: &Option<String>) -> Option<Box<str>> {
    text.as_deref().map(Box::from)
}

fn key_parts(key: &BTreeMap<String, String>) -> Vec<(Box<str>, Box<str>)> {
    key.iter().map(|(name, value)| (name.as_str().into(), value.as_str().into())).collect()
}

fn place(
    domain: &str,
    rule: &str,
    key: &BTreeMap<String, String>,
    limit_name: Option<&str>,
) -> OverridePlace {
    OverridePlace {
        domain: domain.into(),
        rule: rule.into(),
        limit_name: limit_name.map(Box::from),
        key: key_parts(key),
    }
}

/// The values of a limit as text. `5 per second` sets L and W, `5/s burst 9` also B, and `5` only L.
fn limit_values(text: &str) -> Result<OverrideValues, String> {
    let trimmed = text.trim();
    if trimmed == "deny" {
        return Ok(OverrideValues { limit: Some(0), ..OverrideValues::default() });
    }
    if !trimmed.is_empty() && trimmed.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_') {
        let limit = parse_number("limit", trimmed).map_err(|error| error.to_string())?;
        return Ok(OverrideValues { limit: Some(limit), ..OverrideValues::default() });
    }
    let spec: LimitSpec = text.parse().map_err(|error: tidegate_core::LimitError| error.to_string())?;
    let LimitSpec { limit, per_ns, burst, sub_windows, .. } = spec;
    if spec != (LimitSpec { burst, sub_windows, ..LimitSpec::new(limit, per_ns) }) {
        return Err("an override sets limit, per, burst and sub_windows; the algorithm and the rest stay as the rule \
                    has them (hint: write for example `5 per second`)"
            .to_owned());
    }
    Ok(OverrideValues { limit: Some(limit), per_ns: Some(per_ns), burst, sub_windows })
}

fn block_status(status: Option<u64>) -> Result<BlockStatus, String> {
    match status {
        None | Some(429) => Ok(BlockStatus::TooManyRequests),
        Some(403) => Ok(BlockStatus::Forbidden),
        Some(other) => Err(format!("a block cannot have the status {other} (hint: 403 or 429)")),
    }
}

fn duration_ns(text: &str) -> Result<u64, String> {
    parse_duration(text).map_err(|error| error.to_string())
}

/// The instant that is this long after `now`.
pub(super) fn after(now: Timestamp, duration: &str) -> Result<Timestamp, String> {
    let at = now.as_nanos().checked_add(duration_ns(duration)?);
    at.map(Timestamp::from_nanos)
        .ok_or_else(|| format!("`{duration}` from now is after 2554 (hint: leave the expiry out)"))
}

/// An instant: RFC 3339, or seconds since 1970.
fn instant(at: &Value) -> Result<Timestamp, String> {
    let nanos = match at {
        Value::String(text) => {
            let instant = text.parse::<jiff::Timestamp>().ok();
            instant.and_then(|instant| u64::try_from(instant.as_nanosecond()).ok())
        }
        Value::Number(seconds) => {
            whole_json_number(seconds).and_then(|seconds| seconds.checked_mul(SECOND_NS))
        }
        _ => None,
    };
    nanos.map(Timestamp::from_nanos).ok_or_else(|| {
        format!(
            "{at} is not an instant from 1970 to 2554 (hint: write 2026-03-29T01:59:30Z, or seconds since 1970)"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(fields: &str) -> Result<OverrideChange, String> {
        let body = format!(r#"{{"domain": "api", "rule": "r", "key": {{"user": "7"}}{fields}}}"#);
        read_override(body.as_bytes()).unwrap().change(Timestamp::from_nanos(1_000))
    }

    #[test]
    fn a_limit_is_a_number_or_text() {
        let values = |limit: &str| change(&format!(r#", "limit": {limit}"#)).unwrap().values;
        let five = OverrideValues { limit: Some(5), ..OverrideValues::default() };
        assert_eq!(values("5"), five);
        assert_eq!(values("\"5\""), five);
        assert_eq!(values("5.0"), five);
        let per_second = OverrideValues { per_ns: Some(SECOND_NS), ..five };
        assert_eq!(values("\"5 per second\""), per_second);
        assert_eq!(values("\"{limit: 5, per: 1s}\""), per_second);
        assert_eq!(values("\"5/s burst 9\""), OverrideValues { burst: Some(9), ..per_second });
        assert_eq!(values("\"deny\""), OverrideValues { limit: Some(0), ..OverrideValues::default() });
        assert_eq!(change(r#", "limit": 5, "per": "1s""#).unwrap().values, per_second);
    }

    #[test]
    fn contradictions_are_refused() {
        let cases = [
            (r#", "limit": "{algorithm: gcra, limit: 5, per: 1s}""#, "the algorithm and the rest stay"),
            (r#", "limit": "5 each second""#, "is not a limit"),
            (r#", "limit": -5"#, "not a whole number"),
            (r#", "limit": []"#, "neither text nor a number"),
            (r#", "limit": "5/s burst 9", "burst": 7"#, "`burst` already"),
            (r#", "limit": "5/s", "per": "1m""#, "`per` already"),
            (r#", "blocked": true, "allow": true"#, "exclude each other"),
            (r#", "blocked": true, "status": 500"#, "403 or 429"),
            (r#", "unlimited": true, "status": 403"#, "only a block"),
            (r#", "blocked": true, "expires_in": "1h", "expires_at": 7"#, "exclude each other"),
            (r#", "blocked": true, "expires_in": "soon""#, "soon"),
            (r#", "blocked": true, "expires_at": "tomorrow""#, "is not an instant"),
        ];
        for (fields, problem) in cases {
            let error = change(fields).unwrap_err();
            assert!(error.contains(problem) && error.contains("(hint: "), "{fields}: {error}");
        }
    }

    #[test]
    fn an_expiry_is_relative_or_an_instant() {
        let expires_at = |fields: &str| change(fields).unwrap().expires_at.unwrap().as_nanos();
        assert_eq!(expires_at(r#", "expires_in": "2s""#), 2 * SECOND_NS + 1_000);
        assert_eq!(expires_at(r#", "expires_at": 7"#), 7 * SECOND_NS);
        assert_eq!(expires_at(r#", "expires_at": "1970-01-01T01:00:07+01:00""#), 7 * SECOND_NS);
    }
}
