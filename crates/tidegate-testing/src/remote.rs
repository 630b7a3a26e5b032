//! A store that stands for the one that a fleet shares: a memory store that answers at once, later, or not at all.

use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate::{
    Cacheable, Clock, Later, LeaseToken, MemoryStore, Nanos, Plan, Release, Renewal, Settled, SharedStore,
    StoreFailure, Timestamp,
};

/// What it does with a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mood {
    /// Answers it at once.
    Answers,
    /// Does what it is asked for at once, and tells when it is let.
    Dawdles,
    /// Does not do it.
    Fails(StoreFailure),
    /// Does it and does not tell.
    Loses,
}

/// The shared store. Clones are the same.
#[derive(Clone)]
pub struct Remote<C> {
    store: Arc<MemoryStore>,
    clock: C,
    /// How far its clock is ahead.
    ahead_ns: u64,
    state: Arc<State>,
}

struct State {
    mood: Mutex<Mood>,
    /// Who waits for an answer that is there.
    waiting: Mutex<Vec<Waker>>,
    /// How often everybody was told.
    told: AtomicU64,
    questions: AtomicU64,
    nodes: AtomicU32,
    cacheable: Mutex<Vec<Cacheable>>,
    spent: Mutex<Vec<Duration>>,
}

impl<C: Clock> Remote<C> {
    pub fn new(clock: C) -> Self {
        let state = State {
            mood: Mutex::new(Mood::Answers),
            waiting: Mutex::default(),
            told: AtomicU64::new(0),
            questions: AtomicU64::new(0),
            nodes: AtomicU32::new(1),
            cacheable: Mutex::default(),
            spent: Mutex::default(),
        };
        let store = Arc::new(MemoryStore::bounded(1 << 20));
        Self { store, clock, ahead_ns: 0, state: Arc::new(state) }
    }

    /// The same with a clock that is ahead of everybody's.
    pub fn ahead_by_seconds(self, seconds: u64) -> Self {
        Self { ahead_ns: seconds * 1_000_000_000, ..self }
    }

    /// From now on it does so with questions; those that it dawdles with are answered.
    pub fn is(&self, mood: Mood) {
        *self.state.mood.lock().unwrap() = mood;
        self.answer();
    }

    /// What it does with questions.
    pub fn mood(&self) -> MutexGuard<'_, Mood> {
        self.state.mood.lock().unwrap()
    }

    /// Tells all who wait for an answer.
    pub fn answer(&self) {
        let waiting = {
            let mut waiting = self.state.waiting.lock().unwrap();
            self.state.told.fetch_add(1, Ordering::Relaxed);
            std::mem::take(&mut *waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    pub fn has_nodes(&self, nodes: u32) {
        self.state.nodes.store(nodes, Ordering::Relaxed);
    }

    /// How often it was asked.
    pub fn questions(&self) -> u64 {
        self.state.questions.load(Ordering::Relaxed)
    }

    /// What may be denied from memory, of each plan that was to be charged.
    pub fn cacheable(&self) -> Vec<Cacheable> {
        self.state.cacheable.lock().unwrap().clone()
    }

    /// What further questions had spent of the budget.
    pub fn spent(&self) -> Vec<Duration> {
        self.state.spent.lock().unwrap().clone()
    }

    fn now(&self) -> Timestamp {
        self.clock.now().saturating_add(Nanos::new(self.ahead_ns.into()))
    }

    fn put<T: Send + 'static>(&self, ask: impl FnOnce(Timestamp) -> T) -> Later<Result<T, StoreFailure>> {
        self.state.questions.fetch_add(1, Ordering::Relaxed);
        let mood = self.state.mood.lock().unwrap().clone();
        match mood {
            Mood::Answers => Box::pin(std::future::ready(Ok(ask(self.now())))),
            Mood::Dawdles => {
                let answer = Some(ask(self.now()));
                let told = self.state.told.load(Ordering::Relaxed);
                Box::pin(Dawdling { answer, told, state: self.state.clone() })
            }
            Mood::Fails(failure) => Box::pin(std::future::ready(Err(failure))),
            Mood::Loses => {
                ask(self.now());
                Box::pin(std::future::ready(Err(StoreFailure::TimedOut)))
            }
        }
    }
}

/// An answer that is told when everybody is told.
struct Dawdling<T> {
    answer: Option<T>,
    /// How often everybody had been told when it was asked.
    told: u64,
    state: Arc<State>,
}

impl<T> Unpin for Dawdling<T> {}

impl<T> Future for Dawdling<T> {
    type Output = Result<T, StoreFailure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // Looked at under the lock: who tells everybody after this finds the waker.
        let state = self.state.clone();
        let mut waiting = state.waiting.lock().unwrap();
        if state.told.load(Ordering::Relaxed) == self.told {
            waiting.push(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(self.answer.take().expect("told once")))
    }
}

impl<C: Clock + Clone + Send + Sync + 'static> SharedStore for Remote<C> {
    fn check(&self, plan: &Plan<'_>, cacheable: Cacheable) -> Later<Result<Settled, StoreFailure>> {
        self.state.cacheable.lock().unwrap().push(cacheable);
        self.put(|at| Settled { outcomes: self.store.check(plan, at), at, lease: None })
    }

    fn peek(&self, plan: &Plan<'_>) -> Later<Result<Settled, StoreFailure>> {
        self.put(|at| Settled { outcomes: self.store.peek(plan, at), at, lease: None })
    }

    fn acquire(&self, plan: &Plan<'_>, ttl: Option<Nanos>) -> Later<Result<Settled, StoreFailure>> {
        self.put(|at| {
            let (outcomes, lease) = self.store.acquire(plan, at, ttl);
            Settled { outcomes, at, lease }
        })
    }

    fn renew(
        &self,
        plan: &Plan<'_>,
        token: &LeaseToken,
        ttl: Option<Nanos>,
    ) -> Later<Result<Renewal, StoreFailure>> {
        self.put(|at| self.store.renew(plan, token, at, ttl))
    }

    fn release(&self, plan: &Plan<'_>, token: &LeaseToken) -> Later<Result<Release, StoreFailure>> {
        self.put(|at| self.store.release(plan, token, at))
    }

    fn refund(&self, plan: &Plan<'_>) -> Later<Result<(), StoreFailure>> {
        self.put(|at| self.store.refund(plan, at))
    }

    fn reset(&self, plan: &Plan<'_>) -> Later<Result<(), StoreFailure>> {
        self.put(|_| self.store.reset(plan))
    }

    fn having_spent(&self, spent: Duration) -> Arc<dyn SharedStore> {
        self.state.spent.lock().unwrap().push(spent);
        Arc::new(self.clone())
    }

    fn live_nodes(&self) -> NonZeroU32 {
        NonZeroU32::new(self.state.nodes.load(Ordering::Relaxed)).expect("one at least")
    }
}
