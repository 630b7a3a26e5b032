//! Groups the plans for one Redis server into batches.
//!
//! Each server has a batcher with two workers. A free worker takes all waiting plans, sends them in one
//! pipeline and replies to each. While both workers wait for Redis, new plans gather in the queue. So batches
//! grow with the load, and no plan waits for others to arrive.
//!
//! Plans with equal limits are sorted next to each other, which makes the call shorter. Equal plans form one
//! group, and the script decides them one after the other.
//!
//! Every plan gets a result: the reply of Redis, or the reason why there is none. The caller may be gone by
//! then.

pub(crate) mod batch;

use std::sync::Arc;

use tidegate_core::Timestamp;
use tokio::runtime::Handle;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::Instant;

use super::connect::DECISION_SCRIPT_INDEX;
use super::connection::Replication;
use super::deny_cache::{DenialCaching, DenyCache, ReplyTime};
use super::plan::RedisPlan;
use super::runtime::OwnRuntime;
use super::script::PlanReply;
use super::stats::StoreCounters;
use super::topology::{ServerId, Servers};
use crate::{Clock, StoreError, SystemClock};
use batch::Batch;

/// Plans that wait for one server at most. More would not get a reply in time.
pub(crate) const PLANS_WAITING_MAX: usize = 16_384;
/// Plans per batch at most. Redis does nothing else meanwhile, so this bounds how long other clients wait.
pub(crate) const PLANS_PER_BATCH_MAX: usize = 512;
/// Batches sent to one server and not replied yet: one that Redis works on, and one on its way.
pub(crate) const BATCHES_IN_FLIGHT_MAX: usize = 2;

/// The queue of plans for one server.
pub(crate) struct Batcher {
    queue: mpsc::Sender<Box<PendingPlan>>,
}

/// A plan in the queue, and where its result goes.
pub(crate) struct PendingPlan {
    pub plan: RedisPlan,
    pub reply_to: ReplyTo,
}

/// A list of them. They are boxed: each is half a kilobyte, and is moved and sorted on its way to Redis.
#[allow(clippy::vec_box, reason = "moving a plan costs more than one allocation")]
pub(crate) type PendingPlans = Vec<Box<PendingPlan>>;

/// Where the result of a plan goes, and how to send the plan.
pub(crate) struct ReplyTo {
    /// The cluster slot of its keys.
    pub slot: u16,
    pub batch_key: BatchKey,
    /// The plan is not sent after this.
    pub deadline: Instant,
    pub denial_caching: DenialCaching,
    pub calendar_time: CalendarTime,
    /// Why Redis refused to write the plan. Then the plan is a peek, which can deny the request but not admit it.
    pub write_refusal: Option<Box<str>>,
    pub sender: oneshot::Sender<PlanResult>,
}

/// Sorts equal plans next to each other. Equal limits make a call shorter, and equal keys make it shorter
/// still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BatchKey {
    pub limits: u64,
    pub keys: u64,
}

/// The time for which the windows of a calendar are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CalendarTime {
    /// This process's estimate of the server's time.
    Estimated,
    /// The time that the server reported, after a first call with the estimate failed.
    Reported(Timestamp),
}

/// The result of a plan.
pub(crate) type PlanResult = Result<TimedReply, PlanFailure>;

/// What Redis replied, and when.
#[derive(Debug)]
pub(crate) struct TimedReply {
    pub reply: PlanReply,
    pub time: ReplyTime,
    /// Whether enough replicas have what the plan wrote.
    pub replication: Replication,
}

/// Why there is no reply.
#[derive(Clone, Debug)]
pub(crate) struct PlanFailure {
    pub error: StoreError,
    pub effect: PossibleEffect,
}

/// Whether a plan without a reply may have changed a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PossibleEffect {
    None,
    Unknown,
}

/// What workers need besides plans.
#[derive(Clone)]
pub(crate) struct BatchContext {
    pub servers: Arc<Servers>,
    pub deny_cache: Arc<DenyCache>,
    pub counters: Arc<StoreCounters>,
    pub clock: SystemClock,
    /// The store's own runtime, if it has one. It runs until all queued plans have a result.
    pub _own_runtime: Option<Arc<OwnRuntime>>,
}

