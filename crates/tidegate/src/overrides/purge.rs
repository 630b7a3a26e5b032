//! Deletes overrides that have ended, so that bans do not fill the config store.
//!
//! Once a day one node goes through all records. A record in the store says when that was done last: the node that writes it
//! does the work.

use tidegate_core::Timestamp;

use super::cache::OverrideCache;
use super::key_name::KeyName;
use super::record;
use crate::config::{
    ConfigEntry, ConfigStoreError, ConfigVersion, ConfigWrite, Fields, Scan, WriteCondition, WriteResult,
    encode_record,
};

/// The record that says when the last purge began.
const PURGE_KEY: &str = "p\u{1f}purge";
/// The format of that record.
const PURGE_FORMAT: u64 = 1;
/// How often the records are gone through.
const PURGE_INTERVAL_NS: u64 = 24 * 3_600 * 1_000_000_000;
/// How many records one step reads.
const RECORDS_PER_STEP: usize = 1_000;

/// A purge in progress.
#[derive(Debug, Default)]
pub struct OverridePurge {
    /// Wildcards come after the exact keys.
    is_at_wildcards: bool,
    after: Option<Box<str>>,
}

impl OverrideCache {
    /// Begins a purge, if the last one of any node began long enough ago.
    pub async fn begin_purge(&self, now: Timestamp) -> Result<Option<OverridePurge>, ConfigStoreError> {
        if self.is_empty() {
            return Ok(None);
        }
        let last = self.store().get(PURGE_KEY).await?;
        if last.as_ref().and_then(began_at).is_some_and(|last| is_recent(last, now)) {
            return Ok(None);
        }
        let value = Some(encode_record(PURGE_FORMAT, [("began_at", now.as_nanos().into())]));
        let condition = last.map_or(WriteCondition::Absent, |last| WriteCondition::Version(last.version));
        let results = self.store().write(&[ConfigWrite { key: PURGE_KEY.into(), value, condition }]).await?;
        // With a conflict, another node does it.
        let is_ours = matches!(results.first(), Some(WriteResult::Written(_)));
        Ok(is_ours.then(OverridePurge::default))
    }

    /// Does some of a purge. Returns the rest, or `None` if it is done. After an error, the same step can be tried again.
    pub async fn purge_some(
        &self,
        purge: &OverridePurge,
        now: Timestamp,
    ) -> Result<Option<OverridePurge>, ConfigStoreError> {
        let OverridePurge { is_at_wildcards, after } = purge;
        let prefix = KeyName::prefix(None, None, *is_at_wildcards);
        let scan = Scan { prefix: &prefix, after: after.as_deref(), entries_max: RECORDS_PER_STEP };
        let page = self.store().scan(scan).await?;
        let next = page.entries.last().map(|entry| entry.key.clone()).filter(|_| page.has_more);
        let ended: Vec<ConfigWrite> = page
            .entries
            .into_iter()
            .filter(|entry| has_ended(entry, now))
            .map(|entry| ConfigWrite {
                key: entry.key,
                value: None,
                condition: WriteCondition::Version(entry.version),
            })
            .collect();
        if !ended.is_empty() {
            let results = self.store().write(&ended).await?;
            let deleted = ended.iter().zip(results).filter_map(|(write, result)| match result {
                WriteResult::Written(version) => Some((KeyName::decode(&write.key).ok()?, version)),
                // It was edited since it was read.
                WriteResult::Conflict(_) => None,
            });
            let deleted: Vec<(KeyName, ConfigVersion)> = deleted.collect();
            self.count_purged(deleted.len());
            self.put_keys(deleted.iter().map(|(name, version)| (name, version.get(), None)).collect());
        }
        Ok(match next {
            Some(after) => Some(OverridePurge { is_at_wildcards: *is_at_wildcards, after: Some(after) }),
            None if *is_at_wildcards => None,
            None => Some(OverridePurge { is_at_wildcards: true, after: None }),
        })
    }
}

/// When the last purge began. A record that cannot be read is replaced.
fn began_at(entry: &ConfigEntry) -> Option<Timestamp> {
    Fields::of_record(&entry.value, PURGE_FORMAT).ok()?.timestamp("began_at").ok()?
}

/// Whether less than the interval is between two times. A time far in the future is that of a node with a wrong clock.
fn is_recent(last: Timestamp, now: Timestamp) -> bool {
    now.as_nanos().abs_diff(last.as_nanos()) < PURGE_INTERVAL_NS
}

/// Whether no decision uses the record any more. One that cannot be read is kept for the operator.
fn has_ended(entry: &ConfigEntry, now: Timestamp) -> bool {
    let decoded = record::decode(&entry.key, entry.version.get(), &entry.value);
    decoded.is_ok_and(|decoded| decoded.overrides.iter().all(|one| one.has_ended(now)))
}
