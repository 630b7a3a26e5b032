//! Pages of entries in the byte order of their keys.
//!
//! A key may have several versions until a sweep deletes the old ones. The index orders them from old to new, and the last one
//! counts. In this order a scan misses no key that is written meanwhile: a new version is inserted behind the old one, before a
//! sweep deletes the old one.

use mongodb::bson::{Document, doc};
use tidegate::config::{CONFIG_PAGE_MAX, ConfigEntry, ConfigStoreError, Scan, ScanPage};

use super::document::{ID, KEY, entries_of, entry_of, key_of};
use super::store::Inner;

/// A page ends after this many bytes of values.
const PAGE_BYTES_MAX: usize = 4 << 20;
/// The most documents of one reply.
const REPLY_DOCUMENTS_MAX: usize = 1_000;

/// A scan that owns its texts.
pub(super) struct OwnedScan {
    prefix: String,
    after: Option<String>,
    entries_max: usize,
}

impl From<Scan<'_>> for OwnedScan {
    fn from(Scan { prefix, after, entries_max }: Scan<'_>) -> Self {
        let entries_max = entries_max.clamp(1, CONFIG_PAGE_MAX);
        Self { prefix: prefix.to_owned(), after: after.map(str::to_owned), entries_max }
    }
}

impl OwnedScan {
    fn filter(&self) -> Document {
        let mut range = Document::new();
        match &self.after {
            Some(after) if **after >= *self.prefix => range.insert("$gt", after),
            _ if self.prefix.is_empty() => range.insert("$gt", ""),
            _ => range.insert("$gte", &self.prefix),
        };
        if let Some(end) = prefix_end(&self.prefix) {
            range.insert("$lt", end);
        }
        entries_of(range)
    }
}

/// The first text after all texts with this prefix. None if there is no such text.
fn prefix_end(prefix: &str) -> Option<String> {
    let last = prefix.chars().next_back()?;
    let before = &prefix[..prefix.len() - last.len_utf8()];
    match (last..=char::MAX).nth(1) {
        Some(next) => Some(format!("{before}{next}")),
        None => prefix_end(before),
    }
}

impl Inner {
    pub(super) async fn read_scan(&self, scan: &OwnedScan) -> Result<ScanPage, ConfigStoreError> {
        let reply_max = u32::try_from((scan.entries_max + 1).min(REPLY_DOCUMENTS_MAX)).unwrap_or(u32::MAX);
        let found =
            self.collection().await?.find(scan.filter()).sort(doc! { KEY: 1, ID: 1 }).batch_size(reply_max);
        let mut found = self.database.call(found).await?;
        let (mut entries, mut bytes): (Vec<ConfigEntry>, usize) = (Vec::new(), 0);
        // The newest document so far of the current key.
        let mut newest: Option<Document> = None;
        loop {
            let next = match self.database.call(found.advance()).await? {
                true => Some(self.current(&found)?),
                false => None,
            };
            let is_same_key =
                newest.as_ref().zip(next.as_ref()).is_some_and(|(one, other)| key_of(one) == key_of(other));
            if let Some(entry) = newest.take().filter(|_| !is_same_key).and_then(entry_of) {
                bytes += entry.value.len();
                entries.push(entry);
            }
            if next.is_none() {
                return Ok(ScanPage { entries, has_more: false });
            }
            if entries.len() >= scan.entries_max || bytes >= PAGE_BYTES_MAX {
                return Ok(ScanPage { entries, has_more: true });
            }
            newest = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::prefix_end;

    #[test]
    fn the_end_of_a_prefix_is_the_next_text() {
        let end = |prefix| prefix_end(prefix);
        assert_eq!(end(""), None);
        assert_eq!(end("ab"), Some("ac".to_owned()));
        assert_eq!(end("a\u{7f}"), Some("a\u{80}".to_owned()));
        assert_eq!(end("a\u{d7ff}"), Some("a\u{e000}".to_owned()));
        assert_eq!(end("a\u{10ffff}"), Some("b".to_owned()));
        assert_eq!(end("\u{10ffff}"), None);
    }
}
