//! Where the orders for one server wait for their turn.
//!
//! A few clerks serve a desk. A free one takes all that waits, asks Redis in one go and answers each. While all of them are
//! asking, orders gather, and so they share calls the more the busier it is; nobody ever waits for others to come.
//!
//! Every order is answered: with what Redis said, or why it did not. Whoever asked may have stopped listening by then.

use std::sync::Arc;

use tidegate_core::Timestamp;
use tokio::runtime::Handle;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::Instant;

use super::batch::Batch;
use super::connect::DECIDES;
use super::deny_cache::{Denials, DenyCache, SeenAt};
use super::order::Order;
use super::runtime::OwnRuntime;
use super::script::Seen;
use super::servers::{ServerId, Servers};
use super::stats::Counters;
use crate::{Clock, StoreFailure, SystemClock};

/// Orders that wait for one server at most; of more it is known that they would not be answered in time.
pub(super) const ORDERS_WAITING_MAX: usize = 16_384;
/// Orders that are sent in one go at most. Redis does nothing else meanwhile, so this bounds for how long.
pub(super) const ORDERS_PER_SEND_MAX: usize = 512;
/// What is sent to one server before it has answered: one that Redis works on, and one that is on its way.
pub(super) const SENDS_IN_FLIGHT_MAX: usize = 2;

/// Where the orders for one server wait.
pub(super) struct Desk {
    waiting: mpsc::Sender<Box<Job>>,
}

/// An order, and who waits for what becomes of it.
pub(super) struct Job {
    pub order: Order,
    pub ticket: Ticket,
}

/// Some of them. Each is half a kilobyte, and handed on and sorted on its way to Redis.
#[allow(clippy::vec_box, reason = "moving them costs more than one allocation each")]
pub(super) type Jobs = Vec<Box<Job>>;

/// Who waits for what becomes of an order.
pub(super) struct Ticket {
    /// Where its keys are in a cluster.
    pub slot: u16,
    pub likeness: Likeness,
    /// After this it is not sent any more.
    pub deadline: Instant,
    pub denials: Denials,
    pub edges: Edges,
    pub answer: oneshot::Sender<Answer>,
}

/// Orders with equal limits can be said to Redis in few words if they stand side by side, and in fewer if their keys are
/// equal too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Likeness {
    pub limits: u64,
    pub keys: u64,
}

/// Around which time the windows of calendars are worked out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edges {
    /// What is thought to be the server's.
    AroundNow,
    /// What the server said that it is, after it was asked with others in vain.
    Around(Timestamp),
}

/// What becomes of an order.
pub(super) type Answer = Result<Answered, Unanswered>;

/// What Redis said.
#[derive(Debug)]
pub(super) struct Answered {
    pub seen: Seen,
    pub when: SeenAt,
}

/// Why Redis said nothing.
#[derive(Clone, Debug)]
pub(super) struct Unanswered {
    pub why: StoreFailure,
    pub effect: Effect,
}

/// Whether an order that was not answered may have changed anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Nothing,
    Unknown,
}

/// What clerks need besides orders.
#[derive(Clone)]
pub(super) struct Office {
    pub servers: Arc<Servers>,
    pub deny_cache: Arc<DenyCache>,
    pub counters: Arc<Counters>,
    pub clock: SystemClock,
    /// The store's own runtime, if it has one. It runs until what waits at the desks is answered.
    pub _own_runtime: Option<Arc<OwnRuntime>>,
}

impl Desk {
    /// A desk for orders to a server. Its clerks go when it is dropped and what waited is answered.
    pub(super) fn open(runtime: &Handle, office: &Office, server: ServerId) -> Self {
        let (waiting, jobs) = mpsc::channel(ORDERS_WAITING_MAX);
        let jobs = Arc::new(Mutex::new(jobs));
        for _ in 0..SENDS_IN_FLIGHT_MAX {
            let clerk = Clerk { office: office.clone(), server, jobs: jobs.clone(), last_seen: None };
            runtime.spawn(clerk.serve());
        }
        Self { waiting }
    }

    /// Puts an order in line.
    pub(super) fn put(&self, job: Box<Job>) {
        let (job, why) = match self.waiting.try_send(job) {
            Ok(()) => return,
            Err(TrySendError::Full(job)) => (job, StoreFailure::Overloaded),
            // The clerks serve for as long as there is a desk, unless their runtime is dropped.
            Err(TrySendError::Closed(job)) => (job, StoreFailure::RuntimeGone),
        };
        job.ticket.answer(Err(Unanswered::unasked(why)));
    }
}

impl Ticket {
    pub(super) fn answer(self, answer: Answer) {
        // Nobody may be listening any more, which is none of ours: whoever has to know listens to the end.
        let _ = self.answer.send(answer);
    }
}

impl Unanswered {
    /// Redis was not asked.
    pub(super) fn unasked(why: StoreFailure) -> Self {
        Self { why, effect: Effect::Nothing }
    }
}

/// One of those who ask and answer.
struct Clerk {
    office: Office,
    server: ServerId,
    jobs: Arc<Mutex<mpsc::Receiver<Box<Job>>>>,
    /// What time it was for the server when it last answered.
    last_seen: Option<SeenAt>,
}

impl Clerk {
    async fn serve(mut self) {
        let mut again = Vec::new();
        loop {
            let mut jobs = std::mem::take(&mut again);
            if jobs.is_empty() && self.take(&mut jobs).await == Taken::NobodyWillCome {
                return;
            }
            again = self.ask(jobs).await;
        }
    }

    /// Takes all that waits, as soon as something does.
    async fn take(&self, jobs: &mut Jobs) -> Taken {
        let mut waiting = self.jobs.lock().await;
        if waiting.recv_many(jobs, ORDERS_PER_SEND_MAX).await == 0 {
            return Taken::NobodyWillCome;
        }
        // Those who are about to ask at this very moment, often because they were just answered together, go along.
        tokio::task::yield_now().await;
        while jobs.len() < ORDERS_PER_SEND_MAX
            && let Ok(job) = waiting.try_recv()
        {
            jobs.push(job);
        }
        Taken::Some
    }

    /// Asks for all of them and answers: those that have to be asked once more are left.
    async fn ask(&mut self, jobs: Jobs) -> Jobs {
        let Office { servers, deny_cache, counters, clock, .. } = &self.office;
        let sent = clock.now();
        let servers_time = self.last_seen.map_or(sent, |seen| seen.latest(sent));
        let batch = Batch::gather(jobs, Instant::now(), servers_time);
        if batch.is_empty() {
            return Vec::new();
        }
        batch.count(counters);
        let replies = servers.send(self.server, batch.commands(servers.sha(DECIDES))).await;
        let (again, at) = batch.answer(replies, sent, deny_cache);
        counters.rounds_answered.add(usize::from(at.is_some()));
        self.last_seen = at.map(|at| SeenAt { at, sent }).or(self.last_seen);
        again
    }
}

#[derive(PartialEq, Eq)]
enum Taken {
    Some,
    NobodyWillCome,
}
