//! The config store on Redis.

mod cache;
mod changes;
mod conformance;
mod failures;

use tidegate::config::{ConfigStore, Scan, ScanPage, WriteResult};
use tidegate::redis::RedisConfigStore;

/// A server, and a config store on it.
async fn config_store(url: &str) -> RedisConfigStore {
    super::setup::store(url).await.config_store()
}

/// All keys, read in pages of this size.
async fn scan_keys(store: &dyn ConfigStore, entries_max: usize) -> Vec<Box<str>> {
    let (mut keys, mut after): (Vec<Box<str>>, Option<Box<str>>) = (Vec::new(), None);
    loop {
        let scan = Scan { prefix: "", after: after.as_deref(), entries_max };
        let ScanPage { entries, has_more } = store.scan(scan).await.unwrap();
        assert!(entries.len() <= entries_max && (!has_more || !entries.is_empty()));
        keys.extend(entries.into_iter().map(|entry| entry.key));
        after = keys.last().cloned();
        if !has_more {
            return keys;
        }
    }
}

fn is_written(result: &WriteResult) -> bool {
    matches!(result, WriteResult::Written(_))
}
