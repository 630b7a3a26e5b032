//! [`Link`]: a node's end of the network, which is the shared store for the code under test.
//!
//! A question goes to the outbox, from which the world takes it. Its reply is a future that the world completes: with what
//! the server answered, or with [`StoreError::TimedOut`]. Like a real client, the link has a circuit breaker, and it
//! ignores replies that come after the timeout or for a second time.

use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tidegate::StoreError;
use tidegate::store::{Ask, Op, Reply, Response, SpawnFn, Store};

use super::clocks::{MS, ShownTime};
use super::executor::BackgroundFuture;
use super::owned_ask::OwnedAsk;

/// How long a node waits for a reply.
pub(super) const TIMEOUT_NS: u64 = 100 * MS;
/// The breaker opens after this many timeouts in a row.
const BREAKER_TIMEOUTS: u32 = 3;
const BREAKER_OPEN_NS: u64 = 300 * MS;

/// A node's end of the network. Clones are the same end.
#[derive(Clone)]
pub(super) struct Link {
    inner: Arc<LinkInner>,
}

struct LinkInner {
    nodes: NonZeroU32,
    time: ShownTime,
    outbox: Mutex<Vec<Outgoing>>,
    spawned: Mutex<Vec<BackgroundFuture>>,
    breaker: Mutex<Breaker>,
}

/// A question that is to be sent.
pub(super) struct Outgoing {
    pub(super) ask: OwnedAsk,
    pub(super) waiting: Waiting,
    pub(super) timeout_ns: u64,
}

/// Where the reply goes.
#[derive(Clone, Default)]
pub(super) struct Waiting(Arc<Mutex<WaitState>>);

#[derive(Default)]
struct WaitState {
    reply: Option<Result<Reply, StoreError>>,
    is_over: bool,
    waker: Option<Waker>,
}

#[derive(Default)]
struct Breaker {
    timeouts: u32,
    open_until_ns: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Link {
    pub(super) fn new(nodes: NonZeroU32, time: ShownTime) -> Self {
        let (outbox, spawned, breaker) = Default::default();
        Self { inner: Arc::new(LinkInner { nodes, time, outbox, spawned, breaker }) }
    }

    pub(super) fn take_outbox(&self) -> Vec<Outgoing> {
        std::mem::take(&mut lock(&self.inner.outbox))
    }

    pub(super) fn take_spawned(&self) -> Vec<BackgroundFuture> {
        std::mem::take(&mut lock(&self.inner.spawned))
    }

    /// Delivers a reply or an error. Returns whether the node still waited for it.
    pub(super) fn deliver(&self, waiting: &Waiting, reply: Result<Reply, StoreError>) -> bool {
        let mut state = lock(&waiting.0);
        if state.is_over {
            return false;
        }
        let mut breaker = lock(&self.inner.breaker);
        match &reply {
            Ok(_) => *breaker = Breaker::default(),
            Err(_) => {
                breaker.timeouts += 1;
                if breaker.timeouts >= BREAKER_TIMEOUTS {
                    breaker.open_until_ns = self.inner.time.get() + BREAKER_OPEN_NS;
                }
            }
        }
        (state.is_over, state.reply) = (true, Some(reply));
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
        true
    }
}

impl Store for Link {
    fn ask(&self, ask: &Ask<'_, '_>) -> Response {
        if lock(&self.inner.breaker).open_until_ns > self.inner.time.get() {
            return Response::Now(Err(StoreError::BreakerOpen));
        }
        let waiting = Waiting::default();
        let left_ns = ask.deadline.map(|deadline| deadline.as_nanos().saturating_sub(ask.now.as_nanos()));
        let timeout_ns = match (left_ns, ask.op) {
            // As over Redis: no request waits for a push.
            (Some(left_ns), Op::Count { .. }) => left_ns,
            (Some(left_ns), _) => left_ns.min(TIMEOUT_NS),
            (None, _) => TIMEOUT_NS,
        };
        lock(&self.inner.outbox).push(Outgoing {
            ask: OwnedAsk::new(ask),
            waiting: waiting.clone(),
            timeout_ns,
        });
        Response::Later(Box::pin(waiting))
    }

    fn timeout(&self) -> Option<std::time::Duration> {
        Some(std::time::Duration::from_nanos(TIMEOUT_NS))
    }

    fn live_nodes(&self) -> NonZeroU32 {
        self.inner.nodes
    }

    fn spawner(&self) -> Option<SpawnFn> {
        let link = self.clone();
        Some(Box::new(move |future| lock(&link.inner.spawned).push(future)))
    }
}

impl Future for Waiting {
    type Output = Result<Reply, StoreError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = lock(&self.0);
        match state.reply.take() {
            Some(reply) => Poll::Ready(reply),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}
