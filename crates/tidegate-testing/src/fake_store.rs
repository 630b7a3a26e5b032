//! A fake shared store: a memory store that replies immediately, later, or not at all.

use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate::store::{Ask, DenyCache, Mode, Op, Reply, Response, Store};
use tidegate::{Clock, MemoryStore, Nanos, StoreError, Timestamp};

/// The budget of one decision.
const TIMEOUT: Duration = Duration::from_secs(3600);

/// What the store does with a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreBehavior {
    /// Replies immediately.
    Reply,
    /// Executes the call immediately, and replies when the test releases replies.
    ReplyLater,
    /// Does not execute the call.
    Fail(StoreError),
    /// Executes the call, but the reply is lost.
    LoseReply,
}

/// The fake shared store. Clones share their state.
#[derive(Clone)]
pub struct FakeStore<C> {
    store: Arc<MemoryStore>,
    clock: C,
    /// How far its clock is ahead.
    ahead_ns: u64,
    timeout: Duration,
    state: Arc<FakeStoreState>,
}

struct FakeStoreState {
    behavior: Mutex<StoreBehavior>,
    /// Tasks that wait for a reply.
    wakers: Mutex<Vec<Waker>>,
    /// How often replies were released.
    releases: AtomicU64,
    calls: AtomicU64,
    nodes: AtomicU32,
    cacheable: Mutex<Vec<Vec<bool>>>,
    modes: Mutex<Vec<Vec<Mode>>>,
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
            modes: Mutex::default(),
            spent: Mutex::default(),
        };
        let store = Arc::new(MemoryStore::bounded(1 << 20));
        Self { store, clock, ahead_ns: 0, timeout: TIMEOUT, state: Arc::new(state) }
    }

    /// The same store with another timeout of a decision.
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// The same store with a clock that is ahead of all others.
    pub fn with_clock_ahead_seconds(self, seconds: u64) -> Self {
        Self { ahead_ns: seconds * 1_000_000_000, ..self }
    }

    /// Sets what it does with calls from now on. Releases delayed replies.
    pub fn set_behavior(&self, behavior: StoreBehavior) {
        *self.state.behavior.lock().unwrap() = behavior;
        self.release_replies();
    }

    /// What it does with calls.
    pub fn behavior(&self) -> MutexGuard<'_, StoreBehavior> {
        self.state.behavior.lock().unwrap()
    }

    /// Releases all delayed replies.
    pub fn release_replies(&self) {
        let wakers = {
            let mut wakers = self.state.wakers.lock().unwrap();
            self.state.releases.fetch_add(1, Ordering::Relaxed);
            std::mem::take(&mut *wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    pub fn set_nodes(&self, nodes: u32) {
        self.state.nodes.store(nodes, Ordering::Relaxed);
    }

    /// The number of calls.
    pub fn calls(&self) -> u64 {
        self.state.calls.load(Ordering::Relaxed)
    }

    /// For each checked plan: which charges may be denied from memory.
    pub fn cacheable(&self) -> Vec<Vec<bool>> {
        self.state.cacheable.lock().unwrap().clone()
    }

    /// For each checked plan: the modes of its charges.
    pub fn modes(&self) -> Vec<Vec<Mode>> {
        self.state.modes.lock().unwrap().clone()
    }

    /// How much of the budget was already spent, for each follow-up call.
    pub fn spent_budgets(&self) -> Vec<Duration> {
        self.state.spent.lock().unwrap().clone()
    }

    fn now(&self) -> Timestamp {
        self.clock.now().saturating_add(Nanos::new(self.ahead_ns.into()))
    }

    fn call(&self, execute: impl FnOnce(Timestamp) -> Reply) -> Response {
        self.state.calls.fetch_add(1, Ordering::Relaxed);
        let behavior = self.state.behavior.lock().unwrap().clone();
        match behavior {
            StoreBehavior::Reply => Response::Later(Box::pin(std::future::ready(Ok(execute(self.now()))))),
            StoreBehavior::ReplyLater => {
                let reply = Some(execute(self.now()));
                let releases = self.state.releases.load(Ordering::Relaxed);
                Response::Later(Box::pin(DelayedReply { reply, releases, state: self.state.clone() }))
            }
            StoreBehavior::Fail(error) => Response::Later(Box::pin(std::future::ready(Err(error)))),
            StoreBehavior::LoseReply => {
                execute(self.now());
                Response::Later(Box::pin(std::future::ready(Err(StoreError::TimedOut))))
            }
        }
    }
}

/// A reply that waits until replies are released.
struct DelayedReply {
    reply: Option<Reply>,
    /// How often replies had been released at the time of the call.
    releases: u64,
    state: Arc<FakeStoreState>,
}

impl Unpin for DelayedReply {}

impl Future for DelayedReply {
    type Output = Result<Reply, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // Check under the lock, so that a later release finds the waker.
        let state = self.state.clone();
        let mut wakers = state.wakers.lock().unwrap();
        if state.releases.load(Ordering::Relaxed) == self.releases {
            wakers.push(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(self.reply.take().expect("the reply is taken once")))
    }
}

impl<C: Clock + Clone + Send + Sync + 'static> Store for FakeStore<C> {
    fn ask(&self, ask: &Ask<'_, '_>) -> Response {
        if let Op::Check = ask.op {
            let cacheable = ask.plan.charges().iter().map(|charge| charge.policy.deny_cache == DenyCache::On);
            self.state.cacheable.lock().unwrap().push(cacheable.collect());
            let modes = ask.plan.charges().iter().map(|charge| charge.policy.mode);
            self.state.modes.lock().unwrap().push(modes.collect());
        }
        let left = ask.deadline.map(|deadline| deadline.as_nanos() - ask.now.as_nanos());
        let spent = TIMEOUT - left.map_or(TIMEOUT, Duration::from_nanos);
        if spent > Duration::ZERO {
            self.state.spent.lock().unwrap().push(spent);
        }
        self.call(|now| match self.store.ask(&Ask { now, ..*ask }) {
            Response::Now(Ok(reply)) => reply,
            _ => unreachable!("the memory store replies immediately"),
        })
    }

    fn timeout(&self) -> Option<Duration> {
        Some(self.timeout)
    }

    fn live_nodes(&self) -> NonZeroU32 {
        NonZeroU32::new(self.state.nodes.load(Ordering::Relaxed)).expect("at least one")
    }
}
