//! The config store on DynamoDB's API, over DynamoDB Local: the conformance suite, faults, and a fleet of servers.

mod conformance;
mod damaged_items;
mod fleet;
mod gaps;
mod local;
mod lost_reply;
mod many_writers;
mod outages;
mod table;

use std::sync::atomic::{AtomicU32, Ordering};

use tidegate::config::{ConfigStore, ConfigVersion};
use tidegate_server::config_store::{DynamoConfigStore, DynamoSettings};
use tidegate_testing::config_store::{put, write_one};
use tokio::runtime::Handle;

use local::DynamoLocal;

/// Any key is accepted.
const ACCESS_KEY_ID: &str = "tidegate";
const SECRET_ACCESS_KEY: &str = "secret";

/// The environment of a store.
fn variable(name: &str) -> Option<String> {
    match name {
        "AWS_ACCESS_KEY_ID" => Some(ACCESS_KEY_ID.to_owned()),
        "AWS_SECRET_ACCESS_KEY" => Some(SECRET_ACCESS_KEY.to_owned()),
        _ => None,
    }
}

/// A store, as one node has it.
fn open(url: &str) -> DynamoConfigStore {
    let settings = DynamoSettings::parse(url, variable).unwrap_or_else(|error| panic!("{error}"));
    DynamoConfigStore::open(settings, variable, &Handle::current()).unwrap_or_else(|error| panic!("{error}"))
}

/// A name that no other test has.
fn new_table() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("config-{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// A table with one store, on the shared server.
struct Table {
    server: &'static DynamoLocal,
    name: String,
    store: DynamoConfigStore,
}

impl Table {
    fn new() -> Self {
        let (server, name) = (DynamoLocal::shared(), new_table());
        let store = open(&server.url(&name));
        Self { server, name, store }
    }

    /// Another handle, as another node has it.
    fn other(&self) -> DynamoConfigStore {
        open(&self.server.url(&self.name))
    }

    async fn put(&self, key: &str, value: &[u8]) -> ConfigVersion {
        written(&self.store, key, value).await
    }
}

async fn written(store: &dyn ConfigStore, key: &str, value: &[u8]) -> ConfigVersion {
    match write_one(store, put(key, value)).await {
        tidegate::config::WriteResult::Written(version) => version,
        conflict @ tidegate::config::WriteResult::Conflict(_) => panic!("{conflict:?}"),
    }
}
