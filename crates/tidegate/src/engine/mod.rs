//! The decision engine: rules over a store.
//!
//! ```text
//! Request  ->  Ruleset  ->  Plan  ->  MemoryStore  ->  Outcomes  ->  Answer
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
//! assert!(answer.fate.passes());
//! assert_eq!(answer.remaining, 1);
//! assert_eq!(&*answer.decider().unwrap().rule.name, "per-user");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod active_rules;
mod admitted;
mod decide;
mod future;
mod delay_queue;
mod error;
mod explain;
mod in_memory;
mod judge;
mod operations;
mod stages;
mod wait;
mod wait_task;

pub use active_rules::ActiveRules;
pub use admitted::{AdmittedRequest, RequestRefused};
pub use future::{AcquireRequestFuture, DecideFuture};
pub use error::EngineError;
pub use explain::{
    EXPLAINED_RULES_MAX, ExplainedDescriptor, ExplainedLimit, ExplainedRule, Explanation, RuleStatus,
};
pub use operations::{CheckedCharge, ChargeResponse};
pub use stages::StageTimes;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use tidegate_core::rules::{Domain, Level, Ruleset, RulesetError, Signal};
use tidegate_core::{ChargedAt, Nanos};

use crate::memory::{MEMORY_BYTES_DEFAULT, MemoryStore};
use crate::store::Store;
use crate::queue::{QUEUE_MAX_DEFAULT, QueueGroup, QueueGroups, WaitQueues};
use crate::{Clock, Lease, Refusal, Refused, SystemClock};

/// The answer to a request. It holds on to the rules that it was made by.
pub type Answer = tidegate_core::rules::Answer<ActiveRules>;

/// Rules over a store. Rules are replaced while requests are decided, and no counter is reset. Clones are the same engine.
///
/// Over the [memory store](MemoryStore) a request is decided at once: `engine.check(&request)?`. Over another store the same
/// operations are futures: `engine.check(&request).await?`. [`decide`](Self::decide) waits where a rule says so, over any store.
pub struct Engine<C = SystemClock, S = Arc<MemoryStore>> {
    inner: Arc<EngineInner<C, S>>,
}

struct EngineInner<C, S> {
    rules: ArcSwap<Ruleset>,
    /// Rules are compiled with regard to those they replace, so one at a time.
    replace_lock: Mutex<()>,
    store: S,
    /// The requests that wait for limits with the action `delay`.
    queues: Arc<WaitQueues>,
    queue_group: QueueGroup,
    /// How often the rules or a signal changed.
    changes: AtomicU64,
    clock: C,
}

/// The name that the queues of all engines over one store share.
const QUEUE_GROUP: &str = "\u{1f}engine";

/// A request that was decided.
#[derive(Clone, Debug)]
#[must_use]
#[non_exhaustive]
pub struct DecideOutput {
    /// What the limits say, as of when the request was decided. A `delay` in it has not been waited for.
    pub answer: Answer,
    /// How long the request waited, from when it asked until it was due.
    pub waited: Nanos,
    /// What the request holds, if it asked for a [lease](Engine::lease).
    pub lease: Option<Lease>,
    /// When it was charged, for a [refund](Engine::refund). None if the store did not decide it, because it did not answer or no
    /// limit applies.
    pub charged_at: Option<ChargedAt>,
    /// How long the stages took, if they were timed.
    pub stages: Option<StageTimes>,
    refusal: Option<Refusal>,
}

impl DecideOutput {
    /// Why the request was not held, or no longer, if a limit would have held it that denied it instead.
    pub fn acquire_error(&self) -> Option<Refused> {
        self.refusal.map(Refused::from)
    }
}

impl DecideOutput {
    /// A request that is not decided yet, by these rules.
    #[inline]
    fn undecided(rules: ActiveRules) -> Self {
        let answer = Answer::undecided(rules);
        Self { answer, waited: Nanos::ZERO, refusal: None, lease: None, charged_at: None, stages: None }
    }
}

/// A signal, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignalLevel {
    /// Its name.
    pub name: String,
    /// Its level; none if nothing was pushed yet.
    pub level: Option<Level>,
}

