//! Edits whose clients go away.

use std::sync::Arc;

use serde_json::json;
use tidegate::config::{
    Changes, ConfigEntry, ConfigFuture, ConfigStore, ConfigVersion, ConfigWrite, MemoryConfigStore, Scan,
    ScanPage, WriteResult,
};
use tidegate::overrides::OverrideCache;
use tidegate::rules;
use tidegate_server::serve::App;
use tokio::sync::Semaphore;

use super::server::ServerOptions;
use super::*;

const DELAY_RULES: &str = "
domain: api
rules:
  - { name: held, key: [user], limit: { limit: 1, per: 30m, burst: 1 }, action: { delay: { max_wait: 1h } } }
";

/// A store whose writes are reported only with a permit.
#[derive(Debug)]
struct SlowStore {
    inner: MemoryConfigStore,
    permits: Semaphore,
}

impl ConfigStore for SlowStore {
    fn get<'a>(&'a self, key: &'a str) -> ConfigFuture<'a, Option<ConfigEntry>> {
        self.inner.get(key)
    }

    fn write<'a>(&'a self, writes: &'a [ConfigWrite]) -> ConfigFuture<'a, Vec<WriteResult>> {
        Box::pin(async move {
            let results = self.inner.write(writes).await;
            self.permits.acquire().await.expect("never closed").forget();
            results
        })
    }

    fn scan<'a>(&'a self, scan: Scan<'a>) -> ConfigFuture<'a, ScanPage> {
        self.inner.scan(scan)
    }

    fn changes(&self, since: ConfigVersion, changes_max: usize) -> ConfigFuture<'_, Changes> {
        self.inner.changes(since, changes_max)
    }

    fn latest(&self) -> ConfigFuture<'_, ConfigVersion> {
        self.inner.latest()
    }

    fn kind(&self) -> &'static str {
        "slow"
    }
}

/// The node that takes an edit applies it at once. This must not depend on the client.
#[test]
fn an_edit_is_applied_even_if_its_client_goes_away() {
    let inner = MemoryConfigStore::bounded(1 << 20);
    let store = Arc::new(SlowStore { inner, permits: Semaphore::new(0) });
    let spawn = Arc::new(|_| panic!("it is in memory"));
    let overrides = OverrideCache::builder().build(Arc::clone(&store) as _, spawn);
    let app = App::in_memory(rules::parse("rules.yaml", DELAY_RULES).unwrap().domains).unwrap();
    let app = App { engine: app.engine.with_overrides(Arc::new(overrides)), ..app };
    app.status.rules_loaded(Vec::new(), &app.engine.rules());
    let server = Server::start(app, ServerOptions::default());
    let request = json!({ "domain": "api", "attributes": { "user": "42" } }).to_string();
    assert_eq!(post(&server, "/v1/check", &request).status, 200);
    let mut waiting = Client::connect(server.http);
    waiting.send(format!(
        "POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{request}",
        request.len()
    ));
    wait_until(&server, "the request waits", || server.app.engine.waiting_requests() == 1);

    let edit =
        json!({ "domain": "api", "rule": "held", "key": { "user": "42" }, "unlimited": true }).to_string();
    let mut operator = Client::connect(server.admin);
    operator.send(format!(
        "PUT /v1/overrides HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{edit}",
        edit.len()
    ));
    wait_until(&server, "the edit has begun", || server.app.edits.len() == 1);
    drop(operator);
    wait_until(&server, "its connection has ended", || server.tasks.len() == 1);
    assert_eq!(server.app.engine.waiting_requests(), 1);
    store.permits.add_permits(1);
    assert_eq!(waiting.reply().status, 200);
    server.app.edits.close();
    server.runtime.block_on(server.app.edits.wait());
}