impl Batcher {
    /// Starts the workers. They end when the batcher is dropped and all queued plans have a result.
    pub(crate) fn spawn(runtime: &Handle, context: &BatchContext, server: ServerId) -> Self {
        let (queue, plans) = mpsc::channel(PLANS_WAITING_MAX);
        let plans = Arc::new(Mutex::new(plans));
        for _ in 0..BATCHES_IN_FLIGHT_MAX {
            let worker =
                BatchWorker { context: context.clone(), server, queue: plans.clone(), last_reply_time: None };
            runtime.spawn(worker.run());
        }
        Self { queue }
    }

    /// Adds a plan to the queue.
    pub(crate) fn enqueue(&self, pending: Box<PendingPlan>) {
        let (pending, error) = match self.queue.try_send(pending) {
            Ok(()) => return,
            Err(TrySendError::Full(pending)) => (pending, StoreError::Overloaded),
            // The workers run as long as the batcher exists, unless their runtime is dropped.
            Err(TrySendError::Closed(pending)) => (pending, StoreError::RuntimeGone),
        };
        pending.reply_to.send(Err(PlanFailure::not_sent(error)));
    }
}

impl ReplyTo {
    pub(crate) fn send(self, result: PlanResult) {
        // The receiver may already be gone; ignore the error. Callers that must know wait to the end.
        let _ = self.sender.send(result);
    }
}

impl PlanFailure {
    /// The plan was not sent.
    pub(crate) fn not_sent(error: StoreError) -> Self {
        Self { error, effect: PossibleEffect::None }
    }
}

/// Sends batches and completes their plans.
struct BatchWorker {
    context: BatchContext,
    server: ServerId,
    queue: Arc<Mutex<mpsc::Receiver<Box<PendingPlan>>>>,
    /// The server's time in its last reply.
    last_reply_time: Option<ReplyTime>,
}

impl BatchWorker {
    async fn run(mut self) {
        let mut retries = Vec::new();
        loop {
            let mut plans = std::mem::take(&mut retries);
            if plans.is_empty() && self.receive(&mut plans).await == BatchQueueState::Closed {
                return;
            }
            retries = self.send_batch(plans).await;
        }
    }

    /// Waits for a plan, then takes all that are queued.
    async fn receive(&self, plans: &mut PendingPlans) -> BatchQueueState {
        let mut queue = self.queue.lock().await;
        if queue.recv_many(plans, PLANS_PER_BATCH_MAX).await == 0 {
            return BatchQueueState::Closed;
        }
        // Let tasks that are about to send a plan do so first. Often the last batch woke many of them
        // together.
        tokio::task::yield_now().await;
        while plans.len() < PLANS_PER_BATCH_MAX
            && let Ok(pending) = queue.try_recv()
        {
            plans.push(pending);
        }
        BatchQueueState::Open
    }

    /// Sends a batch and completes its plans. Returns the plans that must be sent again.
    async fn send_batch(&mut self, plans: PendingPlans) -> PendingPlans {
        let BatchContext { servers, deny_cache, counters, clock, .. } = &self.context;
        let sent = clock.now();
        let servers_time = self.last_reply_time.map_or(sent, |last| last.latest_server_time(sent));
        let batch = Batch::from_pending(plans, Instant::now(), servers_time);
        if batch.is_empty() {
            return Vec::new();
        }
        batch.count_in(counters);
        let replies = servers.send(self.server, batch.commands(servers.sha(DECISION_SCRIPT_INDEX))).await;
        let (retries, at) = batch.complete(replies, sent, deny_cache);
        counters.pipelines_answered.add(usize::from(at.is_some()));
        self.last_reply_time =
            at.map(|at| ReplyTime { server_time: at, sent_at: sent }).or(self.last_reply_time);
        retries
    }
}

#[derive(PartialEq, Eq)]
enum BatchQueueState {
    Open,
    Closed,
}
