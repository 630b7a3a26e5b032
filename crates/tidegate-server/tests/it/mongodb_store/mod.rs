//! The config store on MongoDB's wire protocol, over a real FerretDB.

mod conformance;
mod damage;
mod fleet;
mod no_change_missed;
mod outages;
mod proxy;
mod sweeps;

use std::sync::Arc;
use std::time::Duration;

use mongodb::Collection;
use mongodb::bson::Document;
use tidegate::config::{Changes, ConfigStore, ConfigVersion};
use tidegate::{Clock as _, SystemClock, Timestamp};
use tidegate_server::config_store::{MongoConfigOptions, MongoConfigStore, MongoUrl};
use tidegate_testing::ferretdb_server::FerretDbServer;
use tokio::runtime::Handle;

/// Longer than any command takes on a busy machine.
const LONG_TIMEOUT: Duration = Duration::from_secs(60);
const DATABASE: &str = "limits";
const COLLECTION: &str = "tidegate_config";
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Two minutes of polls.
const POLLS_MAX: usize = 12_000;

/// A handle of the store, with its own connections, as each node has it.
fn open(server: &FerretDbServer) -> Arc<MongoConfigStore> {
    open_with(&server.url(), MongoConfigOptions { timeout: LONG_TIMEOUT, ..MongoConfigOptions::default() })
}

fn open_with(url: &str, options: MongoConfigOptions) -> Arc<MongoConfigStore> {
    let url = MongoUrl::parse(&format!("{url}/{DATABASE}")).expect("a valid URL");
    Arc::new(MongoConfigStore::new(url, Handle::current(), options))
}

/// The collection, for documents that the store would not write.
async fn collection(server: &FerretDbServer) -> Collection<Document> {
    let client = mongodb::Client::with_uri_str(server.url()).await.expect("a client");
    client.database(DATABASE).collection(COLLECTION)
}

/// Reads all changes after a version, in the order in which they are listed.
async fn all_changes(
    store: &dyn ConfigStore,
    mut since: ConfigVersion,
) -> (Vec<(String, ConfigVersion)>, ConfigVersion) {
    let mut all = Vec::new();
    loop {
        let Changes { keys, next, has_more, is_gap } =
            store.changes(since, 1_000).await.expect("the store answers");
        assert!(!is_gap);
        all.extend(keys.into_iter().map(|(key, version)| (key.into(), version)));
        since = next;
        if !has_more {
            return (all, since);
        }
    }
}

/// Waits until `is_done`, for at most two minutes.
async fn wait_until(what: &str, mut is_done: impl AsyncFnMut() -> bool) {
    let mut polls = tokio::time::interval(POLL_INTERVAL);
    for _ in 0..POLLS_MAX {
        if is_done().await {
            return;
        }
        polls.tick().await;
    }
    panic!("timed out: {what}");
}

fn elapsed(clock: &SystemClock, since: Timestamp) -> Duration {
    Duration::from_nanos(clock.now().as_nanos().saturating_sub(since.as_nanos()))
}
