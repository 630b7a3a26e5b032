//! One server: its connection, its breaker, and rounds of commands.

use std::fmt;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use redis::Pipeline;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{Instant, timeout_at};

use super::attempts::{ConnectAttempts, Novelty};
use super::breaker::{Breaker, BreakerChange, Generation};
use super::connect_error::ConnectError;
use super::connection::Connection;
use super::event::StoreEvent;
use super::finder::AddressSource;
use super::means::ClientConfig;
use super::reply::{RefusalScope, CommandReply};
use super::sent::SendError;
use super::stats::{BreakerState, ServerCounters, ServerStats};
use crate::redis::url::Address;

/// The most rounds that are in flight to one server, and waited for: of those that nobody waits for any more there are fewer
/// than the breaker counts. There are seldom more than a few, since what comes meanwhile is gathered into the next one.
const PIPELINES_IN_FLIGHT_MAX: usize = 32;

/// One server. A [`keep`](super::keeper::keep) looks after its connection.
pub(super) struct Server {
    pub config: Arc<ClientConfig>,
    pub address_source: AddressSource,
    pub membership: Membership,
    pub breaker: Breaker,
    /// Where it was when it was last found.
    address: Mutex<Address>,
    live: watch::Sender<Option<LiveConnection>>,
    /// What was told last of the breaker.
    last_reported: Mutex<BreakerState>,
    in_flight: Semaphore,
    attempts: ConnectAttempts,
    counters: ServerCounters,
}

/// What a server is part of.
pub(super) enum Membership {
    /// Nothing: it has all keys, or all that a ring gives it.
    Standalone,
    Cluster {
        /// One of the slots that it has.
        slot: AtomicU16,
        /// Who finds out who has which slot, if this server does not answer.
        refresh_needed: Arc<Notify>,
    },
}

/// The connection in use.
#[derive(Clone)]
pub(super) struct LiveConnection {
    pub connection: Connection,
    pub generation: Generation,
}

