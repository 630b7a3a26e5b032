//! Sets many overrides with few calls to the config store, for imports.
//!
//! The records of all keys that may have one are read, some at a time, and are written back in one call, each on the condition
//! that no other edit came between. A key with such an edit is set again by itself.

use std::future::{Future, poll_fn, ready};
use std::pin::Pin;
use std::task::Poll;

use indexmap::IndexMap;
use tidegate_core::Timestamp;
use tidegate_core::rules::Override;

use super::edit_error::EditError;
use super::editor::{EditedOverride, OverrideEditor, Replaced, current_overrides, encode};
use super::place::{OverrideChange, OverridePlace, ResolvedPlace};
use super::record;
use crate::config::{
    CONFIG_WRITES_MAX, ConfigEntry, ConfigStoreError, ConfigVersion, ConfigWrite, WriteCondition, WriteResult,
};

/// How many records are read at the same time.
const READS_AT_ONCE: usize = 64;

/// An override and what it is to be.
pub type BatchEdit = (OverridePlace, OverrideChange);

/// The edits of one key: their positions in the batch.
type KeyEdits<'a> = Vec<(usize, ResolvedPlace<'a>)>;

/// An edit of a record that is not written yet.
struct PreparedEdit {
    position: usize,
    before: Option<Override>,
    after: Override,
}

impl OverrideEditor<'_> {
    /// Sets overrides, in order, as [`set`](Self::set) does without a version. Returns a result for each.
    pub async fn set_all(
        &self,
        edits: &[BatchEdit],
        now: Timestamp,
    ) -> Vec<Result<EditedOverride, EditError>> {
        let mut results: Vec<Option<Result<EditedOverride, EditError>>> = Vec::new();
        let mut keys: IndexMap<Box<str>, KeyEdits<'_>, foldhash::fast::RandomState> = IndexMap::default();
        for (position, (place, change)) in edits.iter().enumerate() {
            let resolved = ResolvedPlace::resolve(self.rules, place).and_then(|resolved| {
                resolved.check(place, change, now)?;
                Ok((encode(&resolved.name)?, resolved))
            });
            match resolved {
                Ok((id, resolved)) => {
                    keys.entry(id).or_default().push((position, resolved));
                    results.push(None);
                }
                Err(error) => results.push(Some(Err(error))),
            }
        }
        let mut keys: Vec<(Box<str>, KeyEdits<'_>)> = keys.into_iter().collect();
        while !keys.is_empty() {
            let rest = keys.split_off(keys.len().min(CONFIG_WRITES_MAX));
            self.set_keys(edits, &keys, now, &mut results).await;
            keys = rest;
        }
        // Each key was written, or its edits have an error.
        let unwritten = || EditError::Refused("the edit was not done (hint: try again)".into());
        results.into_iter().map(|result| result.unwrap_or_else(|| Err(unwritten()))).collect()
    }

    /// Sets the overrides of up to [`CONFIG_WRITES_MAX`] keys.
    async fn set_keys(
        &self,
        edits: &[BatchEdit],
        keys: &[(Box<str>, KeyEdits<'_>)],
        now: Timestamp,
        results: &mut [Option<Result<EditedOverride, EditError>>],
    ) {
        let written = self.write_keys(edits, keys, now).await;
        let (prepared, written) = match written {
            Ok(written) => written,
            // A record that the store does not take spoils the call for the others.
            Err(ConfigStoreError::Invalid(_)) => (Vec::new(), Vec::new()),
            Err(error) => {
                for (position, _) in keys.iter().flat_map(|(_, key_edits)| key_edits) {
                    results[*position] = Some(Err(EditError::Store(error.clone())));
                }
                return;
            }
        };
        let mut prepared = prepared.into_iter();
        let mut written = written.into_iter();
        for (_, key_edits) in keys {
            let (prepared, written) = (prepared.next().unwrap_or_default(), written.next());
            let Some(WriteResult::Written(version)) = written else {
                for (position, _) in key_edits {
                    let (place, change) = &edits[*position];
                    results[*position] = Some(self.set(place, change, None, now).await);
                }
                continue;
            };
            for (PreparedEdit { position, before, after }, (_, resolved)) in
                prepared.into_iter().zip(key_edits)
            {
                self.cache.forget_key(&resolved.name);
                results[position] = Some(Ok(EditedOverride {
                    name: resolved.name.clone(),
                    version: version.get(),
                    before: before.filter(|before| !before.is_leftover()),
                    after: Some(after),
                }));
            }
        }
    }

    async fn write_keys(
        &self,
        edits: &[BatchEdit],
        keys: &[(Box<str>, KeyEdits<'_>)],
        now: Timestamp,
    ) -> Result<(Vec<Vec<PreparedEdit>>, Vec<WriteResult>), ConfigStoreError> {
        let (mut writes, mut prepared) = (Vec::with_capacity(keys.len()), Vec::with_capacity(keys.len()));
        for some in keys.chunks(READS_AT_ONCE) {
            // If a key has a record that this node does not know of, its write has a conflict.
            let reads = some.iter().map(|(id, key_edits)| match key_edits.first() {
                Some((_, resolved)) if self.cache.may_have_overrides(&resolved.name) => {
                    self.cache.store().get(id)
                }
                _ => Box::pin(ready(Ok(None))),
            });
            let reads = reads.collect();
            for ((id, key_edits), entry) in some.iter().zip(join_all(reads).await) {
                let (write, of_key) = prepare(edits, id, key_edits, entry?.as_ref(), now);
                writes.push(write);
                prepared.push(of_key);
            }
        }
        let written = self.cache.store().write(&writes).await?;
        Ok((prepared, written))
    }
}

/// Applies the edits of one key to its record.
fn prepare(
    edits: &[BatchEdit],
    id: &str,
    key_edits: &[(usize, ResolvedPlace<'_>)],
    entry: Option<&ConfigEntry>,
    now: Timestamp,
) -> (ConfigWrite, Vec<PreparedEdit>) {
    let version: Option<ConfigVersion> = entry.map(|entry| entry.version);
    let current = entry.map(current_overrides).transpose();
    let is_newer = current.is_err();
    let mut overrides = current.ok().flatten().flatten().unwrap_or_default();
    let mut prepared = Vec::with_capacity(key_edits.len());
    for (position, resolved) in key_edits {
        let (place, change) = &edits[*position];
        let before = Replaced::Place(place).take_from(&mut overrides);
        let after = resolved.changed(place, change, before.as_ref(), now);
        overrides.push(after.clone());
        prepared.push(PreparedEdit { position: *position, before, after });
    }
    // A record of a newer version is kept: this write has a conflict, and the single edit that follows is refused.
    let version = version.filter(|_| !is_newer);
    let condition = version.map_or(WriteCondition::Absent, WriteCondition::Version);
    (ConfigWrite { key: id.into(), value: Some(record::encode(&overrides)), condition }, prepared)
}

/// Waits for a few futures at the same time. Each wake-up polls all that are pending.
async fn join_all<'a, T>(mut futures: Vec<Pin<Box<dyn Future<Output = T> + Send + 'a>>>) -> Vec<T> {
    let mut outputs: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    poll_fn(|context| {
        let mut all = Poll::Ready(());
        for (future, output) in futures.iter_mut().zip(&mut outputs) {
            if output.is_none() {
                match future.as_mut().poll(context) {
                    Poll::Ready(ready) => *output = Some(ready),
                    Poll::Pending => all = Poll::Pending,
                }
            }
        }
        all
    })
    .await;
    outputs.into_iter().flatten().collect()
}
