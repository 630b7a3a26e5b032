//! A log that no longer reaches back, and a table that lost data.

use serde_json::json;
use tidegate::config::{Changes, ConfigStore as _, ConfigVersion};

use super::Table;

async fn changes(table: &Table, since: ConfigVersion) -> Changes {
    table.store.changes(since, 100).await.expect("the store answers")
}

/// Deletes a log entry, as DynamoDB does when it has expired.
fn expire(table: &Table, version: ConfigVersion) {
    table.server.delete_item(&table.name, "log", &format!("{:020}", version.get()));
}

#[tokio::test]
async fn a_reader_that_is_too_far_behind_gets_a_gap() {
    let table = Table::new();
    let mut versions = Vec::new();
    for number in 0..20_u8 {
        versions.push(table.put(&format!("key/{number}"), b"x").await);
    }
    versions[..10].iter().for_each(|version| expire(&table, *version));
    for behind in [ConfigVersion::ZERO, versions[0], versions[8]] {
        let gap = changes(&table, behind).await;
        assert!(gap.is_gap && gap.keys.is_empty() && gap.next <= versions[19], "{gap:?}");
    }
    let rest = changes(&table, versions[9]).await;
    assert!(!rest.is_gap && rest.keys.len() == 10 && rest.next == versions[19]);
    // An idle store loses its whole log, which is no gap for those that have read it.
    versions[10..].iter().for_each(|version| expire(&table, *version));
    assert_eq!(changes(&table, versions[19]).await, Changes { next: versions[19], ..Changes::default() });
    assert!(changes(&table, versions[18]).await.is_gap);
    assert_eq!(table.store.latest().await, Ok(versions[19]));
    let later = table.put("later", b"x").await;
    assert_eq!(changes(&table, versions[19]).await.keys, [("later".into(), later)]);
    // DynamoDB deletes in any order: a hole in the log is a gap too.
    let (hole, last) = (table.put("hole", b"x").await, table.put("last", b"x").await);
    expire(&table, hole);
    assert!(changes(&table, later).await.is_gap);
    assert_eq!(changes(&table, hole).await.keys, [("last".into(), last)]);
}

#[tokio::test]
async fn a_table_restored_from_a_backup_is_a_gap() {
    let table = Table::new();
    let kept = table.put("a", b"1").await;
    let lost = table.put("a", b"2").await;
    // Back to the state after the first write.
    expire(&table, lost);
    let head = json!({ "pk": { "S": "log" }, "sk": { "S": "head" }, "ver": { "N": kept.get().to_string() } });
    table.server.put_item(&table.name, &head);
    assert!(changes(&table, lost).await.is_gap);
    assert!(!changes(&table, kept).await.is_gap);
    // Also if other nodes have written meanwhile. The versions of the lost writes are not given again.
    let again = table.put("a", b"3").await;
    assert!(again > lost);
    assert!(changes(&table, lost).await.is_gap);
    assert_eq!(changes(&table, kept).await.keys, [("a".into(), again)]);
}
