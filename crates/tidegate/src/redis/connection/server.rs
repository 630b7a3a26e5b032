//! One server: its connection, its breaker and its pipelines.

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU16, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};

use redis::Pipeline;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{Instant, timeout_at};

use super::attempts::{ConnectAttempts, Novelty};
use super::breaker::{Breaker, BreakerChange, Generation};
use super::client_config::ClientConfig;
use super::connect_error::ConnectError;
use super::event::StoreEvent;
use super::multiplexed::Connection;
use super::pipeline::{PipelinePurpose, PipelineTerms, SendError};
use super::probe::{self, ConnectTimeouts};
use super::replicas::{ReplicaWait, Replication};
use super::reply::{CommandReply, RefusalScope};
use super::stats::{BreakerState, ServerCounters, ServerStats};
use super::writes::WriteRefusal;
use crate::redis::topology::address_source::AddressSource;
use crate::redis::url::Address;

/// Pipelines in flight to one server at most, counting only those that a caller still waits for. The breaker
/// bounds the number of abandoned ones. There are rarely more than a few, because later plans gather into the
/// next one.
const PIPELINES_IN_FLIGHT_MAX: usize = 32;

/// One server. A [reconnector](super::reconnector::ManagedServer) keeps it connected.
pub(crate) struct Server {
    pub config: Arc<ClientConfig>,
    pub address_source: AddressSource,
    pub membership: Membership,
    pub breaker: Breaker,
    pub(super) replica_wait: ReplicaWait,
    pub(super) write_refusal: WriteRefusal,
    /// The last known address.
    address: Mutex<Address>,
    live: watch::Sender<Option<LiveConnection>>,
    /// The state of the breaker that was reported last.
    last_reported: Mutex<BreakerState>,
    in_flight: Semaphore,
    attempts: ConnectAttempts,
    counters: ServerCounters,
}

/// Whether a server belongs to a cluster.
pub(crate) enum Membership {
    /// No: it has all keys, or its share of a ring.
    Standalone,
    Cluster {
        /// One of its slots.
        slot: AtomicU16,
        /// Notified to refresh the slots when this server does not reply.
        refresh_needed: Arc<Notify>,
    },
}

/// The connection in use.
#[derive(Clone)]
pub(crate) struct LiveConnection {
    pub connection: Connection,
    pub generation: Generation,
}

impl Server {
    pub fn new(
        config: Arc<ClientConfig>,
        address_source: AddressSource,
        membership: Membership,
    ) -> Arc<Self> {
        Arc::new(Self {
            address: Mutex::new(address_source.initial_address()),
            config,
            address_source,
            membership,
            breaker: Breaker::default(),
            replica_wait: ReplicaWait::default(),
            write_refusal: WriteRefusal::default(),
            live: watch::Sender::new(None),
            last_reported: Mutex::new(BreakerState::Closed),
            in_flight: Semaphore::new(PIPELINES_IN_FLIGHT_MAX),
            attempts: ConnectAttempts::default(),
            counters: ServerCounters::default(),
        })
    }

