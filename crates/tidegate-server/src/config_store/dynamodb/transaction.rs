//! One transaction: some writes, the log entry that lists them, and the head.

use serde_json::{Value, json};
use tidegate::config::{ConfigWrite, WriteCondition};

use super::item::{LogEntry, number, value_item};
use super::table::{HEAD, LOG_PARTITION, PARTITION, VERSION, bucket_of, item_key};

/// How many writes one transaction has at most. DynamoDB takes 100 actions, and two are for the head and the log.
pub(super) const TRANSACTION_WRITES_MAX: usize = 98;
/// No further write is added to a transaction after this many bytes of keys and values. DynamoDB takes 4 MB.
pub(super) const TRANSACTION_BYTES_MAX: usize = 1 << 20;
/// The position of the head among the actions, and how many actions come before those of the writes.
pub(super) const HEAD_ACTION: usize = 0;
pub(super) const ACTIONS_BEFORE_WRITES: usize = 2;
/// How long a log entry is kept. A node that is further behind reads everything again.
const LOG_KEPT_S: u64 = 24 * 60 * 60;

/// A transaction to send.
#[derive(Debug)]
pub(super) struct Transaction<'a> {
    pub table: &'a str,
    /// No other transaction has it.
    pub token: &'a str,
    /// The head must have this version; 0 if there is none.
    pub head: u64,
    /// The version of the first write. Those of the others follow.
    pub first_version: u64,
    pub now_us: u64,
    pub writes: &'a [&'a ConfigWrite],
}

impl Transaction<'_> {
    /// The body of `TransactWriteItems`.
    pub fn to_body(&self) -> Value {
        let keys: Vec<Box<str>> = self.writes.iter().map(|write| write.key.clone()).collect();
        let last = self.first_version + (keys.len() as u64).saturating_sub(1);
        let entry = LogEntry { last, previous: self.head, keys };
        let expires_s = self.now_us / 1_000_000 + LOG_KEPT_S;
        let mut actions = vec![
            self.head_action(last),
            json!({ "Put": { "TableName": self.table, "Item": entry.to_item(expires_s) } }),
        ];
        actions.extend(
            (self.first_version..).zip(self.writes).map(|(version, write)| self.action(write, version)),
        );
        json!({ "ClientRequestToken": self.token, "TransactItems": actions })
    }

    fn head_action(&self, last: u64) -> Value {
        let (condition, values) = match self.head {
            0 => (format!("attribute_not_exists({PARTITION})"), json!({ ":last": number(last) })),
            head => (format!("{VERSION} = :head"), json!({ ":head": number(head), ":last": number(last) })),
        };
        json!({ "Update": {
            "TableName": self.table,
            "Key": item_key(LOG_PARTITION, HEAD),
            "UpdateExpression": format!("SET {VERSION} = :last"),
            "ConditionExpression": condition,
            "ExpressionAttributeValues": values,
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        } })
    }

    fn action(&self, write: &ConfigWrite, version: u64) -> Value {
        let (name, mut action) = match &write.value {
            Some(value) => ("Put", json!({ "Item": value_item(&write.key, value, version) })),
            None => ("Delete", json!({ "Key": item_key(&bucket_of(&write.key), &write.key) })),
        };
        action["TableName"] = self.table.into();
        if let Some((condition, values)) = condition(write.condition) {
            action["ConditionExpression"] = condition.into();
            if let Some(values) = values {
                action["ExpressionAttributeValues"] = values;
            }
            action["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD".into();
        }
        json!({ name: action })
    }
}

/// The condition of an action, and the values in it.
fn condition(condition: WriteCondition) -> Option<(String, Option<Value>)> {
    match condition {
        WriteCondition::Always => None,
        WriteCondition::Absent => Some((format!("attribute_not_exists({PARTITION})"), None)),
        // A damaged item counts as version 0.
        WriteCondition::Version(version) if version.get() == 0 => Some((
            format!("attribute_exists({PARTITION}) AND NOT attribute_type({VERSION}, :number)"),
            Some(json!({ ":number": { "S": "N" } })),
        )),
        WriteCondition::Version(version) => {
            Some((format!("{VERSION} = :version"), Some(json!({ ":version": number(version.get()) }))))
        }
    }
}

/// How many of these writes, from the first, fit one transaction: bounded, and each key once. At least one.
pub(super) fn fitting<'a>(writes: impl IntoIterator<Item = &'a ConfigWrite>) -> usize {
    let (mut keys, mut bytes) = (std::collections::HashSet::new(), 0);
    for write in writes {
        if keys.len() == TRANSACTION_WRITES_MAX || bytes >= TRANSACTION_BYTES_MAX || !keys.insert(&*write.key)
        {
            break;
        }
        bytes += write.key.len() + write.value.as_ref().map_or(0, |value| value.len());
    }
    keys.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &str, bytes: usize) -> ConfigWrite {
        ConfigWrite { key: key.into(), value: Some(vec![0; bytes].into()), condition: WriteCondition::Always }
    }

    #[test]
    fn transactions_are_bounded_and_have_each_key_once() {
        let many: Vec<ConfigWrite> = (0..200).map(|number| put(&number.to_string(), 1)).collect();
        assert_eq!(fitting(&many), TRANSACTION_WRITES_MAX);
        let large: Vec<ConfigWrite> = (0..20).map(|number| put(&number.to_string(), 256 << 10)).collect();
        assert_eq!(fitting(&large), 4);
        assert_eq!(fitting(&[put("a", 1), put("b", 1), put("a", 1)]), 2);
        assert_eq!(fitting(&[]), 0);
    }
}
