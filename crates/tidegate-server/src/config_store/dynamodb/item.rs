//! Items of the table: values, log entries and the head.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value, json};
use tidegate::config::{ConfigEntry, ConfigVersion};

use super::table::{
    EXPIRES, HEAD, KEYS, LOG_PARTITION, PARTITION, PREVIOUS, SORT, VALUE, VERSION, bucket_of, log_sort_key,
};

/// An item: attributes with their types, such as `{"ver": {"N": "7"}}`.
pub(super) type Item = Map<String, Value>;

/// An item of the log's partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LogItem {
    Entry(LogEntry),
    /// The greatest version, or `None` if the item has none.
    Head(Option<u64>),
    /// A log entry that this store does not write.
    Damaged,
    /// Something else.
    Other,
}

/// The keys that one transaction changed. Their versions are consecutive, and `last` is the version of the last key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LogEntry {
    pub last: u64,
    /// The `last` of the entry before it.
    pub previous: u64,
    pub keys: Vec<Box<str>>,
}

impl LogEntry {
    /// The version of the first key.
    pub fn first(&self) -> u64 {
        (self.last + 1).saturating_sub(self.keys.len() as u64)
    }

    /// Whether a reader that has read everything up to `since` misses nothing before this entry. A version between
    /// `previous` and `first` was never given: such a reader comes from another history, as before a restore.
    pub fn follows(&self, since: u64) -> bool {
        since == self.previous || (self.first()..self.last).contains(&since)
    }

    /// The item. DynamoDB deletes it after `expires_s`, in seconds since 1970.
    pub fn to_item(&self, expires_s: u64) -> Value {
        let keys: Vec<Value> = self.keys.iter().map(|key| json!({ "S": key })).collect();
        json!({
            PARTITION: { "S": LOG_PARTITION },
            SORT: { "S": log_sort_key(self.last) },
            PREVIOUS: number(self.previous),
            KEYS: { "L": keys },
            EXPIRES: number(expires_s),
        })
    }
}

/// The item of a value.
pub(super) fn value_item(key: &str, value: &[u8], version: u64) -> Value {
    json!({
        PARTITION: { "S": bucket_of(key) },
        SORT: { "S": key },
        VERSION: number(version),
        VALUE: { "B": BASE64.encode(value) },
    })
}

/// A number as DynamoDB takes it.
pub(super) fn number(number: u64) -> Value {
    json!({ "N": number.to_string() })
}

/// The version of an item. One without a version counts as 0.
pub(super) fn version_of(item: &Item) -> u64 {
    parse_number(item, VERSION).unwrap_or(0)
}

/// The entry of a value. If the value is not bytes, it is returned as DynamoDB has it: the caller finds out that it is no
/// value.
pub(super) fn parse_entry(item: &Item) -> Option<ConfigEntry> {
    let key = parse_string(item, SORT)?;
    let value = match item.get(VALUE) {
        Some(attribute) => {
            let bytes = attribute["B"].as_str().and_then(|text| BASE64.decode(text).ok());
            bytes.unwrap_or_else(|| attribute.to_string().into_bytes())
        }
        None => Vec::new(),
    };
    Some(ConfigEntry { key: key.into(), value: value.into(), version: ConfigVersion::new(version_of(item)) })
}

/// What an item of the log's partition is.
pub(super) fn parse_log_item(item: &Item) -> LogItem {
    let sort = parse_string(item, SORT).unwrap_or_default();
    if sort == HEAD {
        return LogItem::Head(parse_number(item, VERSION));
    }
    if sort.len() != log_sort_key(0).len() || !sort.bytes().all(|byte| byte.is_ascii_digit()) {
        return LogItem::Other;
    }
    parse_log_entry(sort, item).map_or(LogItem::Damaged, LogItem::Entry)
}

fn parse_log_entry(sort: &str, item: &Item) -> Option<LogEntry> {
    let keys = item.get(KEYS)?["L"].as_array()?;
    let keys = keys.iter().map(|key| key["S"].as_str().map(Box::from)).collect::<Option<Vec<_>>>()?;
    let entry = LogEntry { last: sort.parse().ok()?, previous: parse_number(item, PREVIOUS)?, keys };
    (!entry.keys.is_empty() && entry.last < u64::MAX && entry.previous < entry.first()).then_some(entry)
}

fn parse_string<'a>(item: &'a Item, attribute: &str) -> Option<&'a str> {
    item.get(attribute)?["S"].as_str()
}

fn parse_number(item: &Item, attribute: &str) -> Option<u64> {
    item.get(attribute)?["N"].as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(value: Value) -> Item {
        match value {
            Value::Object(item) => item,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn values_are_read_back() {
        let written = item(value_item("a/Zoë", b"\x00\xff", 7));
        let entry = parse_entry(&written).unwrap();
        assert_eq!((&*entry.key, &*entry.value, entry.version.get()), ("a/Zoë", &b"\x00\xff"[..], 7));
    }

    #[test]
    fn damaged_values_are_returned_as_they_are() {
        let cases = [
            (json!({ "sk": { "S": "k" } }), ""),
            (json!({ "sk": { "S": "k" }, "val": { "S": "text" }, "ver": { "S": "x" } }), r#"{"S":"text"}"#),
            (json!({ "sk": { "S": "k" }, "val": { "B": "?" }, "ver": { "N": "-1.5" } }), r#"{"B":"?"}"#),
        ];
        for (damaged, value) in cases {
            let entry = parse_entry(&item(damaged)).unwrap();
            assert_eq!((&*entry.value, entry.version.get()), (value.as_bytes(), 0));
        }
        assert_eq!(parse_entry(&item(json!({ "val": { "B": "" } }))), None);
    }

    #[test]
    fn log_items_are_read_back() {
        let entry = LogEntry { last: 12, previous: 5, keys: vec!["a".into(), "b".into()] };
        assert_eq!(parse_log_item(&item(entry.to_item(99))), LogItem::Entry(entry.clone()));
        assert_eq!(entry.first(), 11);
        let followed: Vec<u64> = (0..20).filter(|since| entry.follows(*since)).collect();
        assert_eq!(followed, [5, 11]);
        let head = json!({ "sk": { "S": "head" }, "ver": { "N": "12" } });
        assert_eq!(parse_log_item(&item(head)), LogItem::Head(Some(12)));
        assert_eq!(parse_log_item(&item(json!({ "sk": { "S": "notes" } }))), LogItem::Other);
        for damaged in [
            json!({ "sk": { "S": log_sort_key(12) } }),
            json!({ "sk": { "S": log_sort_key(12) }, "prev": { "N": "5" }, "keys": { "L": [] } }),
            json!({ "sk": { "S": log_sort_key(12) }, "prev": { "N": "12" }, "keys": { "L": [{ "S": "a" }] } }),
            json!({ "sk": { "S": log_sort_key(12) }, "prev": { "N": "5" }, "keys": { "L": [{ "N": "1" }] } }),
            json!({ "sk": { "S": "9".repeat(20) }, "prev": { "N": "5" }, "keys": { "L": [{ "S": "a" }] } }),
        ] {
            assert_eq!(parse_log_item(&item(damaged.clone())), LogItem::Damaged, "{damaged}");
        }
    }
}
