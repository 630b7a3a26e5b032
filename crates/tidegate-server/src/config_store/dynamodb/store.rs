//! The store, and its reads of single keys.

use std::sync::Arc;

use tidegate::config::{
    CONFIG_KEY_BYTES_MAX, Changes, ConfigEntry, ConfigFuture, ConfigStore, ConfigStoreError, ConfigVersion,
    ConfigWrite, Scan, ScanPage, WriteResult,
};
use tokio::runtime::Handle;

use super::client::DynamoClient;
use super::item::parse_entry;
use super::table::bucket_of;
use super::url::DynamoSettings;
use super::writer::Writer;

/// A config store in a table of DynamoDB. Its calls need a tokio runtime.
#[derive(Debug)]
pub struct DynamoConfigStore {
    client: Arc<DynamoClient>,
    writer: Writer,
}

impl DynamoConfigStore {
    /// A store for a table. Does not connect yet; writes are sent from tasks on `runtime`. `variable` reads the environment,
    /// which has the credentials. Returns the reason and a hint if they are not valid.
    pub fn open(
        settings: DynamoSettings,
        variable: impl Fn(&str) -> Option<String>,
        runtime: &Handle,
    ) -> Result<Self, String> {
        let client = Arc::new(DynamoClient::new(settings, variable)?);
        let writer = Writer::start(Arc::clone(&client), runtime);
        Ok(Self { client, writer })
    }

    pub(super) fn client(&self) -> &Arc<DynamoClient> {
        &self.client
    }

    pub(super) fn table(&self) -> &str {
        &self.client.settings().table
    }

    async fn get_entry(&self, key: &str) -> Result<Option<ConfigEntry>, ConfigStoreError> {
        // No write has such a key, and DynamoDB refuses it.
        if key.is_empty() || key.len() > CONFIG_KEY_BYTES_MAX {
            return Ok(None);
        }
        let bucket = bucket_of(key);
        let item = match self.client.is_settled() {
            true => self.client.get_item_fast(&bucket, key).await?,
            false => self.client.get_item(&bucket, key).await?,
        };
        Ok(item.as_ref().and_then(parse_entry))
    }
}

impl ConfigStore for DynamoConfigStore {
    fn get<'a>(&'a self, key: &'a str) -> ConfigFuture<'a, Option<ConfigEntry>> {
        Box::pin(self.get_entry(key))
    }

    fn write<'a>(&'a self, writes: &'a [ConfigWrite]) -> ConfigFuture<'a, Vec<WriteResult>> {
        Box::pin(self.writer.write(writes))
    }

    fn scan<'a>(&'a self, scan: Scan<'a>) -> ConfigFuture<'a, ScanPage> {
        Box::pin(self.scan_page(scan))
    }

    fn changes(&self, since: ConfigVersion, changes_max: usize) -> ConfigFuture<'_, Changes> {
        Box::pin(self.read_changes(since, changes_max))
    }

    fn latest(&self) -> ConfigFuture<'_, ConfigVersion> {
        Box::pin(self.read_latest())
    }

    fn kind(&self) -> &'static str {
        "dynamodb"
    }
}
