//! Connects to the store of leases, and combines it with the store of the counters.

use std::sync::Arc;

use tidegate::MemoryStore;
use tidegate::etcd::{EtcdSettings, EtcdStore};
use tidegate::store::{self, NodeStore};

use crate::output::Failure;
use crate::serve::{Fleet, LeaseStore};

/// Connects to etcd. If it cannot be reached now, leases are decided without it until it can.
pub async fn connect(settings: &EtcdSettings) -> Result<LeaseStore, Failure> {
    let url = settings.url.to_string();
    let store = match EtcdStore::connect(settings.clone()).await {
        Err(error) if error.is_transient() => {
            tracing::warn!(
                "{error}; the node starts without it: concurrency limits are decided by on_store_failure of their rules"
            );
            EtcdStore::connect_lazy(settings.clone())
        }
        connected => connected,
    };
    let store = store.map_err(|error| Failure::usage(format!("lease_store: {error}")))?;
    Ok(LeaseStore { store, url })
}

/// The store of this node: counters in memory or in Redis, and leases there or in etcd.
pub fn node_store(
    fleet: Option<&Fleet>,
    leases: Option<&LeaseStore>,
    memory: &Arc<MemoryStore>,
) -> NodeStore {
    let memory = Arc::clone(memory);
    let counters = fleet.map(|fleet| Arc::new(fleet.modes.clone()));
    let Some(leases) = leases else {
        return match counters {
            Some(counters) => NodeStore::shared(counters, memory),
            None => NodeStore::Local(memory),
        };
    };
    let leases = Arc::new(leases.store.clone());
    match counters {
        Some(counters) => NodeStore::shared(Arc::new(store::LeaseStore::new(counters, leases)), memory),
        None => {
            let both = store::LeaseStore::new(Arc::clone(&memory), leases);
            NodeStore::shared(Arc::new(both), memory)
        }
    }
}
