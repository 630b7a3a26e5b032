//! The config store in memory.

use std::sync::Arc;

use tidegate::config::{ConfigStore, ConfigStoreError, ConfigVersion, MemoryConfigStore};
use tidegate_testing::config_store::{check_config_store, delete, put};

fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(future)
}

#[test]
fn the_store_in_memory_conforms() {
    let store: Arc<dyn ConfigStore> = Arc::new(MemoryConfigStore::bounded(1 << 20));
    block_on(check_config_store(Arc::clone(&store), store));
}

#[test]
fn a_full_store_refuses_more_but_deletes() {
    let store = MemoryConfigStore::bounded(10);
    block_on(async {
        store.write(&[put("key", b"value")]).await.unwrap();
        let refused = store.write(&[put("other", b"value")]).await;
        assert!(matches!(refused, Err(ConfigStoreError::Full(_))), "{refused:?}");
        store.write(&[delete("key"), put("other", b"value")]).await.unwrap();
    });
}

#[test]
fn a_reader_that_is_too_far_behind_sees_a_gap() {
    let store = MemoryConfigStore::bounded(1 << 20);
    block_on(async {
        for _ in 0..11 {
            store.write(&vec![put("key", b"value"); 10_000]).await.unwrap();
        }
        let changes = store.changes(ConfigVersion::new(9_999), 10).await.unwrap();
        assert!(changes.is_gap && changes.keys.is_empty());
        assert_eq!(changes.next, ConfigVersion::new(110_000));
        let changes = store.changes(ConfigVersion::new(10_000), 10).await.unwrap();
        assert!(!changes.is_gap && changes.keys.len() == 10 && changes.has_more);
    });
}
