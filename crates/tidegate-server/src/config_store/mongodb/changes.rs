//! Changes after a version, and the latest version.

use std::cmp::Ordering;

use mongodb::bson::{Document, doc};
use tidegate::config::{CONFIG_PAGE_MAX, Changes, ConfigStoreError, ConfigVersion};

use super::document::{
    FIRST_VERSION, ID, KEY, VERSION_MAX, key_of, public_version, version_of, versions_from,
};
use super::store::Inner;

impl Inner {
    pub(super) async fn read_latest(&self) -> Result<i64, ConfigStoreError> {
        let found = self
            .collection()
            .await?
            .find_one(versions_from(FIRST_VERSION))
            .sort(doc! { ID: -1 })
            .projection(doc! { ID: 1 });
        match self.database.call(found).await?.as_ref().and_then(version_of) {
            Some(version) => self.last_version(version).await,
            None => {
                // The collection was dropped.
                self.database.forget_prepared();
                self.last_version(FIRST_VERSION).await
            }
        }
    }

    pub(super) async fn read_changes(
        &self,
        since: ConfigVersion,
        changes_max: usize,
    ) -> Result<Changes, ConfigStoreError> {
        let changes_max = changes_max.clamp(1, CONFIG_PAGE_MAX);
        let since = i64::try_from(since.get()).unwrap_or(i64::MAX).min(VERSION_MAX);
        let mut page = loop {
            let page = self.read_page(since, changes_max).await?;
            if !page.is_empty() {
                break page;
            }
            // A new log has no document for its first version, and one that lost its data may end before `since`.
            let latest = self.read_latest().await?;
            match latest.cmp(&since) {
                Ordering::Less => return Ok(gap(latest)),
                Ordering::Equal => return Ok(up_to(since)),
                // The collection was created again, with later versions.
                Ordering::Greater if self.is_below_floor(since).await? => return Ok(gap(latest)),
                // A write came between.
                Ordering::Greater => {}
            }
        };
        let has_more = page.len() > changes_max;
        // The document of `since` shows that the log has not lost its end.
        if page.first().is_some_and(|(version, _)| *version == since) {
            page.remove(0);
        }
        page.truncate(changes_max);
        let Some((next, _)) = page.last() else { return Ok(up_to(since)) };
        let next = public_version(*next);
        // After the page: if a sweep has deleted some of it, then it has written the floor before.
        if self.is_below_floor(since).await? {
            return Ok(gap(self.read_latest().await?));
        }
        let keys = page
            .iter()
            .filter_map(|(version, document)| Some((key_of(document)?.into(), public_version(*version))))
            .collect();
        Ok(Changes { keys, next, has_more, is_gap: false })
    }

    /// The documents from a version on, with one more than the maximum, which shows whether there are more.
    async fn read_page(
        &self,
        since: i64,
        changes_max: usize,
    ) -> Result<Vec<(i64, Document)>, ConfigStoreError> {
        let limit = i64::try_from(changes_max).unwrap_or(i64::MAX).saturating_add(1);
        let found = self
            .collection()
            .await?
            .find(versions_from(since))
            .sort(doc! { ID: 1 })
            .projection(doc! { ID: 1, KEY: 1 })
            .limit(limit);
        let mut found = self.database.call(found).await?;
        let mut page = Vec::new();
        while self.database.call(found.advance()).await? {
            let document = self.current(&found)?;
            page.extend(version_of(&document).map(|version| (version, document)));
        }
        Ok(page)
    }
}

fn up_to(version: i64) -> Changes {
    Changes { next: public_version(version), ..Changes::default() }
}

fn gap(latest: i64) -> Changes {
    Changes { is_gap: true, ..up_to(latest) }
}
