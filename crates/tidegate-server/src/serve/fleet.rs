//! The shared store of a fleet, and whether decisions are made without it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tidegate::redis::{BreakerState, RedisStore};
use tidegate::rules::{Answer, AnswerKind, OnStoreFailure};
use tidegate::store::ModeStore;
use tidegate::{SystemClock, Timestamp};

/// The shared store of a fleet of nodes.
pub struct Fleet {
    /// The store.
    pub store: Arc<RedisStore>,
    /// The layer over it that decides in memory where a rule says so.
    pub modes: ModeStore<Arc<RedisStore>>,
    /// The URL of the store, without a password.
    pub url: String,
    degraded_since: ArcSwapOption<Timestamp>,
    readiness: StoreReadiness,
    was_reached: AtomicBool,
}

/// Whether the node is ready before it has reached the store for the first time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreReadiness {
    /// It is ready.
    #[default]
    Ignored,
    /// It is not ready.
    Required,
}

/// How often a health watch looks whether the store was reached.
const REACHED_POLL_INTERVAL: Duration = Duration::from_millis(200);

impl Fleet {
    /// Creates a fleet with this store, at this URL.
    pub fn new(store: Arc<RedisStore>, url: String) -> Self {
        let modes = ModeStore::new(Arc::clone(&store), SystemClock::new()).with_own_ticks();
        Self {
            store,
            modes,
            url,
            degraded_since: ArcSwapOption::empty(),
            readiness: StoreReadiness::default(),
            was_reached: AtomicBool::new(false),
        }
    }

    /// Sets whether the node is ready before it has reached the store for the first time.
    #[must_use]
    pub fn with_readiness(self, readiness: StoreReadiness) -> Self {
        Self { readiness, ..self }
    }

    /// Whether the node is ready, as far as the store is concerned. Once it is, it stays ready.
    pub fn is_ready(&self) -> bool {
        if self.readiness == StoreReadiness::Ignored || self.was_reached.load(Ordering::Relaxed) {
            return true;
        }
        let servers = self.store.stats().servers.servers;
        let is_reached = servers.iter().any(|server| server.breaker == BreakerState::Closed);
        self.was_reached.store(is_reached, Ordering::Relaxed);
        is_reached
    }

    /// Waits until the node is ready, as far as the store is concerned.
    pub async fn wait_ready(&self) {
        while !self.is_ready() {
            tokio::time::sleep(REACHED_POLL_INTERVAL).await;
        }
    }

    /// Since when some decisions are made without the store. `None` if the store makes all of them.
    pub fn degraded_since(&self) -> Option<Timestamp> {
        self.degraded_since.load().as_deref().copied()
    }

    /// Sets since when decisions are made without the store. `None` if the store makes them again.
    pub fn set_degraded_since(&self, since: Option<Timestamp>) {
        self.degraded_since.store(since.map(Arc::new));
    }
}

/// How an answer was made without the store: the strictest `on_store_failure` of its rules.
pub(super) fn failure_policy(answer: &Answer) -> OnStoreFailure {
    let has_policy = |policy| answer.limits().any(|limit| limit.on_store_failure() == policy);
    match answer.kind {
        AnswerKind::Unavailable => OnStoreFailure::Deny,
        _ if has_policy(OnStoreFailure::Local) || has_policy(OnStoreFailure::Deny) => OnStoreFailure::Local,
        _ => OnStoreFailure::Allow,
    }
}
