//! Builds a limiter from limits, a store and a clock.

use std::fmt;
use std::sync::Arc;

use tidegate_core::{Limit, Mode, OnStoreFailure, RuleMode};

use super::limits::{LimitPolicy, Limits};
use super::{IntoLimit, Limiter, LimiterError};
use crate::memory::{MEMORY_BYTES_DEFAULT, MemoryStore};
use crate::queue::QUEUE_MAX_DEFAULT;
use crate::store::{AsyncStore, IntoStore, Store};
use crate::{Clock, SystemClock};

/// Builds a [`Limiter`].
#[derive(Debug)]
pub struct LimiterBuilder<C = SystemClock, S = Arc<MemoryStore>> {
    rule: String,
    limits: Vec<Result<Limit, LimiterError>>,
    store: BuilderValue<S>,
    policy: LimitPolicy,
    queue_max: usize,
    clock: BuilderValue<C>,
}

impl LimiterBuilder {
    pub(super) fn new() -> Self {
        Self {
            rule: "default".to_owned(),
            limits: Vec::new(),
            store: BuilderValue::Default(|| Arc::new(MemoryStore::bounded(MEMORY_BYTES_DEFAULT))),
            policy: LimitPolicy::default(),
            queue_max: QUEUE_MAX_DEFAULT,
            clock: BuilderValue::Default(SystemClock::new),
        }
    }
}

impl<C, S> LimiterBuilder<C, S> {
    /// Adds a limit: as short text (`10/s burst 20`), as long text (`{algorithm: sliding_log, limit: 5, per: 1m}`),
    /// from code ([`Limit::per`]), or a [`Limit`].
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

    /// Names the rule. Limiters with the same name over one store share their counters. Each has its own wait queues.
    #[must_use]
    pub fn rule(mut self, name: impl Into<String>) -> Self {
        self.rule = name.into();
        self
    }

    /// Sets the store: an `Arc<MemoryStore>`, a `RedisStore`, or a [`Fallback`](crate::store::Fallback) over another
    /// shared store. The default is a new memory store of 256 MiB.
    ///
    /// Over a shared store the limiter's calls are futures.
    #[must_use]
    pub fn store<T: IntoStore>(self, store: T) -> LimiterBuilder<C, T::Store> {
        let Self { rule, limits, policy, queue_max, clock, .. } = self;
        let store = BuilderValue::Set(store.into_store());
        LimiterBuilder { rule, limits, store, policy, queue_max, clock }
    }

    /// The most requests that may wait for one key. The default is [`QUEUE_MAX_DEFAULT`]. All keys together have at
    /// most [`WAITERS_MAX`](crate::WAITERS_MAX).
    #[must_use]
    pub fn queue_max(mut self, requests: usize) -> Self {
        self.queue_max = requests;
        self
    }

    /// Sets the clock.
    #[must_use]
    pub fn clock<D: Clock>(self, clock: D) -> LimiterBuilder<D, S> {
        let Self { rule, limits, store, policy, queue_max, .. } = self;
        LimiterBuilder { rule, limits, store, policy, queue_max, clock: BuilderValue::Set(clock) }
    }
}

impl<C, S: AsyncStore> LimiterBuilder<C, S> {
    /// Sets what happens to requests while the shared store does not answer. By default this process enforces its share
    /// of a rate ([`Local`](OnStoreFailure::Local)), and denies requests that fall under a concurrency limit
    /// ([`Deny`](OnStoreFailure::Deny)).
    #[must_use]
    pub fn on_store_failure(mut self, on_store_failure: OnStoreFailure) -> Self {
        self.policy.on_store_failure = Some(on_store_failure);
        self
    }

    /// Sets where the limits are counted. The default is [`Strict`](Mode::Strict): the shared store decides every
    /// request. [`Leased`](Mode::Leased) and [`Eventual`](Mode::Eventual) need a store with a
    /// [`ModeStore`](crate::store::ModeStore); other stores decide strictly. They support `gcra`, `token_bucket`,
    /// `fixed_window` and `sliding_window` without `count_denied`.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.policy.mode = RuleMode::from(mode);
        self
    }
}

impl<C: Clock, S: Store> LimiterBuilder<C, S> {
    /// Builds the limiter. Returns the first error of its limits.
    pub fn build(self) -> Result<Limiter<C, S>, LimiterError> {
        let limits = self.limits.into_iter().collect::<Result<_, _>>()?;
        let limits = Limits::new(&self.rule, limits, self.policy)?;
        Ok(Limiter::from_parts(
            self.rule,
            limits,
            self.store.into_value(),
            self.queue_max,
            self.clock.into_value(),
        ))
    }
}

/// A value of a builder. The default is a function, so it costs nothing if the caller sets the value.
pub(crate) enum BuilderValue<T> {
    Set(T),
    Default(fn() -> T),
}

impl<T> BuilderValue<T> {
    pub(crate) fn into_value(self) -> T {
        match self {
            Self::Set(value) => value,
            Self::Default(make) => make(),
        }
    }
}

impl<T> fmt::Debug for BuilderValue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Set(_) => "set",
            Self::Default(_) => "default",
        })
    }
}