    pub fn address(&self) -> Address {
        self.address.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn stats(&self) -> ServerStats {
        ServerStats {
            address: self.address().to_string().into(),
            breaker: self.breaker.state(),
            writes: self.write_refusal.state(),
            connect_error: self.attempts.last_error(),
            counts: self.counters.snapshot(),
        }
    }

    pub fn count(&self, counter: impl Fn(&ServerCounters) -> &AtomicU64, number: usize) {
        let number = number as u64;
        counter(&self.counters).fetch_add(number, Relaxed);
        counter(&self.config.total_counters).fetch_add(number, Relaxed);
    }

    /// Watches the connection in use, if there is one.
    pub fn subscribe_live(&self) -> watch::Receiver<Option<LiveConnection>> {
        self.live.subscribe()
    }

    /// Sends commands as one pipeline. Returns a reply for each, or an error if nothing was sent or the
    /// result is unknown.
    pub async fn send_pipeline(
        &self,
        pipeline: &Pipeline,
        terms: PipelineTerms,
    ) -> Result<(Vec<CommandReply>, Replication), SendError> {
        let PipelineTerms { timeout, deadline, purpose } = terms;
        if self.breaker.state() == BreakerState::Open {
            return Err(SendError::Away);
        }
        let Ok(Ok(_permit)) = timeout_at(deadline, self.in_flight.acquire()).await else {
            return Err(SendError::Overloaded);
        };
        // Read before the wait: a failure of this wait must not count against a connection that opens just
        // afterwards.
        let generation = self.breaker.generation();
        let Some(live) = self.live_by(deadline).await else {
            self.record_failure(generation, "there is no connection to it");
            return Err(SendError::Away);
        };
        // The caller is gone, so the plan would be charged for nothing.
        if Instant::now() >= deadline {
            return Err(SendError::Overloaded);
        }
        self.count(|counters| &counters.pipelines, 1);
        self.count(|counters| &counters.commands, pipeline.len());
        match timeout_at(deadline, self.send_replicated(&live.connection, pipeline, deadline)).await {
            Ok(Ok((values, replication))) => {
                let replies: Vec<_> = values.into_iter().map(CommandReply::from_value).collect();
                self.assess_replies(&live, &replies, purpose);
                Ok((replies, replication))
            }
            Ok(Err(error)) => {
                self.drop_connection(live.generation);
                self.record_failure(live.generation, format_args!("the connection broke ({error})"));
                Err(SendError::NoReply)
            }
            Err(_) => {
                self.record_failure(live.generation, format_args!("no reply within {timeout:?}"));
                Err(SendError::NoReply)
            }
        }
    }

    /// Waits for a connection that is not known to be broken.
    async fn live_by(&self, deadline: Instant) -> Option<LiveConnection> {
        let working = |live: &Option<LiveConnection>| {
            live.as_ref().filter(|live| !live.connection.is_broken()).cloned()
        };
        if let Some(live) = working(&self.live.borrow()) {
            return Some(live);
        }
        let mut live_changes = self.subscribe_live();
        loop {
            if let Some(live) = working(&live_changes.borrow_and_update()) {
                return Some(live);
            }
            if self.breaker.state() == BreakerState::Open {
                return None;
            }
            timeout_at(deadline, live_changes.changed()).await.ok()?.ok()?;
        }
    }

    /// What the replies say about the whole server.
    fn assess_replies(&self, live: &LiveConnection, replies: &[CommandReply], purpose: PipelinePurpose) {
        let mut worst = None;
        for reply in replies {
            let CommandReply::Refused(refusal) = reply else { continue };
            self.count(|counters| &counters.refused, 1);
            match refusal.scope {
                RefusalScope::Command => {}
                RefusalScope::Slot => self.request_refresh(),
                RefusalScope::Writes => {
                    self.record_write_refusal(&refusal.text);
                    // A master that is cut off from its replicas may have a successor.
                    self.request_refresh();
                }
                RefusalScope::Permission if purpose != PipelinePurpose::Decisions => {}
                RefusalScope::Permission | RefusalScope::Server | RefusalScope::Master => {
                    worst = Some(refusal);
                }
            }
        }
        match worst {
            None => self.breaker.record_success(live.generation),
            Some(refusal) => {
                if refusal.scope == RefusalScope::Master {
                    self.drop_connection(live.generation);
                }
                self.record_failure(live.generation, &refusal.text);
            }
        }
    }

    /// A failure of the whole server.
    pub fn record_failure(&self, generation: Generation, reason: impl fmt::Display) {
        self.count(|counters| &counters.failures, 1);
        if self.breaker.record_failure(generation) == BreakerChange::Opened {
            self.on_breaker_opened(generation, reason);
        }
        self.request_refresh();
    }

    /// The server is not used until it is connected. No event is sent unless an attempt to connect fails.
    pub fn start_open(&self) {
        self.breaker.force_open();
    }

    /// The first attempt to connect failed.
    pub fn open_breaker(&self, error: &ConnectError) {
        self.breaker.force_open();
        self.record_connect_error(error);
    }

    /// An attempt to connect in the background failed.
    pub fn connect_failed(&self, error: &ConnectError) {
        self.count(|counters| &counters.failures, 1);
        let generation = self.breaker.generation();
        self.breaker.record_failure(generation);
        self.record_connect_error(error);
        self.request_refresh();
    }

    /// Records why an attempt to connect failed, and reports it if it is new and the breaker is open.
    fn record_connect_error(&self, error: &ConnectError) {
        self.attempts.record_failure(error);
        if self.breaker.state() == BreakerState::Closed {
            return;
        }
        self.wake_waiters(self.breaker.generation());
        let reason = || error.reason().into_boxed_str();
        let report = self
            .report_if(BreakerState::Open, |address| StoreEvent::BreakerOpened { address, reason: reason() });
        let novelty = self.attempts.record_reported(error);
        if report == EventReport::AlreadySent && novelty == Novelty::New {
            self.config.emit(StoreEvent::ConnectFailed {
                address: self.address().to_string().into(),
                reason: reason(),
            });
        }
    }

    /// A failure of this connection opened the breaker. A newer connection may exist by now, and stays in
    /// use.
    fn on_breaker_opened(&self, generation: Generation, reason: impl fmt::Display) {
        self.wake_waiters(generation);
        self.report_if(BreakerState::Open, |address| StoreEvent::BreakerOpened {
            address,
            reason: reason.to_string().into(),
        });
    }

    /// Wakes tasks that wait for a connection, because none will come.
    fn wake_waiters(&self, generation: Generation) {
        self.live.send_if_modified(|live| {
            live.take_if(|live| live.generation == generation).is_some() || live.is_none()
        });
    }

    /// Reports the state of the breaker, if it is still current and was not reported last.
    fn report_if(&self, state: BreakerState, event: impl FnOnce(Box<str>) -> StoreEvent) -> EventReport {
        // Locked during the report, so the last report is the current state.
        let mut last_reported = self.last_reported.lock().unwrap_or_else(PoisonError::into_inner);
        if self.breaker.state() != state {
            return EventReport::StateChanged;
        }
        if *last_reported == state {
            return EventReport::AlreadySent;
        }
        *last_reported = state;
        self.config.emit(event(self.address().to_string().into()));
        EventReport::Sent
    }

    fn request_refresh(&self) {
        if let Membership::Cluster { refresh_needed, .. } = &self.membership {
            refresh_needed.notify_one();
        }
    }

    /// Drops this connection if it is still in use. Tasks that wait for its replies keep it.
    pub fn drop_connection(&self, generation: Generation) {
        self.live.send_if_modified(|live| live.take_if(|live| live.generation == generation).is_some());
    }

    /// Connects, and uses the new connection from now on.
    pub async fn connect(&self, timeouts: ConnectTimeouts) -> Result<(), ConnectError> {
        let (address, connection) = probe::connect(self, timeouts).await?;
        let to_text = |address: &Address| address.to_string().into_boxed_str();
        let generation = self.breaker.next_generation();
        let before = std::mem::replace(
            &mut *self.address.lock().unwrap_or_else(PoisonError::into_inner),
            address.clone(),
        );
        let is_first = generation == Generation::FIRST;
        self.live.send_replace(Some(LiveConnection { connection, generation }));
        if !is_first {
            self.count(|counters| &counters.reconnects, 1);
        }
        if !is_first && before != address {
            self.config.emit(StoreEvent::MasterChanged { from: to_text(&before), to: to_text(&address) });
        }
        self.attempts.record_success();
        self.report_if(BreakerState::Closed, |address| StoreEvent::BreakerClosed { address });
        Ok(())
    }
}

/// Whether the state of the breaker was reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventReport {
    Sent,
    AlreadySent,
    /// The breaker is in another state.
    StateChanged,
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::{
        AddressSource, BreakerChange, ClientConfig, ConnectError, ConnectTimeouts, Membership, Server,
        StoreEvent,
    };
    use crate::redis::testing::RedisProcess;
    use crate::redis::{BreakerState, ConnectErrorKind as Kind, EventHook, RedisSettings};

