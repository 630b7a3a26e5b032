//! The table: its keys, its attributes, and how it is created.

use ring::digest;
use serde_json::{Value, json};

use super::url::DynamoSettings;

/// The partition key, and the sort key. Both are strings.
pub(super) const PARTITION: &str = "pk";
pub(super) const SORT: &str = "sk";
/// The version of a value, and the greatest version of the head.
pub(super) const VERSION: &str = "ver";
/// The value of a key: bytes.
pub(super) const VALUE: &str = "val";
/// The keys of a log entry, in the order of their versions.
pub(super) const KEYS: &str = "keys";
/// The version of the log entry before this one.
pub(super) const PREVIOUS: &str = "prev";
/// When DynamoDB deletes a log entry, in seconds since 1970.
pub(super) const EXPIRES: &str = "exp";

/// The partition of the log and its head.
pub(super) const LOG_PARTITION: &str = "log";
/// The sort key of the head. It comes after those of the log entries, which are digits, so a reader of the log gets the head
/// with the last page.
pub(super) const HEAD: &str = "head";

/// Values are spread over this many partitions. DynamoDB bounds the throughput of each.
pub(super) const BUCKETS: usize = 16;

/// The partition of a bucket, by its number.
pub(super) fn bucket_name(bucket: usize) -> String {
    format!("v{bucket:x}")
}

/// The partition of the value of a key. Nodes of every version must find the same.
pub(super) fn bucket_of(key: &str) -> String {
    let hash = digest::digest(&digest::SHA256, key.as_bytes());
    bucket_name(usize::from(hash.as_ref()[0]) % BUCKETS)
}

/// The sort key of the log entry with this version.
pub(super) fn log_sort_key(version: u64) -> String {
    format!("{version:020}")
}

/// The key of an item.
pub(super) fn item_key(partition: &str, sort: &str) -> Value {
    json!({ PARTITION: { "S": partition }, SORT: { "S": sort } })
}

/// The body of `CreateTable`.
pub(super) fn create_table(table: &str) -> Value {
    json!({
        "TableName": table,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [
            { "AttributeName": PARTITION, "AttributeType": "S" },
            { "AttributeName": SORT, "AttributeType": "S" },
        ],
        "KeySchema": [
            { "AttributeName": PARTITION, "KeyType": "HASH" },
            { "AttributeName": SORT, "KeyType": "RANGE" },
        ],
    })
}

/// The body of `UpdateTimeToLive`.
pub(super) fn expire_log(table: &str) -> Value {
    json!({
        "TableName": table,
        "TimeToLiveSpecification": { "Enabled": true, "AttributeName": EXPIRES },
    })
}

/// The commands that create the table.
pub(super) fn create_commands(settings: &DynamoSettings) -> String {
    let DynamoSettings { table, region, .. } = settings;
    format!(
        "aws dynamodb create-table --region {region} --table-name {table} --billing-mode PAY_PER_REQUEST \
         --attribute-definitions AttributeName={PARTITION},AttributeType=S AttributeName={SORT},AttributeType=S \
         --key-schema AttributeName={PARTITION},KeyType=HASH AttributeName={SORT},KeyType=RANGE; \
         aws dynamodb update-time-to-live --region {region} --table-name {table} \
         --time-to-live-specification Enabled=true,AttributeName={EXPIRES}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stay_in_their_buckets() {
        // Fixed values: nodes of every version must find the same.
        let buckets: Vec<String> =
            (0..8).map(|number| bucket_of(&format!("override/api/per-user/user={number}"))).collect();
        assert_eq!(buckets, ["vc", "v1", "v0", "vf", "v3", "v9", "v2", "v6"]);
        let mut counts = std::collections::BTreeMap::<String, u32>::new();
        for number in 0..16_000 {
            *counts.entry(bucket_of(&format!("user={number}"))).or_default() += 1;
        }
        assert_eq!(counts.len(), BUCKETS);
        assert!(counts.values().all(|count| (850..1_150).contains(count)), "{counts:?}");
    }

    #[test]
    fn sort_keys_of_the_log_are_ordered_and_before_the_head() {
        let keys = [0, 9, 10, 1_767_225_600_000_000, u64::MAX].map(log_sort_key);
        assert!(keys.is_sorted() && keys.iter().all(|key| **key < *HEAD), "{keys:?}");
    }
}
