//! The shared store of a fleet, and whether decisions are made without it.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use tidegate::Timestamp;
use tidegate::redis::RedisStore;
use tidegate::rules::{Answer, AnswerKind, OnStoreFailure};

/// The shared store of a fleet of nodes.
pub struct Fleet {
    /// The store.
    pub store: Arc<RedisStore>,
    /// The URL of the store, without a password.
    pub url: String,
    degraded_since: ArcSwapOption<Timestamp>,
}

impl Fleet {
    /// Creates a fleet with this store, at this URL.
    pub fn new(store: Arc<RedisStore>, url: String) -> Self {
        Self { store, url, degraded_since: ArcSwapOption::empty() }
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
