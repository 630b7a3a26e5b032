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
//! let rules = engine.in_force();
//! let answer = rules.check(&request)?;
//! assert!(answer.fate.passes());
//! assert_eq!(answer.remaining, 1);
//! assert_eq!(&*answer.decider().unwrap().rule.name, "per-user");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod explain;
mod holding;
mod in_force;
mod operations;
mod shared;
mod stages;
mod waiting;

pub use explain::{
    EXPLAINED_RULES_MAX, ExplainedDescriptor, ExplainedLimit, ExplainedRule, Explanation, Standing,
};
pub use in_force::InForce;
pub use operations::{Asking, CheckedOne, Unsettled};
pub use stages::StageTimes;
pub use waiting::{Decided, Deciding};

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use tidegate_core::rules::{Domain, Level, Ruleset, RulesetError, Signal};

use self::shared::Shared;
use crate::memory::{MEMORY_BYTES_DEFAULT, MemoryStats, MemoryStore};
use crate::waiting::{Kin, QUEUE_MAX_DEFAULT, Queues};
use crate::{Clock, SystemClock};

/// Rules over a store. Rules are swapped while requests are decided, and nobody's counters are reset.
pub struct Engine<C = SystemClock> {
    rules: ArcSwap<Ruleset>,
    /// Rules are compiled with regard to those they replace, so one at a time.
    replacing: Mutex<()>,
    store: Arc<MemoryStore>,
    /// Where a fleet counts together, if this is one of a fleet.
    shared: Option<Shared>,
    /// Who waits for limits with the action `delay`.
    queues: Arc<Queues>,
    kin: Kin,
    /// How often anything was changed that those who wait go by.
    changes: AtomicU64,
    clock: C,
}

/// What all engines over one store are kin by.
const KIN: &str = "\u{1f}engine";

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
    known: Vec<String>,
}

impl Engine {
    /// An engine over an embedded store of its own.
    pub fn new(domains: Vec<Domain>) -> Result<Self, RulesetError> {
        Self::over(domains, Arc::new(MemoryStore::bounded(MEMORY_BYTES_DEFAULT)), SystemClock::default())
    }
}

impl<C: Clock> Engine<C> {
    /// An engine over this store, by this clock.
    pub fn over(domains: Vec<Domain>, store: Arc<MemoryStore>, clock: C) -> Result<Self, RulesetError> {
        let rules = ArcSwap::from_pointee(Ruleset::compile(domains)?);
        let queues = Arc::new(Queues::new(QUEUE_MAX_DEFAULT));
        let kin = store.kins().join(KIN, &queues);
        let (replacing, changes) = (Mutex::new(()), AtomicU64::new(0));
        Ok(Self { rules, replacing, store, shared: None, queues, kin, changes, clock })
    }

    /// The same with another bound of how many requests wait for one key of a limit with the action `delay`, instead of
    /// [`QUEUE_MAX_DEFAULT`]. None of them is held that comes when so many wait.
    #[must_use]
    pub fn with_queue_max(mut self, queue_max: usize) -> Self {
        self.queues = Arc::new(Queues::new(queue_max));
        self.kin = self.store.kins().join(KIN, &self.queues);
        self
    }

    /// The rules in force. Whoever holds them goes on with them, also when others take their place.
    pub fn in_force(&self) -> InForce<'_, C> {
        InForce::new(self, self.rules.load())
    }

    /// Puts other rules into force, at once and for all requests to come. Those that do not go together change nothing.
    ///
    /// Nobody's counter is reset: see [`Ruleset::succeeding`]. Who [waits](Self::decide) goes on by the new rules.
    pub fn replace(&self, domains: Vec<Domain>) -> Result<(), RulesetError> {
        let _one_at_a_time = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        let new = Ruleset::succeeding(&self.rules.load(), domains, self.clock.now())?;
        self.rules.store(Arc::new(new));
        self.changed();
        Ok(())
    }

    /// Pushes a signal that elastic limits move with.
    pub fn push_signal(&self, name: &str, level: Level) -> Result<(), UnknownSignal> {
        let rules = self.rules.load();
        match rules.signal(name) {
            Some(signal) => {
                signal.push(level);
                self.changed();
                Ok(())
            }
            None => {
                let mut known: Vec<String> = rules.signals().map(str::to_owned).collect();
                known.sort_unstable();
                Err(UnknownSignal { name: name.to_owned(), known })
            }
        }
    }

    /// The signals that rules move with, by name, and where they are.
    pub fn signals(&self) -> Vec<SignalLevel> {
        let rules = self.rules.load();
        let level = |name: &str| rules.signal(name).and_then(Signal::level);
        let mut signals: Vec<SignalLevel> =
            rules.signals().map(|name| SignalLevel { name: name.to_owned(), level: level(name) }).collect();
        signals.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        signals
    }

    /// How many requests are held at this moment.
    pub fn held(&self) -> u64 {
        self.queues.waiters()
    }

    /// The engine's own store: where it counts, or, if it is [sharing](Self::sharing) another, where it counts while that
    /// does not answer.
    pub fn store(&self) -> &Arc<MemoryStore> {
        &self.store
    }

    /// The clock that it goes by.
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// What the store holds and had to give up.
    pub fn stats(&self) -> MemoryStats {
        self.store.stats()
    }
}

impl std::fmt::Display for UnknownSignal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no rule moves with a signal `{}` (hint: ", self.name)?;
        match self.known.as_slice() {
            [] => f.write_str(
                "an elastic rule names its signal, as in `elastic: { max: 200, signal: capacity }`)",
            ),
            known => write!(f, "there is: {})", known.join(", ")),
        }
    }
}

impl std::error::Error for UnknownSignal {}

impl<C> std::fmt::Debug for Engine<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("stats", &self.store.stats()).finish_non_exhaustive()
    }
}
