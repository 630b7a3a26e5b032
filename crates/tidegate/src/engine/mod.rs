//! The engine: rules over a store.
//!
//! ```text
//! Request  ->  Ruleset  ->  Plan  ->  Store  ->  Outcomes  ->  Answer
//!
//! decide.rs        the decision path, for every store and every listener
//! future.rs        a decision that is already made, or its future
//! in_memory.rs     calls over the memory store, which return immediately
//! operations.rs    calls over any store: futures
//! wait.rs          waiting for limits with the action `delay`; wait_task.rs is one such request
//! admitted.rs      the guard of an admitted request; dropping it releases the lease
//! output.rs        what a decision returns: the answer, the lease, the wait
//! active_rules.rs  the rules that a decision uses
//! signals.rs       levels that resize elastic limits
//! explain/         why a request gets its answer
//! ```
//!
//! ```
//! use tidegate::Engine;
//! use tidegate::rules::{self, Descriptor, Entry, Request};
//!
//! let file = "
//! domain: api
//! rules:
//!   - { name: per-user, key: [user], limit: 2 per minute }
//! ";
//! let engine = Engine::new(rules::parse("api.yaml", file)?.domains)?;
//!
//! let entries = [Entry { key: "user", value: "42" }];
//! let request = Request { domain: "api", descriptors: &[Descriptor::new(&entries, 1)] };
//! let answer = engine.check(&request)?;
//! assert!(answer.kind.passes());
//! assert_eq!(answer.remaining, 1);
//! assert_eq!(&*answer.decider().unwrap().rule.name, "per-user");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod active_rules;
mod admitted;
mod attempt;
mod decide;
mod delay_queue;
mod error;
mod explain;
mod future;
mod in_memory;
mod operations;
mod output;
mod signals;
mod stages;
mod wait;
mod wait_task;

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arc_swap::ArcSwap;
use foldhash::fast::RandomState;
use tidegate_core::rules::{Domain, Ruleset, RulesetError, UnknownDomain};

use crate::memory::{MEMORY_BYTES_DEFAULT, MemoryStore};
use crate::overrides::{KeyName, OverrideCache};
use crate::queue::{QUEUE_MAX_DEFAULT, QueueGroup, QueueGroups, WaitQueues};
use crate::store::Store;
use crate::{Clock, SystemClock};

pub use active_rules::ActiveRules;
pub use admitted::{AdmittedRequest, RequestRefused};
pub use error::EngineError;
pub use explain::{
    EXPLAINED_RULES_MAX, ExplainedDescriptor, ExplainedLimit, ExplainedPlan, ExplainedRule, Explanation,
    RuleStatus,
};
pub use future::{AcquireRequestFuture, DecideFuture};
pub use operations::{ChargeResponse, CheckedCharge};
pub use output::{DecideOptions, DecideOutput};
pub use signals::{SignalLevel, UnknownSignal};
pub use stages::StageTimes;

/// The answer to a request. It keeps the rules that it was made with.
pub type Answer = tidegate_core::rules::Answer<ActiveRules>;

/// Rules over a store. Rules can be replaced while requests are decided, and no counter is reset. Clones share one
/// engine.
///
/// Over the [memory store](MemoryStore) a request is decided immediately: `engine.check(&request)?`. Over another store
/// the same calls are futures: `engine.check(&request).await?`. [`decide`](Self::decide) waits where a rule says so,
/// over any store.
pub struct Engine<C = SystemClock, S = Arc<MemoryStore>> {
    inner: Arc<EngineInner<C, S>>,
}

struct EngineInner<C, S> {
    rules: ArcSwap<Ruleset>,
    /// Held while rules are replaced, because new rules are compiled against those that they replace.
    replace_lock: Mutex<()>,
    store: S,
    /// The wait queues of limits with the action `delay`.
    queues: Arc<WaitQueues>,
    queue_group: QueueGroup,
    /// How often the rules or a signal changed.
    changes: AtomicU64,
    denies_unknown_domains: AtomicBool,
    overrides: OnceLock<Arc<OverrideCache>>,
    clock: C,
}

/// The queue group of all engines over one store.
const QUEUE_GROUP: &str = "\u{1f}engine";

impl Engine {
    /// An engine with its own memory store.
    pub fn new(domains: Vec<Domain>) -> Result<Self, RulesetError> {
        Self::with_store(
            domains,
            Arc::new(MemoryStore::bounded(MEMORY_BYTES_DEFAULT)),
            SystemClock::default(),
        )
    }
}

impl<C: Clock, S: Store> Engine<C, S> {
    /// An engine with this store and this clock.
    pub fn with_store(domains: Vec<Domain>, store: S, clock: C) -> Result<Self, RulesetError> {
        let rules = ArcSwap::from_pointee(Ruleset::compile(domains)?);
        let queues = Arc::new(WaitQueues::new(QUEUE_MAX_DEFAULT));
        let queue_group = match store.local() {
            Some(memory) => memory.queue_groups().join(QUEUE_GROUP, &queues),
            None => QueueGroups::default().join(QUEUE_GROUP, &queues),
        };
        Ok(Self {
            inner: Arc::new(EngineInner {
                rules,
                replace_lock: Mutex::new(()),
                store,
                queues,
                queue_group,
                changes: AtomicU64::new(0),
                denies_unknown_domains: AtomicBool::new(false),
                overrides: OnceLock::new(),
                clock,
            }),
        })
    }

