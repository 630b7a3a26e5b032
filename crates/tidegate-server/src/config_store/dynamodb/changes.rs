//! Changes after a version, from the log. The module's documentation says why nothing is missed.

use serde_json::{Value, json};
use tidegate::config::{CONFIG_PAGE_MAX, Changes, ConfigStoreError, ConfigVersion};

use super::item::{LogEntry, LogItem, parse_log_item};
use super::store::DynamoConfigStore;
use super::table::{HEAD, LOG_PARTITION, PARTITION, SORT, log_sort_key};

/// How often the log is read again because an item of a finished transaction was not visible yet.
const READS_MAX: usize = 5;
/// The most log entries that one request reads. A page also ends after 1 MB.
const PAGE_ENTRIES_MAX: usize = 1_000;
/// How many of the last transactions a reader gets again when it starts. See the module's documentation.
const LOOK_BACK_ENTRIES: usize = 8;

/// A part of the log, in order.
#[derive(Debug, Default)]
struct LogPage {
    /// Up to the first damaged one.
    entries: Vec<LogEntry>,
    is_damaged: bool,
    /// The greatest version, if the page reaches the head and there is one.
    head: Option<u64>,
    /// Whether the page ends before the head.
    is_cut: bool,
}

/// What a page of the log says to a reader.
#[derive(Debug, PartialEq, Eq)]
enum PageReading {
    Changes(Changes),
    /// The log does not continue from where the reader is.
    Gap,
    /// The entry with this version should be there. It was deleted, or is not visible yet.
    EntryMissing(u64),
    /// The head is less than what the reader has read. Data was lost, or the new head is not visible yet.
    HeadBehind,
}

impl DynamoConfigStore {
    pub(super) async fn read_changes(
        &self,
        since: ConfigVersion,
        changes_max: usize,
    ) -> Result<Changes, ConfigStoreError> {
        let changes_max = changes_max.clamp(1, CONFIG_PAGE_MAX);
        for _ in 0..READS_MAX {
            let page = self.read_log(since.get(), changes_max).await?;
            let is_gap = match read_page(&page, since.get(), changes_max) {
                PageReading::Changes(changes) => {
                    if !changes.keys.is_empty() {
                        self.client().note_change();
                    }
                    return Ok(changes);
                }
                PageReading::Gap => true,
                PageReading::EntryMissing(version) => !self.is_logged(version).await?,
                PageReading::HeadBehind => {
                    self.client().read_head().await?.is_none_or(|head| head < since.get())
                }
            };
            if is_gap {
                let next = self.read_latest().await?;
                return Ok(Changes { next, is_gap, ..Changes::default() });
            }
        }
        Err(not_visible())
    }

    pub(super) async fn read_latest(&self) -> Result<ConfigVersion, ConfigStoreError> {
        for _ in 0..READS_MAX {
            let page = self.read_log_end().await?;
            let Some(head) = page.head else { return Ok(ConfigVersion::ZERO) };
            // Newest first.
            let newest = page.entries.first().map_or(0, |entry| entry.last);
            if newest >= head {
                return Ok(ConfigVersion::new(start_of_chain(&page).unwrap_or(head)));
            }
            if !self.is_logged(head).await? {
                return Ok(ConfigVersion::new(head));
            }
        }
        Err(not_visible())
    }

    /// The log after a version, and the head if the page reaches it.
    async fn read_log(&self, since: u64, changes_max: usize) -> Result<LogPage, ConfigStoreError> {
        let limit = changes_max.min(PAGE_ENTRIES_MAX) + 1;
        let query = json!({
            "TableName": self.table(),
            "ConsistentRead": true,
            "KeyConditionExpression": format!("{PARTITION} = :partition AND {SORT} > :since"),
            "ExpressionAttributeValues": {
                ":partition": { "S": LOG_PARTITION },
                ":since": { "S": log_sort_key(since) },
            },
            "Limit": limit,
        });
        self.query_log(&query).await
    }

    /// The head, and the last entries, the newest first.
    async fn read_log_end(&self) -> Result<LogPage, ConfigStoreError> {
        let query = json!({
            "TableName": self.table(),
            "ConsistentRead": true,
            "ScanIndexForward": false,
            "KeyConditionExpression": format!("{PARTITION} = :partition AND {SORT} <= :head"),
            "ExpressionAttributeValues": { ":partition": { "S": LOG_PARTITION }, ":head": { "S": HEAD } },
            "Limit": LOOK_BACK_ENTRIES + 2,
        });
        self.query_log(&query).await
    }

    async fn query_log(&self, query: &Value) -> Result<LogPage, ConfigStoreError> {
        let reply = self.client().query(query).await?;
        let mut page = LogPage { is_cut: reply.has_more, ..LogPage::default() };
        for item in &reply.items {
            match parse_log_item(item) {
                LogItem::Entry(entry) if !page.is_damaged => page.entries.push(entry),
                LogItem::Entry(_) | LogItem::Other => {}
                LogItem::Damaged => page.is_damaged = true,
                LogItem::Head(None) => return Err(self.client().damaged_head()),
                LogItem::Head(head) => page.head = head,
            }
        }
        Ok(page)
    }

    /// Whether the log has the entry with this version.
    async fn is_logged(&self, version: u64) -> Result<bool, ConfigStoreError> {
        Ok(self.client().get_item(LOG_PARTITION, &log_sort_key(version)).await?.is_some())
    }
}

/// Transactions are finished within milliseconds, so this should not happen.
#[cold]
fn not_visible() -> ConfigStoreError {
    ConfigStoreError::Unavailable(
        "DynamoDB has not finished a transaction (hint: it does so by itself; see the status of the service)"
            .into(),
    )
}

