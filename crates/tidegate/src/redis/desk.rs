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
use super::connect::DECISION_SCRIPT_INDEX;
use super::deny_cache::{DenialCaching, DenyCache, ReplyTime};
use super::plan::RedisPlan;
use super::runtime::OwnRuntime;
use super::script::PlanReply;
use super::servers::{ServerId, Servers};
use super::stats::StoreCounters;
use crate::{Clock, StoreError, SystemClock};

/// Orders that wait for one server at most; of more it is known that they would not be answered in time.
pub(super) const PLANS_WAITING_MAX: usize = 16_384;
/// Orders that are sent in one go at most. Redis does nothing else meanwhile, so this bounds for how long.
pub(super) const PLANS_PER_BATCH_MAX: usize = 512;
/// What is sent to one server before it has answered: one that Redis works on, and one that is on its way.
pub(super) const BATCHES_IN_FLIGHT_MAX: usize = 2;

/// Where the orders for one server wait.
pub(super) struct Batcher {
    queue: mpsc::Sender<Box<PendingPlan>>,
}

/// An order, and who waits for what becomes of it.
pub(super) struct PendingPlan {
    pub plan: RedisPlan,
    pub reply_to: ReplyTo,
}

/// Some of them. Each is half a kilobyte, and handed on and sorted on its way to Redis.
#[allow(clippy::vec_box, reason = "moving them costs more than one allocation each")]
pub(super) type PendingPlans = Vec<Box<PendingPlan>>;

/// Who waits for what becomes of an order.
pub(super) struct ReplyTo {
    /// Where its keys are in a cluster.
    pub slot: u16,
    pub batch_key: BatchKey,
    /// After this it is not sent any more.
    pub deadline: Instant,
    pub denial_caching: DenialCaching,
    pub calendar_time: CalendarTime,
    pub sender: oneshot::Sender<PlanResult>,
}

/// Orders with equal limits can be said to Redis in few words if they stand side by side, and in fewer if their keys are
/// equal too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BatchKey {
    pub limits: u64,
    pub keys: u64,
}

/// Around which time the windows of calendars are worked out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CalendarTime {
    /// What is thought to be the server's.
    Estimated,
    /// What the server said that it is, after it was asked with others in vain.
    Reported(Timestamp),
}

/// What becomes of an order.
pub(super) type PlanResult = Result<TimedReply, PlanFailure>;

/// What Redis said.
#[derive(Debug)]
pub(super) struct TimedReply {
    pub reply: PlanReply,
    pub time: ReplyTime,
}

/// Why Redis said nothing.
#[derive(Clone, Debug)]
pub(super) struct PlanFailure {
    pub error: StoreError,
    pub effect: PossibleEffect,
}

/// Whether an order that was not answered may have changed anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PossibleEffect {
    None,
    Unknown,
}

/// What clerks need besides orders.
#[derive(Clone)]
pub(super) struct BatchContext {
    pub servers: Arc<Servers>,
    pub deny_cache: Arc<DenyCache>,
    pub counters: Arc<StoreCounters>,
    pub clock: SystemClock,
    /// The store's own runtime, if it has one. It runs until what waits at the desks is answered.
    pub _own_runtime: Option<Arc<OwnRuntime>>,
}

impl Batcher {
    /// A desk for orders to a server. Its clerks go when it is dropped and what waited is answered.
    pub(super) fn spawn(runtime: &Handle, office: &BatchContext, server: ServerId) -> Self {
        let (waiting, jobs) = mpsc::channel(PLANS_WAITING_MAX);
        let jobs = Arc::new(Mutex::new(jobs));
        for _ in 0..BATCHES_IN_FLIGHT_MAX {
            let clerk = BatchWorker { context: office.clone(), server, queue: jobs.clone(), last_reply_time: None };
            runtime.spawn(clerk.run());
        }
        Self { queue: waiting }
    }

    /// Puts an order in line.
    pub(super) fn enqueue(&self, job: Box<PendingPlan>) {
        let (job, why) = match self.queue.try_send(job) {
            Ok(()) => return,
            Err(TrySendError::Full(job)) => (job, StoreError::Overloaded),
            // The clerks serve for as long as there is a desk, unless their runtime is dropped.
            Err(TrySendError::Closed(job)) => (job, StoreError::RuntimeGone),
        };
        job.reply_to.send(Err(PlanFailure::not_sent(why)));
    }
}

impl ReplyTo {
    pub(super) fn send(self, answer: PlanResult) {
        // Nobody may be listening any more, which is none of ours: whoever has to know listens to the end.
        let _ = self.sender.send(answer);
    }
}

impl PlanFailure {
    /// Redis was not asked.
    pub(super) fn not_sent(why: StoreError) -> Self {
        Self { error: why, effect: PossibleEffect::None }
    }
}

/// One of those who ask and answer.
struct BatchWorker {
    context: BatchContext,
    server: ServerId,
    queue: Arc<Mutex<mpsc::Receiver<Box<PendingPlan>>>>,
    /// What time it was for the server when it last answered.
    last_reply_time: Option<ReplyTime>,
}

impl BatchWorker {
    async fn run(mut self) {
        let mut again = Vec::new();
        loop {
            let mut jobs = std::mem::take(&mut again);
            if jobs.is_empty() && self.receive(&mut jobs).await == BatchQueueState::Closed {
                return;
            }
            again = self.send_batch(jobs).await;
        }
    }

    /// Takes all that waits, as soon as something does.
    async fn receive(&self, jobs: &mut PendingPlans) -> BatchQueueState {
        let mut waiting = self.queue.lock().await;
        if waiting.recv_many(jobs, PLANS_PER_BATCH_MAX).await == 0 {
            return BatchQueueState::Closed;
        }
        // Those who are about to ask at this very moment, often because they were just answered together, go along.
        tokio::task::yield_now().await;
        while jobs.len() < PLANS_PER_BATCH_MAX
            && let Ok(job) = waiting.try_recv()
        {
            jobs.push(job);
        }
        BatchQueueState::Open
    }

    /// Asks for all of them and answers: those that have to be asked once more are left.
    async fn send_batch(&mut self, jobs: PendingPlans) -> PendingPlans {
        let BatchContext { servers, deny_cache, counters, clock, .. } = &self.context;
        let sent = clock.now();
        let servers_time = self.last_reply_time.map_or(sent, |seen| seen.latest_server_time(sent));
        let batch = Batch::from_pending(jobs, Instant::now(), servers_time);
        if batch.is_empty() {
            return Vec::new();
        }
        batch.count_in(counters);
        let replies = servers.send(self.server, batch.commands(servers.sha(DECISION_SCRIPT_INDEX))).await;
        let (again, at) = batch.complete(replies, sent, deny_cache);
        counters.pipelines_answered.add(usize::from(at.is_some()));
        self.last_reply_time = at.map(|at| ReplyTime { server_time: at, sent_at: sent }).or(self.last_reply_time);
        again
    }
}

#[derive(PartialEq, Eq)]
enum BatchQueueState {
    Open,
    Closed,
}
