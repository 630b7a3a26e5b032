//! From limits to a limiter.

use std::sync::Arc;

use tidegate_core::{Limit, OnStoreFailure};

use super::limits::Limits;
use super::{IntoLimit, Limiter, LimiterError};
use crate::memory::{MEMORY_BYTES_DEFAULT, MemoryStore};
use crate::part::BuilderValue;
use crate::store::{IntoStore, AsyncStore, Store};
use crate::queue::QUEUE_MAX_DEFAULT;
use crate::{Clock, SystemClock};

/// Puts a [`Limiter`] together.
#[derive(Debug)]
pub struct LimiterBuilder<C = SystemClock, S = Arc<MemoryStore>> {
    rule: String,
    limits: Vec<Result<Limit, LimiterError>>,
    store: BuilderValue<S>,
    on_store_failure: Option<OnStoreFailure>,
    queue_max: usize,
    clock: BuilderValue<C>,
}

impl LimiterBuilder {
    pub(super) fn new() -> Self {
        Self {
            rule: "default".to_owned(),
            limits: Vec::new(),
            store: BuilderValue::Default(|| Arc::new(MemoryStore::bounded(MEMORY_BYTES_DEFAULT))),
            on_store_failure: None,
            queue_max: QUEUE_MAX_DEFAULT,
            clock: BuilderValue::Default(SystemClock::new),
        }
    }
}

impl<C, S> LimiterBuilder<C, S> {
    /// Adds a limit: in the text form (`10/s burst 20`), the long form (`{algorithm: sliding_log, limit: 5, per:
    /// 1m}`), put together in code ([`Limit::per`]), or a [`Limit`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{Limit, Limiter};
    ///
    /// let limiter = Limiter::builder()
    ///     .limit("10/s burst 20")
    ///     .limit(Limit::per(100, Duration::from_secs(3600)).sliding_log().name("hourly"))
    ///     .build()?;
    /// # Ok::<(), tidegate::LimiterError>(())
    /// ```
    #[must_use]
    pub fn limit(mut self, limit: impl IntoLimit) -> Self {
        self.limits.push(limit.into_limit());
        self
    }

    /// Names the rule. Limiters over one store that share a name share their counters; each has wait queues of its own.
    #[must_use]
    pub fn rule(mut self, name: impl Into<String>) -> Self {
        self.rule = name.into();
        self
    }

    /// Counts in this store instead of a memory store of its own of 256 MiB: an `Arc<MemoryStore>`, a `RedisStore`, or a
    /// [`Fallback`](crate::store::Fallback) over another shared store.
    ///
    /// Over a shared store the limiter's calls are futures.
    #[must_use]
    pub fn store<T: IntoStore>(self, store: T) -> LimiterBuilder<C, T::Store> {
        let Self { rule, limits, on_store_failure, queue_max, clock, .. } = self;
        let store = BuilderValue::Set(store.into_store());
        LimiterBuilder { rule, limits, store, on_store_failure, queue_max, clock }
    }

    /// The most requests that may wait for one key; [`QUEUE_MAX_DEFAULT`] unless it is set. For all keys together it
    /// is [`WAITERS_MAX`](crate::WAITERS_MAX).
    #[must_use]
    pub fn queue_max(mut self, requests: usize) -> Self {
        self.queue_max = requests;
        self
    }

    /// Takes the time from another clock.
    #[must_use]
    pub fn clock<D: Clock>(self, clock: D) -> LimiterBuilder<D, S> {
        let Self { rule, limits, store, on_store_failure, queue_max, .. } = self;
        LimiterBuilder { rule, limits, store, on_store_failure, queue_max, clock: BuilderValue::Set(clock) }
    }
}

impl<C, S: AsyncStore> LimiterBuilder<C, S> {
    /// What becomes of a request while the shared store does not answer. Without it, this process enforces its share of a rate
    /// ([`Local`](OnStoreFailure::Local)), and denies what falls under a concurrency limit ([`Deny`](OnStoreFailure::Deny)).
    #[must_use]
    pub fn on_store_failure(mut self, on_store_failure: OnStoreFailure) -> Self {
        self.on_store_failure = Some(on_store_failure);
        self
    }
}

impl<C: Clock, S: Store> LimiterBuilder<C, S> {
    /// The limiter, if every limit is one.
    pub fn build(self) -> Result<Limiter<C, S>, LimiterError> {
        let limits = self.limits.into_iter().collect::<Result<_, _>>()?;
        let limits = Limits::new(&self.rule, limits, self.on_store_failure)?;
        Ok(Limiter::from_parts(self.rule, limits, self.store.into_value(), self.queue_max, self.clock.into_value()))
    }
}
