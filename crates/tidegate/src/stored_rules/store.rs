//! [`RulesStore`].

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use tidegate_core::Timestamp;

use super::bundle;
use super::edit::{EditContext, PushError, RulesEdit};
use super::history::{self, Bundle, HISTORY_KEY, Revision, RulesHistory};
use super::layers::{LayeredRules, RulesLayer};
use crate::config::{ConfigStore, ConfigVersion, ConfigWrite, RecordError, WriteCondition, WriteResult};
use crate::rules::{Report, RulesText};

/// How often an edit starts over because another one came between.
const ATTEMPTS_MAX: usize = 8;

/// The rules in a config store.
#[derive(Clone, Debug)]
pub struct RulesStore {
    config: Arc<dyn ConfigStore>,
}

/// A change that was made, or would be made.
#[derive(Clone, Debug)]
pub struct EditedRules<T> {
    /// The history after it.
    pub history: RulesHistory,
    /// What the check returned.
    pub checked: T,
}

/// Whether an edit is only tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    DryRun,
    Write,
}

impl RulesStore {
    /// The rules in this store.
    pub fn new(config: Arc<dyn ConfigStore>) -> Self {
        Self { config }
    }

    /// The last revisions.
    pub async fn history(&self) -> Result<RulesHistory, PushError> {
        match self.config.get(HISTORY_KEY).await? {
            None => Ok(RulesHistory::default()),
            Some(entry) => Ok(history::decode(entry.version, &entry.value)?),
        }
    }

    /// The rules in force by a history.
    pub async fn layered(&self, history: &RulesHistory, now: Timestamp) -> Result<LayeredRules, PushError> {
        self.layers(history, now, None).await
    }

    /// The files of a revision.
    pub async fn files(&self, revision: &Revision) -> Result<Vec<RulesText>, PushError> {
        let (mut text, keys) = (Vec::new(), bundle::part_keys(&revision.bundle));
        for key in keys {
            let part = self.config.get(&key).await?.ok_or_else(|| {
                RecordError::Damaged(format!("a part of revision {} is missing", revision.number).into())
            })?;
            text.extend_from_slice(&part.value);
        }
        if crc32fast::hash(&text) != revision.bundle.crc32 {
            let what = format!("revision {} does not match its checksum", revision.number);
            return Err(RecordError::Damaged(what.into()).into());
        }
        Ok(bundle::decode(&text)?)
    }

    /// Makes a change, if `check` accepts the files that would be in force.
    pub async fn edit<T>(
        &self,
        edit: &RulesEdit,
        context: &EditContext,
        now: Timestamp,
        check: impl Fn(&[RulesText]) -> Result<T, Report>,
    ) -> Result<EditedRules<T>, PushError> {
        self.run(edit, context, now, check, Attempt::Write).await
    }

    /// Does what [`edit`](Self::edit) would do, and writes nothing.
    pub async fn dry_run<T>(
        &self,
        edit: &RulesEdit,
        context: &EditContext,
        now: Timestamp,
        check: impl Fn(&[RulesText]) -> Result<T, Report>,
    ) -> Result<EditedRules<T>, PushError> {
        self.run(edit, context, now, check, Attempt::DryRun).await
    }

