//! Pages of entries in the byte order of their keys, from all buckets.

use std::sync::Arc;

use serde_json::{Value, json};
use tidegate::config::{
    CONFIG_PAGE_MAX, ConfigEntry, ConfigStoreError, MergedPage, Scan, ScanPage, ShardPage, merge_pages,
    shard_share,
};
use tokio::task::JoinSet;

use super::client::DynamoClient;
use super::item::parse_entry;
use super::store::DynamoConfigStore;
use super::table::{BUCKETS, PARTITION, SORT, bucket_name, item_key};

impl DynamoConfigStore {
    pub(super) async fn scan_page(&self, scan: Scan<'_>) -> Result<ScanPage, ConfigStoreError> {
        let entries_max = scan.entries_max.clamp(1, CONFIG_PAGE_MAX);
        let after = match scan.after {
            Some(after) if after.starts_with(scan.prefix) => Some(after),
            Some(after) if after > scan.prefix => return Ok(ScanPage::default()),
            _ => None,
        };
        // All buckets at the same time. Dropping the set ends the requests.
        let mut queries = JoinSet::new();
        for bucket in 0..BUCKETS {
            let query = self.bucket_query(bucket, scan.prefix, after, shard_share(entries_max, BUCKETS));
            queries.spawn(read_bucket(Arc::clone(self.client()), query));
        }
        let mut pages = Vec::with_capacity(BUCKETS);
        while let Some(page) = queries.join_next().await {
            let page = page.map_err(|_| ConfigStoreError::Unavailable("the runtime has ended".into()))?;
            pages.push(page?);
        }
        let MergedPage { items, has_more } =
            merge_pages(pages, entries_max, |entry: &ConfigEntry| &*entry.key);
        Ok(ScanPage { entries: items, has_more })
    }

    fn bucket_query(&self, bucket: usize, prefix: &str, after: Option<&str>, limit: usize) -> Value {
        let bucket = bucket_name(bucket);
        let mut query = json!({
            "TableName": self.table(),
            "ConsistentRead": true,
            "KeyConditionExpression": format!("{PARTITION} = :bucket"),
            "ExpressionAttributeValues": { ":bucket": { "S": bucket } },
            "Limit": limit,
        });
        if !prefix.is_empty() {
            query["KeyConditionExpression"] =
                format!("{PARTITION} = :bucket AND begins_with({SORT}, :prefix)").into();
            query["ExpressionAttributeValues"][":prefix"] = json!({ "S": prefix });
        }
        if let Some(after) = after {
            query["ExclusiveStartKey"] = item_key(&bucket, after);
        }
        query
    }
}

async fn read_bucket(
    client: Arc<DynamoClient>,
    query: Value,
) -> Result<ShardPage<ConfigEntry>, ConfigStoreError> {
    let reply = client.query(&query).await?;
    let entries = reply.items.iter().filter_map(parse_entry).collect();
    Ok(ShardPage { items: entries, has_more: reply.has_more })
}
