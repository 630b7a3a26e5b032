//! From limits to a limiter.

use std::sync::Arc;

use tidegate_core::{Limit, LimitBuilder, LimitSpec};

use super::error::Kind;
use super::{Limiter, LimiterError, counters};
use crate::clock::ClockSource;
use crate::memory::{MEMORY_BYTES_DEFAULT, MemoryStore};
use crate::waiting::{QUEUE_MAX_DEFAULT, Queues};
use crate::{Clock, SystemClock};

/// Puts a [`Limiter`] together.
#[derive(Debug)]
pub struct LimiterBuilder<C = SystemClock> {
    rule: String,
    limits: Vec<Result<Limit, LimiterError>>,
    store: Option<Arc<MemoryStore>>,
    queue_max: usize,
    clock: ClockSource<C>,
}

impl LimiterBuilder {
    pub(super) fn new() -> Self {
        Self {
            rule: "default".to_owned(),
            limits: Vec::new(),
            store: None,
            queue_max: QUEUE_MAX_DEFAULT,
            clock: ClockSource::Made(SystemClock::new),
        }
    }
}

impl<C> LimiterBuilder<C> {
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

    /// Names the rule. Limiters over one store that share a name share their counters; each has lines of its own for
    /// those who wait.
    #[must_use]
    pub fn rule(mut self, name: impl Into<String>) -> Self {
        self.rule = name.into();
        self
    }

    /// Counts in this store instead of one of its own of 256 MiB.
    #[must_use]
    pub fn store(mut self, store: Arc<MemoryStore>) -> Self {
        self.store = Some(store);
        self
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
    pub fn clock<D: Clock>(self, clock: D) -> LimiterBuilder<D> {
        let Self { rule, limits, store, queue_max, .. } = self;
        LimiterBuilder { rule, limits, store, queue_max, clock: ClockSource::Given(clock) }
    }
}

impl<C: Clock> LimiterBuilder<C> {
    /// The limiter, if every limit is one.
    pub fn build(self) -> Result<Limiter<C>, LimiterError> {
        let counters = counters(&self.rule, self.limits.into_iter().collect::<Result<_, _>>()?)?;
        let store = self.store.unwrap_or_else(|| Arc::new(MemoryStore::bounded(MEMORY_BYTES_DEFAULT)));
        let clock = self.clock.clock();
        let queues = Arc::new(Queues::new(self.queue_max));
        let queue_group = store.queue_groups().join(&self.rule, &queues);
        Ok(Limiter { rule: self.rule, counters, retiring: Vec::new(), store, queues, queue_group, clock })
    }
}

/// A limit, what makes one, or the text of one.
pub trait IntoLimit {
    /// The limit, if it is one.
    fn into_limit(self) -> Result<Limit, LimiterError>;
}

impl IntoLimit for Limit {
    fn into_limit(self) -> Result<Limit, LimiterError> {
        Ok(self)
    }
}

impl IntoLimit for &str {
    fn into_limit(self) -> Result<Limit, LimiterError> {
        self.parse().map_err(|error| LimiterError(Kind::Limit { text: self.to_owned(), error }))
    }
}

impl IntoLimit for &String {
    fn into_limit(self) -> Result<Limit, LimiterError> {
        self.as_str().into_limit()
    }
}

impl IntoLimit for String {
    fn into_limit(self) -> Result<Limit, LimiterError> {
        self.as_str().into_limit()
    }
}

impl IntoLimit for LimitSpec {
    fn into_limit(self) -> Result<Limit, LimiterError> {
        let text = self.to_string();
        self.build().map_err(|error| LimiterError(Kind::Limit { text, error }))
    }
}

impl IntoLimit for LimitBuilder {
    fn into_limit(self) -> Result<Limit, LimiterError> {
        self.spec().clone().into_limit()
    }
}