/// There is no rule that moves with the signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownSignal {
    name: String,
    known_signals: Vec<String>,
}

impl Engine {
    /// An engine over an embedded store of its own.
    pub fn new(domains: Vec<Domain>) -> Result<Self, RulesetError> {
        Self::with_store(domains, Arc::new(MemoryStore::bounded(MEMORY_BYTES_DEFAULT)), SystemClock::default())
    }
}

impl<C: Clock, S: Store> Engine<C, S> {
    /// An engine over this store, by this clock.
    pub fn with_store(domains: Vec<Domain>, store: S, clock: C) -> Result<Self, RulesetError> {
        let rules = ArcSwap::from_pointee(Ruleset::compile(domains)?);
        let queues = Arc::new(WaitQueues::new(QUEUE_MAX_DEFAULT));
        let queue_group = match store.local() {
            Some(memory) => memory.queue_groups().join(QUEUE_GROUP, &queues),
            None => QueueGroups::default().join(QUEUE_GROUP, &queues),
        };
        let (replacing, changes) = (Mutex::new(()), AtomicU64::new(0));
        Ok(Self { inner: Arc::new(EngineInner { rules, replace_lock: replacing, store, queues, queue_group, changes, clock }) })
    }

    /// Lets at most this many requests wait for one key of a limit with the action `delay`, instead of [`QUEUE_MAX_DEFAULT`].
    #[must_use]
    pub fn with_queue_max(self, queue_max: usize) -> Self {
        self.inner.queues.set_queue_max(queue_max);
        self
    }

    /// The active rules. They stay as they are when others are put in their place.
    #[inline]
    pub fn rules(&self) -> ActiveRules {
        ActiveRules::new(self.inner.rules.load())
    }

    /// Replaces the rules, at once and for all requests to come. Rules that do not go together change nothing.
    ///
    /// No counter is reset: see [`Ruleset::succeeding`]. Requests that [wait](Self::decide) go on by the new rules.
    pub fn replace(&self, domains: Vec<Domain>) -> Result<(), RulesetError> {
        let inner = &*self.inner;
        let _one_at_a_time = inner.replace_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let new = Ruleset::compile_replacing(&inner.rules.load(), domains, inner.clock.now())?;
        inner.rules.store(Arc::new(new));
        inner.notify_changed();
        Ok(())
    }

    /// Pushes a signal that elastic limits move with.
    pub fn push_signal(&self, name: &str, level: Level) -> Result<(), UnknownSignal> {
        let rules = self.rules();
        match rules.signal(name) {
            Some(signal) => {
                signal.push(level);
                self.inner.notify_changed();
                Ok(())
            }
            None => {
                let mut known: Vec<String> = rules.signals().map(str::to_owned).collect();
                known.sort_unstable();
                Err(UnknownSignal { name: name.to_owned(), known_signals: known })
            }
        }
    }

    /// The signals that rules move with, by name, and where they are.
    pub fn signals(&self) -> Vec<SignalLevel> {
        let rules = self.rules();
        let level = |name: &str| rules.signal(name).and_then(Signal::level);
        let mut signals: Vec<SignalLevel> =
            rules.signals().map(|name| SignalLevel { name: name.to_owned(), level: level(name) }).collect();
        signals.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        signals
    }

    /// How many requests wait at this moment.
    pub fn waiting_requests(&self) -> u64 {
        self.inner.queues.waiters()
    }

    /// The store.
    pub fn store(&self) -> &S {
        &self.inner.store
    }

    /// The clock.
    pub fn clock(&self) -> &C {
        &self.inner.clock
    }
}

impl<C: Clock, S> EngineInner<C, S> {
    /// The rules or a signal have changed: requests that wait look at them.
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

impl std::fmt::Display for UnknownSignal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no rule moves with a signal `{}` (hint: ", self.name)?;
        match self.known_signals.as_slice() {
            [] => f.write_str(
                "an elastic rule names its signal, as in `elastic: { max: 200, signal: capacity }`)",
            ),
            known => write!(f, "there is: {})", known.join(", ")),
        }
    }
}

impl std::error::Error for UnknownSignal {}
