//! A failover during writes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::RedisConfigStore;
use crate::config::{
    CONFIG_PAGE_MAX, ConfigStore, ConfigStoreError, ConfigVersion, ConfigWrite, Scan, WriteCondition,
};
use crate::redis::testing::{RedisCluster, wait_until};
use crate::redis::{RedisSettings, RedisStore};

/// How many keys are written.
const KEYS: u32 = 40;

type Values = BTreeMap<Box<str>, (Box<[u8]>, ConfigVersion)>;

async fn connect(cluster: &RedisCluster) -> RedisConfigStore {
    let settings = RedisSettings::new(cluster.url().parse().expect("a URL"));
    RedisStore::connect(settings).await.expect("a store").config_store()
}

async fn read_all(store: &RedisConfigStore) -> Result<Values, ConfigStoreError> {
    let (mut values, mut after): (Values, Option<Box<str>>) = (Values::new(), None);
    loop {
        let scan = Scan { prefix: "", after: after.as_deref(), entries_max: CONFIG_PAGE_MAX };
        let page = store.scan(scan).await?;
        after = page.entries.last().map(|entry| entry.key.clone());
        values.extend(page.entries.into_iter().map(|entry| (entry.key, (entry.value, entry.version))));
        if !page.has_more {
            return Ok(values);
        }
    }
}

/// Applies the changes of one poll.
async fn poll(
    store: &RedisConfigStore,
    values: &mut Values,
    since: &mut ConfigVersion,
) -> Result<(), ConfigStoreError> {
    let changes = store.changes(*since, CONFIG_PAGE_MAX).await?;
    if changes.is_gap {
        *values = read_all(store).await?;
    }
    for (key, _) in changes.keys {
        match store.get(&key).await? {
            Some(entry) => drop(values.insert(key, (entry.value, entry.version))),
            None => drop(values.remove(&key)),
        }
    }
    *since = changes.next;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_during_writes_leaves_no_stale_value() {
    let mut cluster = RedisCluster::start().await;
    let (writer, reader) = (connect(&cluster).await, connect(&cluster).await);
    let is_done = Arc::new(AtomicBool::new(false));
    let writing = tokio::spawn({
        let is_done = is_done.clone();
        async move {
            let mut number = 0_u32;
            while !is_done.load(Ordering::Relaxed) {
                number += 1;
                let key = format!("key/{}", number % KEYS).into();
                let value = Some(number.to_string().into_bytes().into());
                // Some of these fail until a replica has taken over.
                let _ = writer.write(&[ConfigWrite { key, value, condition: WriteCondition::Always }]).await;
                tokio::task::yield_now().await;
            }
        }
    });
    let mut since = reader.latest().await.expect("a version");
    let mut values = read_all(&reader).await.expect("values");
    for _ in 0..20 {
        poll(&reader, &mut values, &mut since).await.expect("changes");
    }
    let killed = cluster.masters()[0];
    cluster.nodes[killed].kill();
    let mut failures = 0;
    wait_until("polls work again", async || match poll(&reader, &mut values, &mut since).await {
        Ok(()) => failures > 0,
        Err(ConfigStoreError::Unavailable(_)) => {
            failures += 1;
            false
        }
        Err(error) => panic!("{error}"),
    })
    .await;
    for _ in 0..20 {
        wait_until("a poll works", async || poll(&reader, &mut values, &mut since).await.is_ok()).await;
    }
    is_done.store(true, Ordering::Relaxed);
    writing.await.expect("the writer ends");
    wait_until("the last poll works", async || poll(&reader, &mut values, &mut since).await.is_ok()).await;
    assert_eq!(values, read_all(&reader).await.expect("values"));
    assert_eq!(values.len(), KEYS as usize);
}