    async fn run<T>(
        &self,
        edit: &RulesEdit,
        context: &EditContext,
        now: Timestamp,
        check: impl Fn(&[RulesText]) -> Result<T, Report>,
        attempt: Attempt,
    ) -> Result<EditedRules<T>, PushError> {
        edit.check(context, now)?;
        let text = edit.files().map(bundle::encode);
        let bundle = text.as_deref().map(|text| new_bundle(text, now));
        let mut is_written = false;
        let result = async {
            for _ in 0..ATTEMPTS_MAX {
                let before = self.history().await?;
                let mut history = edit.apply(&before, context, bundle.as_ref(), now)?;
                let pushed = bundle.as_ref().zip(edit.files());
                let active = self.layers(&history, now, pushed).await?;
                let checked =
                    check(&active.files(now)).map_err(|report| PushError::Invalid(Box::new(report)))?;
                if attempt == Attempt::DryRun {
                    return Ok(EditedRules { history, checked });
                }
                if let (Some(bundle), Some(text), false) = (&bundle, &text, is_written) {
                    is_written = true;
                    self.config.write(&bundle::writes(bundle, text)).await?;
                }
                let removed = history.trim(now);
                if let Some(version) = self.write_history(&before, &history).await? {
                    history.version = Some(version);
                    // If this fails, some parts stay that nothing refers to.
                    let _ = self.config.write(&unused_parts(&removed, &history)).await;
                    return Ok(EditedRules { history, checked });
                }
            }
            Err(PushError::Refused("other changes of the rules kept coming between (hint: try again)".into()))
        };
        let result = result.await;
        // After an error of the store, the history may have been written.
        if let (Some(bundle), true, Err(PushError::Refused(_) | PushError::Conflict(_))) =
            (&bundle, is_written, &result)
        {
            let _ = self.config.write(&bundle::deletes(bundle)).await;
        }
        result
    }

    /// Writes the history, unless another edit came between.
    async fn write_history(
        &self,
        before: &RulesHistory,
        after: &RulesHistory,
    ) -> Result<Option<ConfigVersion>, PushError> {
        let condition = before.version.map_or(WriteCondition::Absent, WriteCondition::Version);
        let write = ConfigWrite { key: HISTORY_KEY.into(), value: Some(history::encode(after)), condition };
        match self.config.write(&[write]).await?.first() {
            Some(WriteResult::Written(version)) => Ok(Some(*version)),
            Some(WriteResult::Conflict(_)) | None => Ok(None),
        }
    }

    /// The rules in force. `pushed` is a bundle that may not be in the store yet.
    async fn layers(
        &self,
        history: &RulesHistory,
        now: Timestamp,
        pushed: Option<(&Bundle, &[RulesText])>,
    ) -> Result<LayeredRules, PushError> {
        let mut layers = Vec::new();
        let newest_first = history.revisions.iter().rev();
        let current = history.current().map(|revision| revision.number);
        let emergencies: Vec<u64> = history.emergencies(now).map(|revision| revision.number).collect();
        for revision in newest_first.clone().filter(|revision| emergencies.contains(&revision.number)) {
            layers.push(self.layer(revision, pushed).await?);
        }
        if let Some(revision) = newest_first.clone().find(|revision| Some(revision.number) == current) {
            layers.push(self.layer(revision, pushed).await?);
        }
        Ok(LayeredRules { layers })
    }

    async fn layer(
        &self,
        revision: &Revision,
        pushed: Option<(&Bundle, &[RulesText])>,
    ) -> Result<RulesLayer, PushError> {
        let files = match pushed {
            Some((bundle, files)) if *bundle == revision.bundle => files.to_vec(),
            _ => self.files(revision).await?,
        };
        Ok(RulesLayer { revision: revision.number, expires_at: revision.expires_at(), files })
    }
}

/// A bundle for a text, under a name that no other bundle has.
fn new_bundle(text: &[u8], now: Timestamp) -> Bundle {
    let random = RandomState::new().hash_one(now.as_nanos());
    Bundle {
        id: format!("{}-{random:016x}", now.as_nanos()).into(),
        parts: bundle::part_count(text),
        crc32: crc32fast::hash(text),
    }
}

/// The writes that delete the bundles of removed revisions. A rollback uses the bundle of an earlier revision, so it may
/// still be in use.
fn unused_parts(removed: &[Revision], history: &RulesHistory) -> Vec<ConfigWrite> {
    let is_used = |one: &Bundle| history.revisions.iter().any(|revision| revision.bundle.id == one.id);
    removed
        .iter()
        .filter(|revision| !is_used(&revision.bundle))
        .flat_map(|revision| bundle::deletes(&revision.bundle))
        .collect()
}
