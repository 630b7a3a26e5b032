//! A store that stands for the one that a fleet shares: a memory store that answers at once, later, or not at all.

use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate::store::{Ask, DenyCache, Op, Reply, Response, Store};
use tidegate::{Clock, MemoryStore, Nanos, StoreFailure, Timestamp};

/// How long it may take for one decision.
const TIMEOUT: Duration = Duration::from_secs(3600);

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
    cacheable: Mutex<Vec<Vec<bool>>>,
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

    /// Which charges may be denied from memory, of each plan that was to be charged.
    pub fn cacheable(&self) -> Vec<Vec<bool>> {
        self.state.cacheable.lock().unwrap().clone()
    }

    /// What further questions had spent of the budget.
    pub fn spent(&self) -> Vec<Duration> {
        self.state.spent.lock().unwrap().clone()
    }

    fn now(&self) -> Timestamp {
        self.clock.now().saturating_add(Nanos::new(self.ahead_ns.into()))
    }

    fn put(&self, ask: impl FnOnce(Timestamp) -> Reply) -> Response {
        self.state.questions.fetch_add(1, Ordering::Relaxed);
        let mood = self.state.mood.lock().unwrap().clone();
        match mood {
            Mood::Answers => Response::Later(Box::pin(std::future::ready(Ok(ask(self.now()))))),
            Mood::Dawdles => {
                let answer = Some(ask(self.now()));
                let told = self.state.told.load(Ordering::Relaxed);
                Response::Later(Box::pin(Dawdling { answer, told, state: self.state.clone() }))
            }
            Mood::Fails(failure) => Response::Later(Box::pin(std::future::ready(Err(failure)))),
            Mood::Loses => {
                ask(self.now());
                Response::Later(Box::pin(std::future::ready(Err(StoreFailure::TimedOut))))
            }
        }
    }
}

/// An answer that is told when everybody is told.
struct Dawdling {
    answer: Option<Reply>,
    /// How often everybody had been told when it was asked.
    told: u64,
    state: Arc<State>,
}

impl Unpin for Dawdling {}

impl Future for Dawdling {
    type Output = Result<Reply, StoreFailure>;

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

impl<C: Clock + Clone + Send + Sync + 'static> Store for Remote<C> {
    fn ask(&self, ask: &Ask<'_, '_>) -> Response {
        if let Op::Check = ask.op {
            let cached = ask.plan.charges().iter().map(|charge| charge.policy.deny_cache == DenyCache::On);
            self.state.cacheable.lock().unwrap().push(cached.collect());
        }
        let left = ask.deadline.map(|deadline| deadline.as_nanos() - ask.now.as_nanos());
        let spent = TIMEOUT - left.map_or(TIMEOUT, Duration::from_nanos);
        if spent > Duration::ZERO {
            self.state.spent.lock().unwrap().push(spent);
        }
        self.put(|now| match self.store.ask(&Ask { now, ..*ask }) {
            Response::Now(Ok(reply)) => reply,
            _ => unreachable!("memory answers at once"),
        })
    }

    fn timeout(&self) -> Option<Duration> {
        Some(TIMEOUT)
    }

    fn live_nodes(&self) -> NonZeroU32 {
        NonZeroU32::new(self.state.nodes.load(Ordering::Relaxed)).expect("one at least")
    }
}
