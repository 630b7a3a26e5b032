//! What one commit does.

use redb::{ReadableTable as _, ReadableTableMetadata as _, Table, WriteTransaction};
use tidegate::config::{ConfigVersion, ConfigWrite, WriteResult};

use super::tables::{
    CHANGES, ENTRIES, FORMAT, FORMAT_CURRENT, LAST_VERSION, NUMBERS, decode_value, encode_value,
};

/// How many changes the log keeps. A reader that is further behind reads everything again.
pub(super) const CHANGES_KEPT: u64 = 1_000_000;
/// How many changes are removed at a time, because a removal costs about the same for one and for many.
const CHANGES_REMOVED_AT_ONCE: u64 = 10_000;

/// What a file has before the first commit.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Nothing: the file is new.
    Nothing,
    /// Our tables.
    Config,
    /// Our tables, in a format that this version does not know.
    UnknownFormat(u64),
    /// Tables of another program.
    Foreign,
}

pub(super) fn content(writing: &WriteTransaction) -> Result<Content, redb::Error> {
    let names: Vec<String> =
        writing.list_tables()?.map(|table| redb::TableHandle::name(&table).to_owned()).collect();
    if names.is_empty() && writing.list_multimap_tables()?.next().is_none() {
        return Ok(Content::Nothing);
    }
    if !names.iter().any(|name| name == redb::TableHandle::name(&NUMBERS)) {
        return Ok(Content::Foreign);
    }
    let format = writing.open_table(NUMBERS)?.get(FORMAT)?.map(|format| format.value());
    Ok(match format {
        Some(FORMAT_CURRENT) => Content::Config,
        Some(format) => Content::UnknownFormat(format),
        None => Content::Foreign,
    })
}

/// Creates the tables.
pub(super) fn create_tables(writing: &WriteTransaction) -> Result<(), redb::Error> {
    writing.open_table(ENTRIES)?;
    writing.open_table(CHANGES)?;
    writing.open_table(NUMBERS)?.insert(FORMAT, FORMAT_CURRENT)?;
    Ok(())
}

/// The tables of the file in one transaction, with the version of the last write.
pub(super) struct Tables<'t> {
    entries: Table<'t, &'static [u8], &'static [u8]>,
    changes: Table<'t, u64, &'static [u8]>,
    numbers: Table<'t, &'static [u8], u64>,
    last_before: u64,
    last: u64,
    /// A value with its version. Reused, to save allocations.
    stored: Vec<u8>,
}

impl<'t> Tables<'t> {
    pub(super) fn open(writing: &'t WriteTransaction) -> Result<Self, redb::Error> {
        let numbers = writing.open_table(NUMBERS)?;
        let last = numbers.get(LAST_VERSION)?.map_or(0, |last| last.value());
        let (entries, changes) = (writing.open_table(ENTRIES)?, writing.open_table(CHANGES)?);
        Ok(Self { entries, changes, numbers, last_before: last, last, stored: Vec::new() })
    }

    /// Does one write if its condition holds.
    pub(super) fn apply(&mut self, write: &ConfigWrite) -> Result<WriteResult, redb::Error> {
        let key = write.key.as_bytes();
        // Most writes have no condition, and need no look-up.
        if write.condition != tidegate::config::WriteCondition::Always {
            let current = self.entries.get(key)?.map(|stored| decode_value(stored.value()).0);
            if !write.condition.holds(current) {
                return Ok(WriteResult::Conflict(current));
            }
        }
        self.last += 1;
        let version = ConfigVersion::new(self.last);
        match &write.value {
            Some(value) => {
                encode_value(version, value, &mut self.stored);
                self.entries.insert(key, self.stored.as_slice())?;
            }
            None => drop(self.entries.remove(key)?),
        }
        self.changes.insert(self.last, key)?;
        Ok(WriteResult::Written(version))
    }

    /// Ends the writes of a transaction. Returns whether there is anything to commit.
    pub(super) fn finish(mut self) -> Result<Finished, redb::Error> {
        if self.last == self.last_before {
            return Ok(Finished::Unchanged);
        }
        self.numbers.insert(LAST_VERSION, self.last)?;
        if self.changes.len()? > CHANGES_KEPT + CHANGES_REMOVED_AT_ONCE {
            let first_kept = self.last.saturating_sub(CHANGES_KEPT) + 1;
            self.changes.retain_in(..first_kept, |_, _| false)?;
        }
        Ok(Finished::Changed)
    }
}

/// What the writes of a transaction did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finished {
    /// Nothing: no condition held.
    Unchanged,
    /// Something.
    Changed,
}
