//! A store that stands for the one that a fleet shares: a memory store that answers at once, later, or not at all.

use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate::store::{Ask, DenyCache, Op, Reply, Response, Store};
use tidegate::{Clock, MemoryStore, Nanos, StoreError, Timestamp};

/// How long it may take for one decision.
const TIMEOUT: Duration = Duration::from_secs(3600);

/// What it does with a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreBehavior {
    /// Answers it at once.
    Reply,
    /// Does what it is asked for at once, and tells when it is let.
    ReplyLater,
    /// Does not do it.
    Fail(StoreError),
    /// Does it and does not tell.
    LoseReply,
}

/// The shared store. Clones are the same.
#[derive(Clone)]
pub struct FakeStore<C> {
    store: Arc<MemoryStore>,
    clock: C,
    /// How far its clock is ahead.
    ahead_ns: u64,
    state: Arc<FakeStoreState>,
}

struct FakeStoreState {
    behavior: Mutex<StoreBehavior>,
    /// Who waits for an answer that is there.
    wakers: Mutex<Vec<Waker>>,
    /// How often everybody was told.
    releases: AtomicU64,
    calls: AtomicU64,
    nodes: AtomicU32,
    cacheable: Mutex<Vec<Vec<bool>>>,
    spent: Mutex<Vec<Duration>>,
}

impl<C: Clock> FakeStore<C> {
    pub fn new(clock: C) -> Self {
        let state = FakeStoreState {
            behavior: Mutex::new(StoreBehavior::Reply),
            wakers: Mutex::default(),
            releases: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            nodes: AtomicU32::new(1),
            cacheable: Mutex::default(),
            spent: Mutex::default(),
        };
        let store = Arc::new(MemoryStore::bounded(1 << 20));
        Self { store, clock, ahead_ns: 0, state: Arc::new(state) }
    }

    /// The same with a clock that is ahead of everybody's.
    pub fn with_clock_ahead_seconds(self, seconds: u64) -> Self {
        Self { ahead_ns: seconds * 1_000_000_000, ..self }
    }

    /// From now on it does so with questions; those that it dawdles with are answered.
    pub fn set_behavior(&self, mood: StoreBehavior) {
        *self.state.behavior.lock().unwrap() = mood;
        self.release_replies();
    }

    /// What it does with questions.
    pub fn behavior(&self) -> MutexGuard<'_, StoreBehavior> {
        self.state.behavior.lock().unwrap()
    }

    /// Tells all who wait for an answer.
    pub fn release_replies(&self) {
        let waiting = {
            let mut waiting = self.state.wakers.lock().unwrap();
            self.state.releases.fetch_add(1, Ordering::Relaxed);
            std::mem::take(&mut *waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    pub fn set_nodes(&self, nodes: u32) {
        self.state.nodes.store(nodes, Ordering::Relaxed);
    }

    /// How often it was asked.
    pub fn calls(&self) -> u64 {
        self.state.calls.load(Ordering::Relaxed)
    }

    /// Which charges may be denied from memory, of each plan that was to be charged.
    pub fn cacheable(&self) -> Vec<Vec<bool>> {
        self.state.cacheable.lock().unwrap().clone()
    }

    /// What further questions had spent of the budget.
    pub fn spent_budgets(&self) -> Vec<Duration> {
        self.state.spent.lock().unwrap().clone()
    }

    fn now(&self) -> Timestamp {
        self.clock.now().saturating_add(Nanos::new(self.ahead_ns.into()))
    }

    fn call(&self, ask: impl FnOnce(Timestamp) -> Reply) -> Response {
        self.state.calls.fetch_add(1, Ordering::Relaxed);
        let mood = self.state.behavior.lock().unwrap().clone();
        match mood {
            StoreBehavior::Reply => Response::Later(Box::pin(std::future::ready(Ok(ask(self.now()))))),
            StoreBehavior::ReplyLater => {
                let answer = Some(ask(self.now()));
                let told = self.state.releases.load(Ordering::Relaxed);
                Response::Later(Box::pin(DelayedReply { reply: answer, releases: told, state: self.state.clone() }))
            }
            StoreBehavior::Fail(failure) => Response::Later(Box::pin(std::future::ready(Err(failure)))),
            StoreBehavior::LoseReply => {
                ask(self.now());
                Response::Later(Box::pin(std::future::ready(Err(StoreError::TimedOut))))
            }
        }
    }
}

/// An answer that is told when everybody is told.
struct DelayedReply {
    reply: Option<Reply>,
    /// How often everybody had been told when it was asked.
    releases: u64,
    state: Arc<FakeStoreState>,
}

impl Unpin for DelayedReply {}

impl Future for DelayedReply {
    type Output = Result<Reply, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // Looked at under the lock: who tells everybody after this finds the waker.
        let state = self.state.clone();
        let mut waiting = state.wakers.lock().unwrap();
        if state.releases.load(Ordering::Relaxed) == self.releases {
            waiting.push(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(self.reply.take().expect("told once")))
    }
}

impl<C: Clock + Clone + Send + Sync + 'static> Store for FakeStore<C> {
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
        self.call(|now| match self.store.ask(&Ask { now, ..*ask }) {
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
