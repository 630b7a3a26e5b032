//! Items that this store did not write: values are returned as they are, and nothing panics.

use serde_json::json;
use tidegate::config::{
    ConfigStore as _, ConfigStoreError, ConfigVersion, ConfigWrite, WriteCondition, WriteResult,
};
use tidegate_testing::config_store::{put, scan_all, write_one};

use super::Table;

/// The bucket of the key `damaged`.
async fn bucket(table: &Table) -> String {
    table.put("damaged", b"x").await;
    let has_key =
        |bucket: &String| table.server.sort_keys(&table.name, bucket).contains(&"damaged".to_owned());
    (0..16).map(|number| format!("v{number:x}")).find(has_key).expect("it is in a bucket")
}

#[tokio::test]
async fn damaged_values_are_returned_and_can_be_replaced() {
    let table = Table::new();
    let bucket = bucket(&table).await;
    let cases = [
        (json!({ "pk": { "S": bucket }, "sk": { "S": "damaged" } }), &b""[..]),
        (
            json!({ "pk": { "S": bucket }, "sk": { "S": "damaged" }, "ver": { "S": "x" }, "val": { "S": "text" } }),
            br#"{"S":"text"}"#,
        ),
    ];
    for (item, value) in cases {
        table.server.put_item(&table.name, &item);
        let entry = table.store.get("damaged").await.expect("the store answers").expect("it is there");
        assert_eq!((&*entry.value, entry.version), (value, ConfigVersion::ZERO));
        assert_eq!(scan_all(&table.store, "dam", 10).await, [("damaged".to_owned(), value.to_vec())]);
        // Its version counts as 0.
        let write = |condition| ConfigWrite { condition, ..put("damaged", b"whole") };
        let conflict = write_one(&table.store, write(WriteCondition::Absent)).await;
        assert_eq!(conflict, WriteResult::Conflict(Some(ConfigVersion::ZERO)));
        let at_zero = write(WriteCondition::Version(ConfigVersion::ZERO));
        let written = write_one(&table.store, at_zero.clone()).await;
        assert!(matches!(written, WriteResult::Written(_)), "{written:?}");
        assert!(matches!(write_one(&table.store, at_zero).await, WriteResult::Conflict(Some(_))));
        assert_eq!(scan_all(&table.store, "dam", 10).await, [("damaged".to_owned(), b"whole".to_vec())]);
    }
}

#[tokio::test]
async fn a_damaged_log_entry_is_a_gap() {
    let table = Table::new();
    let before = table.put("a", b"1").await;
    let damaged = table.put("b", b"2").await;
    let after = table.put("c", b"3").await;
    let sort = format!("{:020}", damaged.get());
    table
        .server
        .put_item(&table.name, &json!({ "pk": { "S": "log" }, "sk": { "S": sort }, "keys": { "N": "1" } }));
    // Something else in the log's partition does no harm.
    table.server.put_item(&table.name, &json!({ "pk": { "S": "log" }, "sk": { "S": "a note" } }));
    let changes = table.store.changes(before, 10).await.expect("the store answers");
    assert!(changes.is_gap && changes.keys.is_empty());
    // What follows it is read.
    let changes = table.store.changes(changes.next, 10).await.expect("the store answers");
    assert!(!changes.is_gap && changes.next == after, "{changes:?}");
    let changes = table.store.changes(damaged, 10).await.expect("the store answers");
    assert_eq!(changes.keys, [("c".into(), after)]);
}

#[tokio::test]
async fn a_damaged_head_stops_writes_until_it_is_deleted() {
    let table = Table::new();
    let before = table.put("a", b"1").await;
    table.server.put_item(
        &table.name,
        &json!({ "pk": { "S": "log" }, "sk": { "S": "head" }, "ver": { "S": "many" } }),
    );
    for error in [
        table.store.write(&[put("b", b"2")]).await.expect_err("the head is damaged"),
        table.store.changes(before, 10).await.expect_err("the head is damaged"),
        table.store.latest().await.expect_err("the head is damaged"),
    ] {
        assert!(matches!(error, ConfigStoreError::Broken(_)), "{error}");
        assert!(error.to_string().contains("sk=head") && error.to_string().contains("(hint: "), "{error}");
    }
    assert!(table.store.get("a").await.expect("values can be read").is_some());
    table.server.delete_item(&table.name, "log", "head");
    // Without a head, readers have to start again, and can.
    let gap = table.store.changes(before, 10).await.expect("the store answers");
    assert!(gap.is_gap, "{gap:?}");
    let next = table.store.latest().await.expect("the store answers");
    assert!(!table.store.changes(next, 10).await.expect("the store answers").is_gap);
    let version = table.put("b", b"2").await;
    assert!(version > before);
    let next = table.store.latest().await.expect("the store answers");
    let changes = table.store.changes(next, 10).await.expect("the store answers");
    assert!(!changes.is_gap && changes.next == version, "{changes:?}");
    assert!(table.store.changes(before, 10).await.expect("the store answers").is_gap);
}
