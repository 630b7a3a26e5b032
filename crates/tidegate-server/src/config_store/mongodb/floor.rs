//! How far back the log reaches: the entry with the empty key.

use mongodb::bson::{Document, doc};
use tidegate::config::{ConfigStoreError, ConfigWrite, WriteCondition};

use super::document::{FIRST_VERSION, ID, entries_of, value_of, version_of};
use super::store::Inner;

/// The key of floors. No other entry has an empty key.
const FLOOR_KEY: &str = "";

/// The newest floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Floor {
    /// The version of the entry.
    pub version: i64,
    /// When it was written, in milliseconds since 1970.
    pub at_ms: i64,
    /// Deletions before this version may be missing.
    pub floor: i64,
}

impl Floor {
    /// The floor in a document. In a damaged one, everything before it may be missing.
    fn parse(mut document: Document) -> Option<Self> {
        let version = version_of(&document)?;
        let value = value_of(&mut document);
        let parsed =
            std::str::from_utf8(&value).ok().and_then(|text| text.split_once(' ')).and_then(|(at, floor)| {
                Some(Self { version, at_ms: at.parse().ok()?, floor: floor.parse().ok()? })
            });
        Some(parsed.unwrap_or(Self { version, at_ms: 0, floor: version }))
    }
}

/// The write of a floor.
pub(super) fn floor_write(at_ms: i64, floor: i64, condition: WriteCondition) -> ConfigWrite {
    let value = format!("{at_ms} {floor}").into_bytes();
    ConfigWrite { key: FLOOR_KEY.into(), value: Some(value.into()), condition }
}

impl Inner {
    /// The newest floor. None if the collection is gone.
    pub(super) async fn read_floor(&self) -> Result<Option<Floor>, ConfigStoreError> {
        let found = self.collection().await?.find_one(entries_of(FLOOR_KEY)).sort(doc! { ID: -1 });
        Ok(self.database.call(found).await?.and_then(Floor::parse))
    }

    /// Whether changes after this version may be missing.
    pub(super) async fn is_below_floor(&self, version: i64) -> Result<bool, ConfigStoreError> {
        Ok(self.read_floor().await?.is_none_or(|floor| version < floor.floor))
    }

    /// The first document of a new collection. Versions continue from the current time in milliseconds.
    pub(super) fn first_write(&self) -> ConfigWrite {
        let now_ms = self.now_ms();
        floor_write(now_ms, now_ms, WriteCondition::Absent)
    }

    /// The last version of a log whose last document has this version.
    pub(super) async fn last_version(&self, version: i64) -> Result<i64, ConfigStoreError> {
        if version > FIRST_VERSION {
            return Ok(version);
        }
        Ok(self.read_floor().await?.map_or(FIRST_VERSION, |first| first.floor.max(FIRST_VERSION)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::{VALUE, of_write};
    use super::*;

    #[test]
    fn floors_are_read_back_and_damaged_ones_are_gaps() {
        let written = of_write(9, &floor_write(1_700_000_000_000, 5, WriteCondition::Absent));
        let floor = Floor { version: 9, at_ms: 1_700_000_000_000, floor: 5 };
        assert_eq!(Floor::parse(written), Some(floor));
        for damaged in [doc! { ID: 9_i64 }, doc! { ID: 9_i64, VALUE: "1" }, doc! { ID: 9_i64, VALUE: "x 1" }]
        {
            assert_eq!(Floor::parse(damaged), Some(Floor { version: 9, at_ms: 0, floor: 9 }));
        }
    }
}
