//! Deletes superseded versions and old deletions. The module's documentation says why this is safe.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use mongodb::bson::{Document, doc};
use tidegate::config::{ConfigStoreError, WriteCondition, WriteResult};

use super::document::{DELETED, FIRST_VERSION, ID, KEY, entries_of, is_deletion, public_version, version_of};
use super::floor::floor_write;
use super::store::Inner;

/// How long the log keeps deletions and superseded versions at least.
const SWEEP_INTERVAL_MS: i64 = 60 * 60 * 1_000;
/// When to look again after an error, or while another node sweeps.
const RETRY_INTERVAL_MS: i64 = 60 * 1_000;
/// How many documents are read at a time.
const PAGE_DOCUMENTS: usize = 5_000;
/// How many documents one command deletes.
const DELETED_AT_ONCE: usize = 500;

/// When this node looks whether a sweep is due.
#[derive(Debug, Default)]
pub(super) struct SweepTimer {
    next_ms: AtomicI64,
    is_running: AtomicBool,
}

/// A document, as far as a sweep reads it.
struct Row {
    key: String,
    version: i64,
    is_deletion: bool,
}

impl Inner {
    /// Starts a sweep in the background, if one may be due.
    pub(super) fn start_sweep_if_due(self: &Arc<Self>) {
        let timer = &self.sweep_timer;
        if self.now_ms() < timer.next_ms.load(Ordering::Relaxed)
            || timer.is_running.swap(true, Ordering::Relaxed)
        {
            return;
        }
        let inner = Arc::clone(self);
        tokio::spawn(async move {
            let next_ms = match inner.sweep_if_due().await {
                Ok(next_ms) => next_ms,
                Err(error) => {
                    tracing::debug!("old versions in MongoDB are not deleted: {error}");
                    inner.now_ms() + RETRY_INTERVAL_MS
                }
            };
            inner.sweep_timer.next_ms.store(next_ms, Ordering::Relaxed);
            inner.sweep_timer.is_running.store(false, Ordering::Relaxed);
        });
    }

    /// Returns when to look again.
    async fn sweep_if_due(&self) -> Result<i64, ConfigStoreError> {
        let now_ms = self.now_ms();
        let Some(previous) = self.read_floor().await? else { return Ok(now_ms + RETRY_INTERVAL_MS) };
        let due_ms = previous.at_ms.saturating_add(SWEEP_INTERVAL_MS);
        if now_ms < due_ms {
            return Ok(due_ms);
        }
        if self.read_latest().await? == self.last_version(previous.version).await? {
            // Nothing was written since.
            return Ok(now_ms + SWEEP_INTERVAL_MS);
        }
        let condition = WriteCondition::Version(public_version(previous.version));
        let floor = previous.floor.max(previous.version);
        let written = self.append(&[floor_write(now_ms, floor, condition)]).await?;
        if !matches!(written[..], [WriteResult::Written(_)]) {
            return Ok(now_ms + RETRY_INTERVAL_MS);
        }
        self.sweep_below(previous.version).await?;
        Ok(now_ms + SWEEP_INTERVAL_MS)
    }

    /// Deletes the versions that were superseded before this version, and the deletions before it.
    async fn sweep_below(&self, bound: i64) -> Result<(), ConfigStoreError> {
        let mut range = doc! { "$gte": "" };
        loop {
            let rows = self.read_rows(range).await?;
            let old = old_versions(&rows, bound);
            for versions in old.chunks(DELETED_AT_ONCE) {
                let deleted = self.collection().await?.delete_many(doc! { ID: { "$in": versions } });
                self.database.call(deleted).await?;
            }
            let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Ok(()) };
            if rows.len() < PAGE_DOCUMENTS {
                return Ok(());
            }
            // The last key may have more versions, so it is read again, unless that would read the same page again.
            let is_same_page = first.key == last.key && old.is_empty();
            range = if is_same_page {
                doc! { "$gt": &last.key }
            } else {
                doc! { "$gte": &last.key }
            };
        }
    }

    async fn read_rows(&self, range: Document) -> Result<Vec<Row>, ConfigStoreError> {
        let found = self
            .collection()
            .await?
            .find(entries_of(range))
            .sort(doc! { KEY: 1, ID: 1 })
            .projection(doc! { KEY: 1, ID: 1, DELETED: 1 })
            .limit(i64::try_from(PAGE_DOCUMENTS).unwrap_or(i64::MAX));
        let mut found = self.database.call(found).await?;
        let mut rows = Vec::new();
        while self.database.call(found.advance()).await? {
            let document = self.current(&found)?;
            let (Ok(key), Some(version)) = (document.get_str(KEY), version_of(&document)) else { continue };
            rows.push(Row { key: key.to_owned(), version, is_deletion: is_deletion(&document) });
        }
        Ok(rows)
    }
}

/// The versions to delete. The first document stays, so that all nodes agree on one.
fn old_versions(rows: &[Row], bound: i64) -> Vec<i64> {
    let is_old = |(index, row): &(usize, &Row)| {
        if row.version == FIRST_VERSION {
            return false;
        }
        match rows.get(index + 1) {
            Some(next) if next.key == row.key => next.version < bound,
            _ => row.is_deletion && row.version < bound,
        }
    };
    rows.iter().enumerate().filter(is_old).map(|(_, row)| row.version).collect()
}

#[cfg(test)]
mod tests {
    use super::{Row, old_versions};

    #[test]
    fn only_what_was_old_before_the_bound_is_deleted() {
        let row = |key: &str, version, is_deletion| Row { key: key.to_owned(), version, is_deletion };
        let rows = [
            row("", 0, false),
            row("", 10, false),
            row("a", 1, false),
            row("a", 2, false),
            row("a", 12, false),
            row("b", 3, true),
            row("c", 4, false),
            row("c", 11, true),
            row("d", 5, false),
            row("e", 6, true),
            row("e", 7, false),
        ];
        // "a" 2 was superseded by 12, after the bound. "c" 11 is a deletion after it.
        assert_eq!(old_versions(&rows, 10), [1, 3, 6]);
        assert_eq!(old_versions(&rows, 13), [1, 2, 3, 4, 11, 6]);
        assert!(old_versions(&rows, 0).is_empty());
    }
}
