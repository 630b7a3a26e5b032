//! Stores on etcd for tests.

use std::time::Duration;

use tidegate::etcd::{EtcdSettings, EtcdStore};
pub use tidegate_testing::etcd_server::EtcdCluster;

/// A timeout that nothing exceeds, however busy the machine is.
pub const LONG: Duration = Duration::from_secs(60);

pub async fn store(cluster: &EtcdCluster) -> EtcdStore {
    store_with(cluster, LONG).await
}

pub async fn store_with(cluster: &EtcdCluster, timeout: Duration) -> EtcdStore {
    EtcdStore::connect(settings(&cluster.url(), timeout)).await.unwrap()
}

pub fn settings(url: &str, timeout: Duration) -> EtcdSettings {
    let mut settings = EtcdSettings::new(url.parse().unwrap());
    settings.timeout = timeout;
    settings
}