    #[tokio::test]
    async fn a_late_failure_does_not_affect_a_newer_connection() {
        let redis = RedisProcess::start();
        let events = Arc::new(Mutex::new(Vec::new()));
        let mut settings = RedisSettings::new(redis.url().parse().expect("a URL"));
        let log = events.clone();
        settings.on_event = Some(EventHook::new(move |event| log.lock().expect("a lock").push(event)));
        let config = Arc::new(ClientConfig::new(&settings, &[]).expect("a config"));
        let server = Server::new(
            config,
            AddressSource::Fixed(settings.url.first_address().clone()),
            Membership::Standalone,
        );
        server.connect(ConnectTimeouts::Startup).await.expect("a connection");

        let old = server.breaker.generation();
        let effects = [(); 3].map(|()| server.breaker.record_failure(old));
        assert_eq!(effects, [BreakerChange::None, BreakerChange::None, BreakerChange::Opened]);
        server.connect(ConnectTimeouts::Startup).await.expect("another connection");
        server.on_breaker_opened(old, "late");
        assert!(server.subscribe_live().borrow().is_some(), "the new connection is in use");
        assert_eq!(server.breaker.state(), BreakerState::Closed);
        assert_eq!(*events.lock().expect("a lock"), [], "the server is up, and no event said otherwise");

        server.open_breaker(&ConnectError::new(Kind::Unreachable, redis.address(), "away", "wait"));
        assert!(server.subscribe_live().borrow().is_none());
        server.connect(ConnectTimeouts::Startup).await.expect("another connection");
        let address = redis.address().into_boxed_str();
        let opened =
            StoreEvent::BreakerOpened { address: address.clone(), reason: "away (hint: wait)".into() };
        assert_eq!(*events.lock().expect("a lock"), [opened, StoreEvent::BreakerClosed { address }]);
    }
}