    /// Sets the most requests that may wait for one key of a limit with the action `delay`. The default is
    /// [`QUEUE_MAX_DEFAULT`].
    #[must_use]
    pub fn with_queue_max(self, queue_max: usize) -> Self {
        self.inner.queues.set_queue_max(queue_max);
        self
    }

    /// Sets what happens to requests whose domain has no rules. The default is [`UnknownDomain::Allow`].
    #[must_use]
    pub fn with_unknown_domain(self, unknown_domain: UnknownDomain) -> Self {
        let denies = unknown_domain == UnknownDomain::Deny;
        self.inner.denies_unknown_domains.store(denies, Ordering::Relaxed);
        self
    }

    /// What happens to requests whose domain has no rules.
    pub fn unknown_domain(&self) -> UnknownDomain {
        match self.inner.denies_unknown_domains.load(Ordering::Relaxed) {
            true => UnknownDomain::Deny,
            false => UnknownDomain::Allow,
        }
    }

    /// Sets the most limits that a request may fall under, up to
    /// [`PLAN_CHARGES_MAX`](tidegate_core::PLAN_CHARGES_MAX), which is the default.
    #[must_use]
    pub fn with_limits_max(self, limits_max: usize) -> Self {
        self.inner.rules.load().set_charges_max(limits_max);
        self
    }

    /// Sets how many requests may wait for all keys together, at most [`WAITERS_MAX`](crate::WAITERS_MAX), which is the
    /// default. More are denied immediately.
    #[must_use]
    pub fn with_waiters_max(self, waiters_max: u64) -> Self {
        self.inner.queues.set_waiters_max(waiters_max);
        self
    }

    /// Lets single keys have overrides. Without this, or if it is called again, nothing changes.
    #[must_use]
    pub fn with_overrides(self, overrides: Arc<OverrideCache>) -> Self {
        let _ = self.inner.overrides.set(overrides);
        self
    }

    /// The overrides of single keys.
    pub fn overrides(&self) -> Option<&Arc<OverrideCache>> {
        self.inner.overrides.get()
    }

    /// The overrides of these keys have changed: wakes the requests that wait for them, in any rule. Those that wait for other
    /// keys are not woken.
    pub fn overrides_changed(&self, keys: &[KeyName]) {
        let inner = &*self.inner;
        if keys.is_empty() || inner.queues.waiters() == 0 {
            return;
        }
        // A request that waits compares the count when it is woken, and is then matched again.
        inner.changes.fetch_add(1, Ordering::Release);
        // An override may have another window, and so another counter with a queue of its own. Which one it had is not known any
        // more, so the queues of all counters of a key are woken.
        let keys: HashSet<_, RandomState> = keys.iter().filter_map(KeyName::key_bytes).collect();
        inner.queues.wake_changed(inner.clock.now(), |queue| {
            delay_queue::key_of(queue).is_some_and(|key| keys.contains(key))
        });
    }

    /// The overrides of any key may have changed: wakes all requests that wait.
    pub fn all_overrides_changed(&self) {
        self.inner.notify_changed();
    }

    /// The active rules. The returned handle keeps them when they are replaced.
    #[inline]
    pub fn rules(&self) -> ActiveRules {
        ActiveRules::new(self.inner.rules.load())
    }

    /// Replaces the rules, atomically, for all later requests. If the new rules are invalid, nothing changes.
    ///
    /// No counter is reset: see [`Ruleset::compile_replacing`]. Requests that [wait](Self::decide) continue with the
    /// new rules.
    pub fn replace(&self, domains: Vec<Domain>) -> Result<(), RulesetError> {
        let inner = &*self.inner;
        let _one_at_a_time = inner.replace_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let new = Ruleset::compile_replacing(&inner.rules.load(), domains, inner.clock.now())?;
        inner.rules.store(Arc::new(new));
        inner.notify_changed();
        Ok(())
    }

    /// How many requests wait now.
    pub fn waiting_requests(&self) -> u64 {
        self.inner.queues.waiters()
    }

    /// The store of the engine.
    pub fn store(&self) -> &S {
        &self.inner.store
    }

    /// The clock of the engine.
    pub fn clock(&self) -> &C {
        &self.inner.clock
    }
}

impl<C, S: Store> EngineInner<C, S> {
    /// The memory store, if it has all counters.
    #[inline]
    fn memory(&self) -> Option<&Arc<MemoryStore>> {
        if self.store.is_local() { self.store.local() } else { None }
    }
}

impl<C: Clock, S> EngineInner<C, S> {
    /// The rules or a signal have changed: wake requests that wait, so that they are matched again.
    fn notify_changed(&self) {
        self.changes.fetch_add(1, Ordering::Release);
        self.queues.wake_all(self.clock.now());
    }

    fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }
}

impl<C, S> Clone for Engine<C, S> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<C, S> std::fmt::Debug for Engine<C, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}