impl Server {
    pub fn new(means: Arc<ClientConfig>, finder: AddressSource, part: Membership) -> Arc<Self> {
        Arc::new(Self {
            address: Mutex::new(finder.initial_address()),
            config: means,
            address_source: finder,
            membership: part,
            breaker: Breaker::default(),
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
            connect_error: self.attempts.last_error(),
            counts: self.counters.snapshot(),
        }
    }

    pub fn count(&self, counter: impl Fn(&ServerCounters) -> &AtomicU64, number: usize) {
        let number = number as u64;
        counter(&self.counters).fetch_add(number, Relaxed);
        counter(&self.config.total_counters).fetch_add(number, Relaxed);
    }

    /// The connection in use, if there is one, and changes of it.
    pub fn subscribe_live(&self) -> watch::Receiver<Option<LiveConnection>> {
        self.live.subscribe()
    }

    /// Sends commands as one pipeline. There is a reply for each of them, or none was sent, or nobody knows.
    pub async fn send_pipeline(&self, pipeline: &Pipeline, deadline: Instant) -> Result<Vec<CommandReply>, SendError> {
        if self.breaker.state() == BreakerState::Open {
            return Err(SendError::Away);
        }
        let Ok(Ok(_permit)) = timeout_at(deadline, self.in_flight.acquire()).await else {
            return Err(SendError::Overloaded);
        };
        // What is waited for in vain says nothing about a connection that is made just afterwards.
        let generation = self.breaker.generation();
        let Some(line) = self.live_by(deadline).await else {
            self.record_failure(generation, "there is no connection to it");
            return Err(SendError::Away);
        };
        // Whoever asked has gone: it would be charged for nothing.
        if Instant::now() >= deadline {
            return Err(SendError::Overloaded);
        }
        self.count(|counters| &counters.pipelines, 1);
        self.count(|counters| &counters.commands, pipeline.len());
        match timeout_at(deadline, line.connection.send(pipeline)).await {
            Ok(Ok(values)) => {
                let replies: Vec<_> = values.into_iter().map(CommandReply::from_value).collect();
                self.assess_replies(&line, &replies);
                Ok(replies)
            }
            Ok(Err(error)) => {
                self.drop_connection(line.generation);
                self.record_failure(line.generation, format_args!("the connection broke ({error})"));
                Err(SendError::NoReply)
            }
            Err(_) => {
                self.record_failure(line.generation, format_args!("no reply within {:?}", self.config.timeout));
                Err(SendError::NoReply)
            }
        }
    }

    /// A connection that works as far as is known, as soon as there is one.
    async fn live_by(&self, deadline: Instant) -> Option<LiveConnection> {
        let working =
            |line: &Option<LiveConnection>| line.as_ref().filter(|line| !line.connection.is_broken()).cloned();
        if let Some(line) = working(&self.live.borrow()) {
            return Some(line);
        }
        let mut lines = self.subscribe_live();
        loop {
            if let Some(line) = working(&lines.borrow_and_update()) {
                return Some(line);
            }
            if self.breaker.state() == BreakerState::Open {
                return None;
            }
            timeout_at(deadline, lines.changed()).await.ok()?.ok()?;
        }
    }

    /// What the replies say of the server as a whole.
    fn assess_replies(&self, line: &LiveConnection, replies: &[CommandReply]) {
        let mut worst = None;
        for reply in replies {
            let CommandReply::Refused(refusal) = reply else { continue };
            self.count(|counters| &counters.refused, 1);
            match refusal.scope {
                RefusalScope::Command => {}
                RefusalScope::Slot => self.request_refresh(),
                RefusalScope::Server | RefusalScope::Master => worst = Some(refusal),
            }
        }
        match worst {
            None => self.breaker.record_success(line.generation),
            Some(refusal) => {
                if refusal.scope == RefusalScope::Master {
                    self.drop_connection(line.generation);
                }
                self.record_failure(line.generation, &refusal.text);
            }
        }
    }

    /// A failure of the server as a whole.
    pub fn record_failure(&self, generation: Generation, why: impl fmt::Display) {
        self.count(|counters| &counters.failures, 1);
        if self.breaker.record_failure(generation) == BreakerChange::Opened {
            self.on_breaker_opened(generation, why);
        }
        self.request_refresh();
    }

    /// It is not asked before it is connected. Nothing is told of that unless an attempt to connect fails.
    pub fn start_open(&self) {
        self.breaker.force_open();
    }

    /// It could not be connected to at the start.
    pub fn open_breaker(&self, error: &ConnectError) {
        self.breaker.force_open();
        self.record_connect_error(error);
    }

    /// It could not be connected to in the background.
    pub fn connect_failed(&self, error: &ConnectError) {
        self.count(|counters| &counters.failures, 1);
        let generation = self.breaker.generation();
        self.breaker.record_failure(generation);
        self.record_connect_error(error);
        self.request_refresh();
    }

    /// Notes why an attempt to connect failed, and tells what is new of it if the breaker is open.
    fn record_connect_error(&self, error: &ConnectError) {
        self.attempts.record_failure(error);
        if self.breaker.state() == BreakerState::Closed {
            return;
        }
        self.wake_waiters(self.breaker.generation());
        let why = || error.reason().into_boxed_str();
        let telling = self.report_if(BreakerState::Open, |address| StoreEvent::BreakerOpened { address, reason: why() });
        let news = self.attempts.record_reported(error);
        if telling == EventReport::AlreadySent && news == Novelty::New {
            self.config
                .emit(StoreEvent::ConnectFailed { address: self.address().to_string().into(), reason: why() });
        }
    }

    /// The breaker was opened by a failure of this connection. There may be another one by now, which is none of its business.
    fn on_breaker_opened(&self, generation: Generation, why: impl fmt::Display) {
        self.wake_waiters(generation);
        self.report_if(BreakerState::Open, |address| StoreEvent::BreakerOpened {
            address,
            reason: why.to_string().into(),
        });
    }

    /// Those who wait for a connection see that none will come.
    fn wake_waiters(&self, generation: Generation) {
        self.live.send_if_modified(|line| {
            line.take_if(|line| line.generation == generation).is_some() || line.is_none()
        });
    }

    /// Tells that the breaker is so, if it still is and that is not what was told last.
    fn report_if(&self, state: BreakerState, event: impl FnOnce(Box<str>) -> StoreEvent) -> EventReport {
        // Held while it is told, so that the last word is what is so.
        let mut told = self.last_reported.lock().unwrap_or_else(PoisonError::into_inner);
        if self.breaker.state() != state {
            return EventReport::StateChanged;
        }
        if *told == state {
            return EventReport::AlreadySent;
        }
        *told = state;
        self.config.emit(event(self.address().to_string().into()));
        EventReport::Sent
    }

    fn request_refresh(&self) {
        if let Membership::Cluster { refresh_needed: worried, .. } = &self.membership {
            worried.notify_one();
        }
    }

    /// Does without this connection from now on, if it is still the one in use. Those who wait for replies keep it.
    pub fn drop_connection(&self, generation: Generation) {
        self.live.send_if_modified(|line| line.take_if(|line| line.generation == generation).is_some());
    }

    /// Connects, and uses that connection from now on.
    pub async fn connect(&self, patience: super::probe::ConnectTimeouts) -> Result<(), ConnectError> {
        let (address, connection) = super::probe::connect(self, patience).await?;
        let shown = |address: &Address| address.to_string().into_boxed_str();
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
            self.config.emit(StoreEvent::MasterChanged { from: shown(&before), to: shown(&address) });
        }
        self.attempts.record_success();
        self.report_if(BreakerState::Closed, |address| StoreEvent::BreakerClosed { address });
        Ok(())
    }
}

