//! Writes: conditions, versions, and inserts at the end of the log. The module's documentation says why this is exact.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

use mongodb::bson::{Document, doc};
use mongodb::error::{ErrorKind, InsertManyError};
use mongodb::options::ReadConcern;
use tidegate::config::{ConfigStoreError, ConfigWrite, WriteCondition, WriteResult};

use super::document::{
    DELETED, FIRST_VERSION, ID, KEY, VERSION_MAX, entries_of, is_deletion, of_write, public_version,
    version_of, versions_from,
};
use super::error::{DUPLICATE_KEY, call_error, contended, versions_used_up};
use super::store::Inner;

/// Writes in one insert at most. FerretDB compares each key of a query with each document, so the number is small.
const INSERT_WRITES_MAX: usize = 250;
/// No further write is added to an insert after this many bytes of keys and values.
const INSERT_BYTES_MAX: usize = 1 << 20;
/// How often in a row another node may be faster.
const LOSSES_MAX: u32 = 200;
/// How much longer a node waits after each loss, at random, up to the maximum.
const LOSS_DELAY: Duration = Duration::from_millis(2);
const LOSS_DELAY_MAX: Duration = Duration::from_millis(40);

/// The version of a key's value, or `None` if the key has no value.
type Versions<'a> = HashMap<&'a str, Option<i64>>;

/// What some writes come to at a certain end of the log.
struct Draft {
    results: Vec<WriteResult>,
    documents: Vec<Document>,
    /// For each document, the position of its write.
    positions: Vec<usize>,
}

/// What became of an insert.
enum Inserted {
    All,
    /// Only this many documents, because the version of the next one was taken.
    Some(usize),
}

impl Inner {
    /// Does writes in order. One call of a node at a time, so that it competes with other nodes only.
    pub(super) async fn append(&self, writes: &[ConfigWrite]) -> Result<Vec<WriteResult>, ConfigStoreError> {
        let _turn = self.append_turn.lock().await;
        let mut results = Vec::with_capacity(writes.len());
        let (mut last, mut losses) = (self.read_end().await?, 0);
        while results.len() < writes.len() {
            let rest = &writes[results.len()..];
            let draft = self.draft(&rest[..insert_len(rest)], last).await?;
            match self.insert(&draft.documents).await? {
                Inserted::All => {
                    last += i64::try_from(draft.documents.len()).unwrap_or(0);
                    results.extend(draft.results);
                    losses = 0;
                }
                Inserted::Some(documents) => {
                    results.extend(&draft.results[..draft.positions[documents]]);
                    losses = if documents == 0 { losses + 1 } else { 0 };
                    self.wait_after_losses(losses).await?;
                    last = self.read_end().await?;
                }
            }
        }
        Ok(results)
    }

    /// The last version, whether or not a majority of servers has it.
    async fn read_end(&self) -> Result<i64, ConfigStoreError> {
        let found = self
            .collection()
            .await?
            .find_one(versions_from(FIRST_VERSION))
            .sort(doc! { ID: -1 })
            .projection(doc! { ID: 1 })
            .read_concern(ReadConcern::local());
        match self.database.call(found).await?.as_ref().and_then(version_of) {
            Some(version) => self.last_version(version).await,
            None => {
                self.database.forget_prepared();
                self.collection().await?;
                self.last_version(FIRST_VERSION).await
            }
        }
    }

    /// Decides about each write, if the log ends at this version.
    async fn draft(&self, writes: &[ConfigWrite], last: i64) -> Result<Draft, ConfigStoreError> {
        let mut current = self.read_versions(writes).await?;
        let mut draft = Draft { results: Vec::new(), documents: Vec::new(), positions: Vec::new() };
        let mut version = last;
        for (position, write) in writes.iter().enumerate() {
            let before = current.get(&*write.key).copied().flatten().map(public_version);
            if !write.condition.holds(before) {
                draft.results.push(WriteResult::Conflict(before));
                continue;
            }
            version += 1;
            if version > VERSION_MAX {
                return Err(versions_used_up());
            }
            current.insert(&write.key, write.value.is_some().then_some(version));
            draft.documents.push(of_write(version, write));
            draft.positions.push(position);
            draft.results.push(WriteResult::Written(public_version(version)));
        }
        Ok(draft)
    }

    /// The versions of the keys that have a condition.
    async fn read_versions<'a>(&self, writes: &'a [ConfigWrite]) -> Result<Versions<'a>, ConfigStoreError> {
        let has_condition = |write: &&ConfigWrite| write.condition != WriteCondition::Always;
        let mut versions: HashMap<&str, (i64, bool)> = writes
            .iter()
            .filter(has_condition)
            .map(|write| (&*write.key, (FIRST_VERSION - 1, false)))
            .collect();
        if versions.is_empty() {
            return Ok(Versions::new());
        }
        let keys: Vec<&str> = versions.keys().copied().collect();
        let filter = match keys.as_slice() {
            [key] => entries_of(*key),
            keys => entries_of(doc! { "$in": keys }),
        };
        let found = self
            .collection()
            .await?
            .find(filter)
            .projection(doc! { KEY: 1, ID: 1, DELETED: 1 })
            .read_concern(ReadConcern::local());
        let mut found = self.database.call(found).await?;
        while self.database.call(found.advance()).await? {
            let document = found.deserialize_current().map_err(|error| call_error(&error))?;
            let (Some(version), Ok(key)) = (version_of(&document), document.get_str(KEY)) else { continue };
            if let Some(newest) = versions.get_mut(key)
                && version > newest.0
            {
                *newest = (version, !is_deletion(&document));
            }
        }
        Ok(versions
            .into_iter()
            .map(|(key, (version, has_value))| (key, has_value.then_some(version)))
            .collect())
    }

    async fn insert(&self, documents: &[Document]) -> Result<Inserted, ConfigStoreError> {
        if documents.is_empty() {
            return Ok(Inserted::All);
        }
        let inserted = self.collection().await?.insert_many(documents).ordered(true);
        let Err(error) = self.database.deadline(inserted).await? else { return Ok(Inserted::All) };
        match &*error.kind {
            ErrorKind::InsertMany(InsertManyError {
                write_errors: Some(errors),
                write_concern_error: None,
                ..
            }) if errors.len() == 1
                && errors[0].code == DUPLICATE_KEY
                && errors[0].index < documents.len() =>
            {
                Ok(Inserted::Some(errors[0].index))
            }
            _ => Err(call_error(&error)),
        }
    }

    /// Waits for a random time, so that nodes that compete do not stay in step.
    async fn wait_after_losses(&self, losses: u32) -> Result<(), ConfigStoreError> {
        if losses >= LOSSES_MAX {
            return Err(contended(losses));
        }
        let longest = LOSS_DELAY.saturating_mul(losses).min(LOSS_DELAY_MAX);
        let longest_us = u64::try_from(longest.as_micros()).unwrap_or(0);
        let random = RandomState::new().build_hasher().finish();
        if let Some(delay_us) = random.checked_rem(longest_us) {
            tokio::time::sleep(Duration::from_micros(delay_us)).await;
        }
        Ok(())
    }
}

/// How many of these writes are inserted together.
fn insert_len(writes: &[ConfigWrite]) -> usize {
    let mut bytes = 0;
    let fits = |write: &&ConfigWrite| {
        let has_room = bytes < INSERT_BYTES_MAX;
        bytes += write.key.len() + write.value.as_ref().map_or(0, |value| value.len());
        has_room
    };
    writes.iter().take(INSERT_WRITES_MAX).take_while(fits).count()
}
