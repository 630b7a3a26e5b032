//! A node that keeps a copy of all entries, by a full read and the change feed.

use std::collections::BTreeMap;

use tidegate::config::{
    CONFIG_PAGE_MAX, Changes, ConfigEntry, ConfigStore, ConfigStoreError, ConfigVersion, Scan,
};

/// A copy of all entries.
#[derive(Default)]
pub struct Cache {
    entries: BTreeMap<Box<str>, ConfigEntry>,
    since: ConfigVersion,
    pub gaps: usize,
}

impl Cache {
    /// Reads everything.
    pub async fn load(store: &dyn ConfigStore) -> Result<Self, ConfigStoreError> {
        let since = store.latest().await?;
        Ok(Self { entries: read_all(store).await?, since, gaps: 0 })
    }

    /// Applies changes until there are no more.
    pub async fn follow(&mut self, store: &dyn ConfigStore) -> Result<(), ConfigStoreError> {
        loop {
            let Changes { keys, next, has_more, is_gap } = store.changes(self.since, 50).await?;
            if is_gap {
                self.entries = read_all(store).await?;
                self.gaps += 1;
            }
            for (key, _) in keys {
                match store.get(&key).await? {
                    Some(entry) => drop(self.entries.insert(key, entry)),
                    None => drop(self.entries.remove(&key)),
                }
            }
            // Only now: after an error, the same changes are read again.
            self.since = next;
            if !has_more {
                return Ok(());
            }
        }
    }

    /// Panics if the copy is not what the store has.
    pub async fn check(&self, store: &dyn ConfigStore) {
        assert_eq!(self.entries, read_all(store).await.unwrap());
    }

    pub fn get(&self, key: &str) -> Option<&ConfigEntry> {
        self.entries.get(key)
    }
}

async fn read_all(store: &dyn ConfigStore) -> Result<BTreeMap<Box<str>, ConfigEntry>, ConfigStoreError> {
    let (mut all, mut after): (BTreeMap<_, _>, Option<Box<str>>) = (BTreeMap::new(), None);
    loop {
        let scan = Scan { prefix: "", after: after.as_deref(), entries_max: CONFIG_PAGE_MAX };
        let page = store.scan(scan).await?;
        after = page.entries.last().map(|entry| entry.key.clone());
        all.extend(page.entries.into_iter().map(|entry| (entry.key.clone(), entry)));
        if !page.has_more {
            return Ok(all);
        }
    }
}
