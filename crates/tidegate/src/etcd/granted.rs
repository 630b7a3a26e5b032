//! Etcd leases that this node has been granted: each is revoked unless it is kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::message::LeaseId;
use super::store::EtcdInner;

/// How long a revocation is retried. After that, the lease ends with its ttl.
const RETRY_FOR: Duration = Duration::from_secs(10);
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Revocations that run at a time. More are given up.
const REVOCATIONS_MAX: usize = 8_192;

/// An etcd lease that may hold units, and is revoked when it is dropped. This deletes what was written with it, and makes
/// a transaction fail that arrives later.
pub(super) struct GrantedLease {
    pub id: LeaseId,
    pub ttl_s: u64,
    /// None if it is kept.
    store: Option<Arc<EtcdInner>>,
}

/// The revocations that are running, and leases whose fate is open.
#[derive(Debug, Default)]
pub(super) struct PendingRevocations {
    count: AtomicUsize,
    /// Notified when there are none left.
    idle: Notify,
}

impl GrantedLease {
    pub fn new(id: LeaseId, ttl_s: u64, store: Arc<EtcdInner>) -> Self {
        store.revocations.count.fetch_add(1, Ordering::SeqCst);
        Self { id, ttl_s, store: Some(store) }
    }

    /// The caller has the lease.
    pub fn keep(mut self) {
        if let Some(store) = self.store.take() {
            store.revocations.end();
        }
    }
}

impl Drop for GrantedLease {
    fn drop(&mut self) {
        let Some(store) = self.store.take() else { return };
        store.client.counters.leases_abandoned.add_one();
        revoke(&store, self.id);
        store.revocations.end();
    }
}

/// Starts to revoke an etcd lease.
pub(super) fn revoke(store: &Arc<EtcdInner>, id: LeaseId) {
    let pending = &store.revocations;
    if pending.count.fetch_add(1, Ordering::SeqCst) >= REVOCATIONS_MAX {
        return pending.end();
    }
    let task_store = Arc::clone(store);
    store.runtime.spawn(async move {
        let deadline = Instant::now() + RETRY_FOR;
        while task_store.client.revoke(id, deadline).await.is_err() && Instant::now() < deadline {
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        task_store.revocations.end();
    });
}

impl PendingRevocations {
    fn end(&self) {
        if self.count.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.idle.notify_waiters();
        }
    }

    /// Waits until none is left.
    pub async fn wait_idle(&self) {
        loop {
            let idle = self.idle.notified();
            if self.count.load(Ordering::SeqCst) == 0 {
                return;
            }
            idle.await;
        }
    }

    pub fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }
}
