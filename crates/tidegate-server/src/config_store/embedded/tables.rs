//! The tables of the file, and reading them.

use std::ops::Bound;

use redb::{ReadTransaction, ReadableTable as _, ReadableTableMetadata as _, TableDefinition};
use tidegate::config::{CONFIG_PAGE_MAX, Changes, ConfigEntry, ConfigVersion, Scan, ScanPage};

/// Keys to values. A value starts with its version, in 8 bytes, little-endian. Keys are bytes, because redb panics on text
/// that is not UTF-8, as a damaged file may have it.
pub(super) const ENTRIES: TableDefinition<&[u8], &[u8]> = TableDefinition::new("entries");
/// Versions to the keys that they changed. The versions are consecutive.
pub(super) const CHANGES: TableDefinition<u64, &[u8]> = TableDefinition::new("changes");
/// Numbers by name: [`LAST_VERSION`] and [`FORMAT`].
pub(super) const NUMBERS: TableDefinition<&[u8], u64> = TableDefinition::new("numbers");

/// The version of the last write.
pub(super) const LAST_VERSION: &[u8] = b"last-version";
/// The format of the tables.
pub(super) const FORMAT: &[u8] = b"format";
/// The format that this version writes and reads.
pub(super) const FORMAT_CURRENT: u64 = 1;

/// The most bytes of keys and values in a page of a scan, unless its first entry is larger.
const PAGE_BYTES_MAX: usize = 16 << 20;
const VERSION_BYTES: usize = size_of::<u64>();

/// A value as the table has it, appended to `stored`.
pub(super) fn encode_value(version: ConfigVersion, value: &[u8], stored: &mut Vec<u8>) {
    stored.clear();
    stored.extend_from_slice(&version.get().to_le_bytes());
    stored.extend_from_slice(value);
}

/// The version and the value. What is too short for a version is returned as a value of version 0: the caller reports it, as
/// other damaged values, and a new write replaces it.
pub(super) fn decode_value(stored: &[u8]) -> (ConfigVersion, &[u8]) {
    match stored.split_first_chunk::<VERSION_BYTES>() {
        Some((version, value)) => (ConfigVersion::new(u64::from_le_bytes(*version)), value),
        None => (ConfigVersion::ZERO, stored),
    }
}

/// A key, if it is text. Other keys are skipped: no write makes them, and no call can name them.
fn decode_key(stored: &[u8]) -> Option<&str> {
    let key = str::from_utf8(stored).ok();
    if key.is_none() {
        tracing::error!(key = %stored.escape_ascii(), "a damaged key in the config store is skipped");
    }
    key
}

pub(super) fn get(reading: &ReadTransaction, key: &str) -> Result<Option<ConfigEntry>, redb::Error> {
    let Some(stored) = reading.open_table(ENTRIES)?.get(key.as_bytes())? else { return Ok(None) };
    let (version, value) = decode_value(stored.value());
    Ok(Some(ConfigEntry { key: key.into(), value: value.into(), version }))
}

pub(super) fn scan(reading: &ReadTransaction, scan: &Scan<'_>) -> Result<ScanPage, redb::Error> {
    let entries_max = scan.entries_max.clamp(1, CONFIG_PAGE_MAX);
    let prefix = scan.prefix.as_bytes();
    let from = match scan.after.map(str::as_bytes) {
        Some(after) if after >= prefix => Bound::Excluded(after),
        _ => Bound::Included(prefix),
    };
    let table = reading.open_table(ENTRIES)?;
    let (mut page, mut bytes) = (ScanPage::default(), 0);
    for entry in table.range::<&[u8]>((from, Bound::Unbounded))? {
        let (key, stored) = entry?;
        if !key.value().starts_with(prefix) {
            break;
        }
        bytes += key.value().len() + stored.value().len();
        if page.entries.len() == entries_max || (bytes > PAGE_BYTES_MAX && !page.entries.is_empty()) {
            page.has_more = true;
            break;
        }
        let (version, value) = decode_value(stored.value());
        if let Some(key) = decode_key(key.value()) {
            page.entries.push(ConfigEntry { key: key.into(), value: value.into(), version });
        }
    }
    Ok(page)
}

pub(super) fn last_version(reading: &ReadTransaction) -> Result<ConfigVersion, redb::Error> {
    let last = reading.open_table(NUMBERS)?.get(LAST_VERSION)?;
    Ok(ConfigVersion::new(last.map_or(0, |last| last.value())))
}

pub(super) fn changes(
    reading: &ReadTransaction,
    since: ConfigVersion,
    changes_max: usize,
) -> Result<Changes, redb::Error> {
    let (latest, log) = (last_version(reading)?, reading.open_table(CHANGES)?);
    let oldest = log.first()?.map_or(latest.get() + 1, |(version, _)| version.value());
    if since > latest || since.get() + 1 < oldest {
        return Ok(Changes { next: latest, is_gap: true, ..Changes::default() });
    }
    let (mut keys, mut next) = (Vec::new(), since);
    for change in log.range(since.get() + 1..)?.take(changes_max.clamp(1, CONFIG_PAGE_MAX)) {
        let (version, key) = change?;
        next = ConfigVersion::new(version.value());
        keys.extend(decode_key(key.value()).map(|key| (key.into(), next)));
    }
    Ok(Changes { keys, next, has_more: next < latest, is_gap: false })
}

/// The number of entries, which redb keeps.
pub(super) fn entries(reading: &ReadTransaction) -> Result<u64, redb::Error> {
    Ok(reading.open_table(ENTRIES)?.len()?)
}