fn read_page(page: &LogPage, since: u64, changes_max: usize) -> PageReading {
    let Some(first) = page.entries.first() else {
        return match page.head {
            _ if page.is_damaged => PageReading::Gap,
            Some(head) if head > since => PageReading::EntryMissing(head),
            Some(head) if head < since => PageReading::HeadBehind,
            None if since > 0 => PageReading::HeadBehind,
            _ => no_changes(since),
        };
    };
    if page.head.is_none() && !page.is_cut {
        // A log without a head: the head was deleted. The next write creates it.
        return if since == 0 { no_changes(0) } else { PageReading::HeadBehind };
    }
    if !first.follows(since) {
        return if since < first.previous {
            PageReading::EntryMissing(first.previous)
        } else {
            PageReading::Gap
        };
    }
    let (mut keys, mut next, mut has_more) = (Vec::new(), since, page.is_cut || page.is_damaged);
    let mut last = first.previous;
    'page: for entry in &page.entries {
        if entry.previous != last {
            // The next call begins here, and finds out why.
            has_more = true;
            break;
        }
        last = entry.last;
        for (version, key) in (entry.first()..).zip(&entry.keys).filter(|(version, _)| *version > since) {
            if keys.len() == changes_max {
                has_more = true;
                break 'page;
            }
            keys.push((key.clone(), ConfigVersion::new(version)));
            next = version;
        }
    }
    PageReading::Changes(Changes { keys, next: ConfigVersion::new(next), has_more, is_gap: false })
}

fn no_changes(since: u64) -> PageReading {
    PageReading::Changes(Changes { next: ConfigVersion::new(since), ..Changes::default() })
}

/// The version before the oldest of the last entries, as far as they are known to follow each other. The page has the newest
/// first.
fn start_of_chain(page: &LogPage) -> Option<u64> {
    let mut start = page.entries.first()?.last;
    for (index, entry) in page.entries.iter().enumerate() {
        match page.entries.get(index + 1) {
            Some(older) if older.last == entry.previous => start = entry.previous,
            // There is no older entry at all.
            None if !page.is_cut && !page.is_damaged => return Some(entry.previous),
            _ => break,
        }
    }
    Some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(previous: u64, last: u64, keys: &[&str]) -> LogEntry {
        LogEntry { last, previous, keys: keys.iter().map(|key| (*key).into()).collect() }
    }

    fn page(entries: &[LogEntry], head: Option<u64>) -> LogPage {
        LogPage { entries: entries.to_vec(), head, ..LogPage::default() }
    }

    fn changes(keys: &[(&str, u64)], next: u64, has_more: bool) -> PageReading {
        let keys = keys.iter().map(|(key, version)| ((*key).into(), ConfigVersion::new(*version))).collect();
        PageReading::Changes(Changes { keys, next: ConfigVersion::new(next), has_more, is_gap: false })
    }

    #[test]
    fn entries_are_listed_in_parts() {
        let log = page(&[entry(10, 23, &["a", "b", "c"]), entry(23, 40, &["d"])], Some(40));
        let all = [("a", 21), ("b", 22), ("c", 23), ("d", 40)];
        assert_eq!(read_page(&log, 10, 9), changes(&all, 40, false));
        assert_eq!(read_page(&log, 10, 2), changes(&all[..2], 22, true));
        assert_eq!(read_page(&log, 22, 9), changes(&all[2..], 40, false));
        assert_eq!(read_page(&page(&[], Some(40)), 40, 9), changes(&[], 40, false));
        assert_eq!(read_page(&page(&[], None), 0, 9), changes(&[], 0, false));
    }

    #[test]
    fn what_is_missing_is_noticed() {
        let log = page(&[entry(10, 12, &["a"]), entry(14, 15, &["b"])], Some(15));
        // Up to the hole, and then the hole.
        assert_eq!(read_page(&log, 10, 9), changes(&[("a", 12)], 12, true));
        assert_eq!(read_page(&page(&log.entries[1..], Some(15)), 12, 9), PageReading::EntryMissing(14));
        assert_eq!(read_page(&log, 5, 9), PageReading::EntryMissing(10));
        assert_eq!(read_page(&page(&[], Some(15)), 12, 9), PageReading::EntryMissing(15));
        assert_eq!(read_page(&page(&[], Some(15)), 16, 9), PageReading::HeadBehind);
        assert_eq!(read_page(&page(&[], None), 16, 9), PageReading::HeadBehind);
        // No transaction ended with version 11: the table was restored from a backup.
        assert_eq!(read_page(&log, 11, 9), PageReading::Gap);
        let damaged = LogPage { is_damaged: true, ..page(&[], Some(15)) };
        assert_eq!(read_page(&damaged, 12, 9), PageReading::Gap);
    }

    #[test]
    fn a_reader_starts_before_the_last_transactions() {
        let newest_first = [entry(14, 15, &["b"]), entry(10, 14, &["a"]), entry(3, 10, &["a"])];
        let whole = page(&newest_first, Some(15));
        assert_eq!(start_of_chain(&whole), Some(3));
        let cut = LogPage { is_cut: true, ..page(&newest_first, Some(15)) };
        assert_eq!(start_of_chain(&cut), Some(10));
        let hole = page(&[entry(14, 15, &["b"]), entry(8, 9, &["a"])], Some(15));
        assert_eq!(start_of_chain(&hole), Some(15));
        assert_eq!(start_of_chain(&page(&[], Some(15))), None);
    }
}
