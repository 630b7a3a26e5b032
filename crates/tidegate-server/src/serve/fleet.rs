//! The store that a fleet of servers shares, and whether decisions are made without it.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use tidegate::Timestamp;
use tidegate::redis::RedisStore;
use tidegate::rules::{Answer, AnswerKind, OnStoreFailure};

/// The store that a fleet of servers shares.
pub struct Fleet {
    /// Which counts.
    pub store: Arc<RedisStore>,
    /// Where it is, without a password.
    pub url: String,
    degraded_since: ArcSwapOption<Timestamp>,
}

impl Fleet {
    /// With this store, at this address.
    pub fn new(store: Arc<RedisStore>, url: String) -> Self {
        Self { store, url, degraded_since: ArcSwapOption::empty() }
    }

    /// Since when decisions are made without the store, some of them at least; none if they are not.
    pub fn degraded_since(&self) -> Option<Timestamp> {
        self.degraded_since.load().as_deref().copied()
    }

    /// Decisions are made without the store since this instant; or not any more.
    pub fn set_degraded_since(&self, since: Option<Timestamp>) {
        self.degraded_since.store(since.map(Arc::new));
    }
}

/// What was done instead of asking the store, for an answer that was given without it: the strictest of what its rules say.
pub(super) fn failure_policy(answer: &Answer) -> OnStoreFailure {
    let is = |policy| answer.limits().any(|limit| limit.on_store_failure() == policy);
    match answer.kind {
        AnswerKind::Unavailable => OnStoreFailure::Deny,
        _ if is(OnStoreFailure::Local) || is(OnStoreFailure::Deny) => OnStoreFailure::Local,
        _ => OnStoreFailure::Allow,
    }
}
