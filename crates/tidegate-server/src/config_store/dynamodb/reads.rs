//! Reads of items.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};
use tidegate::config::ConfigStoreError;

use super::client::{DynamoClient, Operation};
use super::item::{Item, LogItem, parse_log_item};
use super::table::{HEAD, LOG_PARTITION, item_key};

/// A page of a query.
#[derive(Debug, Deserialize)]
pub(super) struct QueryReply {
    #[serde(rename = "Items", default)]
    pub items: Vec<Item>,
    /// Whether more items may follow. If so, there is at least one.
    #[serde(rename = "LastEvaluatedKey", default, deserialize_with = "is_present")]
    pub has_more: bool,
}

fn is_present<'de, D: Deserializer<'de>>(value: D) -> Result<bool, D::Error> {
    Option::<Map<String, Value>>::deserialize(value).map(|value| value.is_some())
}

impl DynamoClient {
    /// Reads an item. The answer is not older than any write that was confirmed before, but may be older than a transaction
    /// whose other items are already visible.
    pub async fn get_item_fast(&self, partition: &str, sort: &str) -> Result<Option<Item>, ConfigStoreError> {
        let get = json!({
            "TableName": self.settings().table,
            "Key": item_key(partition, sort),
            "ConsistentRead": true,
        });
        match self.call(Operation::GetItem, &get).await?["Item"].take() {
            Value::Object(item) => Ok(Some(item)),
            _ => Ok(None),
        }
    }

    /// Reads an item as a transaction, so that it is never read as it was before a transaction whose other items are
    /// already visible. This takes about twice as long, and costs twice as much.
    pub async fn get_item(&self, partition: &str, sort: &str) -> Result<Option<Item>, ConfigStoreError> {
        let get = json!({ "Get": { "TableName": self.settings().table, "Key": item_key(partition, sort) } });
        let mut reply = self.call(Operation::TransactGetItems, &json!({ "TransactItems": [get] })).await?;
        match reply["Responses"][0]["Item"].take() {
            Value::Object(item) => Ok(Some(item)),
            _ => Ok(None),
        }
    }

    pub async fn query(&self, query: &Value) -> Result<QueryReply, ConfigStoreError> {
        let reply = self.call(Operation::Query, query).await?;
        serde_json::from_value(reply).map_err(|_| self.unexpected("the reply to a query"))
    }

    /// The greatest version, or `None` if nothing was written yet.
    pub async fn read_head(&self) -> Result<Option<u64>, ConfigStoreError> {
        let Some(item) = self.get_item(LOG_PARTITION, HEAD).await? else { return Ok(None) };
        match parse_log_item(&item) {
            LogItem::Head(Some(head)) => Ok(Some(head)),
            _ => Err(self.damaged_head()),
        }
    }

    /// Writes and the feed stop. Once the item is deleted, the next write creates it again.
    pub fn damaged_head(&self) -> ConfigStoreError {
        self.unexpected("the item pk=log, sk=head")
    }
}
