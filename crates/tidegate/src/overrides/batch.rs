//! Sets many overrides with few calls to the config store, for imports.
//!
//! The records of all keys that may have one are read, some at a time, and are written back in one call, each on the condition
//! that no other edit came between. A key with such an edit is set again by itself.

use std::future::ready;

use indexmap::IndexMap;
use tidegate_core::Timestamp;
use tidegate_core::rules::Override;

use super::edit_error::EditError;
use super::editor::{
    EditedOverride, OverrideEditor, Replaced, current_overrides, encode, kept_blocks, too_many_wildcards,
};
use super::join_all::{AT_ONCE_MAX, join_all};
use super::place::{OverrideChange, OverridePlace, ReplacedOverride, ResolvedPlace};
use super::record::{self, OVERRIDES_MAX};
use crate::config::{
    CONFIG_WRITES_MAX, ConfigEntry, ConfigStoreError, ConfigVersion, ConfigWrite, WriteCondition, WriteResult,
};

/// An override and what it is to be.
pub type BatchEdit = (OverridePlace, OverrideChange);

/// The edits of one key: their positions in the batch.
type KeyEdits<'a> = Vec<(usize, ResolvedPlace<'a>)>;

/// An edit of a record that is not written yet.
struct PreparedEdit {
    position: usize,
    before: Option<Override>,
    after: Override,
    kept_blocks: Vec<Override>,
    was_damaged: bool,
}

/// The edits of a key, and its overrides after them.
struct PreparedKey {
    edits: Vec<PreparedEdit>,
    overrides: Vec<Override>,
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
        let mut new_wildcards = 0;
        for (position, (place, change)) in edits.iter().enumerate() {
            let resolved = ResolvedPlace::resolve(self.rules, place).and_then(|resolved| {
                resolved.check(place, change, now)?;
                let id = encode(&resolved.name)?;
                if !keys.contains_key(&id) && resolved.name.is_wildcard() {
                    if !self.cache.has_room_for(&resolved.name, &id, new_wildcards) {
                        return Err(too_many_wildcards());
                    }
                    new_wildcards += 1;
                }
                Ok((id, resolved))
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
        let mut put = Vec::with_capacity(keys.len());
        for (_, key_edits) in keys {
            let (Some(prepared), Some(WriteResult::Written(version))) = (prepared.next(), written.next())
            else {
                for (position, _) in key_edits {
                    let (place, change) = &edits[*position];
                    results[*position] = Some(self.set(place, change, None, now).await);
                }
                continue;
            };
            let PreparedKey { edits: of_key, overrides } = prepared;
            if let Some((_, resolved)) = key_edits.first() {
                put.push((&resolved.name, version.get(), Some(overrides)));
            }
            for (edit, (_, resolved)) in of_key.into_iter().zip(key_edits) {
                results[edit.position] = Some(Ok(EditedOverride {
                    name: resolved.name.clone(),
                    version: version.get(),
                    before: edit.before.filter(|before| !before.is_leftover()),
                    after: Some(edit.after),
                    kept_blocks: edit.kept_blocks,
                    was_damaged: edit.was_damaged,
                }));
            }
        }
        self.cache.put_keys(put);
    }

    async fn write_keys(
        &self,
        edits: &[BatchEdit],
        keys: &[(Box<str>, KeyEdits<'_>)],
        now: Timestamp,
    ) -> Result<(Vec<PreparedKey>, Vec<WriteResult>), ConfigStoreError> {
        let (mut writes, mut prepared) = (Vec::with_capacity(keys.len()), Vec::with_capacity(keys.len()));
        for some in keys.chunks(AT_ONCE_MAX) {
            // If a key has a record that this node does not know of, its write has a conflict.
            let reads = some.iter().map(|(id, key_edits)| match key_edits.first() {
                Some((_, resolved)) if self.cache.may_have_overrides(&resolved.name) => {
                    self.cache.store().get(id)
                }
                _ => Box::pin(ready(Ok(None))),
            });
            let reads = reads.collect();
            for ((id, key_edits), entry) in some.iter().zip(join_all(reads).await) {
                let (write, of_key) = self.prepare(edits, id, key_edits, entry?.as_ref(), now);
                writes.push(write);
                prepared.push(of_key);
            }
        }
        let written = self.cache.store().write(&writes).await?;
        Ok((prepared, written))
    }

    /// Applies the edits of one key to its record.
    fn prepare(
        &self,
        edits: &[BatchEdit],
        id: &str,
        key_edits: &[(usize, ResolvedPlace<'_>)],
        entry: Option<&ConfigEntry>,
        now: Timestamp,
    ) -> (ConfigWrite, PreparedKey) {
        let version: Option<ConfigVersion> = entry.map(|entry| entry.version);
        let current = entry.map(current_overrides).transpose();
        let (is_newer, was_damaged) = (current.is_err(), matches!(current, Ok(Some(None))));
        let mut overrides = current.ok().flatten().flatten().unwrap_or_default();
        let mut prepared = Vec::with_capacity(key_edits.len());
        for (position, resolved) in key_edits {
            let (place, change) = &edits[*position];
            let before = Replaced::by(place, change).take_from(&mut overrides);
            let inherited = self.inherited(&resolved.name, place, now);
            let replaced = ReplacedOverride { before: before.as_ref(), inherited };
            let after = resolved.changed(place, change, &replaced, now);
            let kept_blocks = kept_blocks(&overrides);
            overrides.push(after.clone());
            prepared.push(PreparedEdit { position: *position, before, after, kept_blocks, was_damaged });
        }
        // A record of a newer version is kept, and one that is too long is not written: this write has a conflict, and the
        // single edits that follow are refused.
        let is_refused = is_newer || overrides.len() > OVERRIDES_MAX;
        let condition = match version {
            _ if is_refused => WriteCondition::Version(ConfigVersion::ZERO),
            Some(version) => WriteCondition::Version(version),
            None => WriteCondition::Absent,
        };
        let write = ConfigWrite { key: id.into(), value: Some(record::encode(&overrides)), condition };
        (write, PreparedKey { edits: prepared, overrides })
    }
}