/// Whether a state of the breaker was told.
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

    use super::{ConnectError, BreakerChange, AddressSource, ClientConfig, Membership, Server, StoreEvent};
    use crate::redis::ConnectErrorKind as Kind;
    use crate::redis::servers::EventHook;
    use crate::redis::servers::probe::ConnectTimeouts;
    use crate::redis::testing::RedisProcess;
    use crate::redis::{BreakerState, RedisSettings};

    #[tokio::test]
    async fn a_late_failure_does_not_affect_a_newer_connection() {
        let redis = RedisProcess::start();
        let told = Arc::new(Mutex::new(Vec::new()));
        let mut settings = RedisSettings::new(redis.url().parse().expect("a URL"));
        let hook = told.clone();
        settings.on_event = Some(EventHook::new(move |event| hook.lock().expect("a lock").push(event)));
        let means = Arc::new(ClientConfig::new(&settings, &[]).expect("means"));
        let server = Server::new(means, AddressSource::Fixed(settings.url.first_address().clone()), Membership::Standalone);
        server.connect(ConnectTimeouts::Startup).await.expect("a connection");

        let old = server.breaker.generation();
        let effects = [(); 3].map(|()| server.breaker.record_failure(old));
        assert_eq!(effects, [BreakerChange::None, BreakerChange::None, BreakerChange::Opened]);
        server.connect(ConnectTimeouts::Startup).await.expect("another connection");
        server.on_breaker_opened(old, "late");
        assert!(server.subscribe_live().borrow().is_some(), "the new connection is in use");
        assert_eq!(server.breaker.state(), BreakerState::Closed);
        assert_eq!(*told.lock().expect("a lock"), [], "it is there, and nobody was told otherwise");

        server.open_breaker(&ConnectError::new(Kind::Unreachable, redis.address(), "away", "wait"));
        assert!(server.subscribe_live().borrow().is_none());
        server.connect(ConnectTimeouts::Startup).await.expect("another connection");
        let address = redis.address().into_boxed_str();
        let opened = StoreEvent::BreakerOpened { address: address.clone(), reason: "away (hint: wait)".into() };
        assert_eq!(*told.lock().expect("a lock"), [opened, StoreEvent::BreakerClosed { address }]);
    }
}
