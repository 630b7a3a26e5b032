//! One server: its connection, its breaker, and rounds of commands.

use std::fmt;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use redis::Pipeline;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{Instant, timeout_at};

use super::attempts::{Attempts, News};
use super::breaker::{Breaker, Effect, Generation};
use super::connect_error::ConnectError;
use super::connection::Connection;
use super::event::StoreEvent;
use super::finder::Finder;
use super::means::Means;
use super::reply::{Concerns, Reply};
use super::sent::SendError;
use super::stats::{BreakerState, Counters, ServerStats};
use crate::redis::url::Address;

/// The most rounds that are in flight to one server, and waited for: of those that nobody waits for any more there are fewer
/// than the breaker counts. There are seldom more than a few, since what comes meanwhile is gathered into the next one.
const ROUNDS_IN_FLIGHT_MAX: usize = 32;

/// One server. A [`keep`](super::keeper::keep) looks after its connection.
pub(super) struct Server {
    pub means: Arc<Means>,
    pub finder: Finder,
    pub part: Part,
    pub breaker: Breaker,
    /// Where it was when it was last found.
    address: Mutex<Address>,
    line: watch::Sender<Option<Line>>,
    /// What was told last of the breaker.
    told: Mutex<BreakerState>,
    rounds: Semaphore,
    attempts: Attempts,
    counters: Counters,
}

/// What a server is part of.
pub(super) enum Part {
    /// Nothing: it has all keys, or all that a ring gives it.
    Alone,
    OfCluster {
        /// One of the slots that it has.
        slot: AtomicU16,
        /// Who finds out who has which slot, if this server does not answer.
        worried: Arc<Notify>,
    },
}

/// The connection in use.
#[derive(Clone)]
pub(super) struct Line {
    pub connection: Connection,
    pub generation: Generation,
}

impl Server {
    pub fn new(means: Arc<Means>, finder: Finder, part: Part) -> Arc<Self> {
        Arc::new(Self {
            address: Mutex::new(finder.first_guess()),
            means,
            finder,
            part,
            breaker: Breaker::default(),
            line: watch::Sender::new(None),
            told: Mutex::new(BreakerState::Closed),
            rounds: Semaphore::new(ROUNDS_IN_FLIGHT_MAX),
            attempts: Attempts::default(),
            counters: Counters::default(),
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

    pub fn count(&self, counter: impl Fn(&Counters) -> &AtomicU64, number: usize) {
        let number = number as u64;
        counter(&self.counters).fetch_add(number, Relaxed);
        counter(&self.means.total).fetch_add(number, Relaxed);
    }

    /// The connection in use, if there is one, and changes of it.
    pub fn lines(&self) -> watch::Receiver<Option<Line>> {
        self.line.subscribe()
    }

    /// Sends commands as one pipeline. There is a reply for each of them, or none was sent, or nobody knows.
    pub async fn round(&self, pipeline: &Pipeline, deadline: Instant) -> Result<Vec<Reply>, SendError> {
        if self.breaker.state() == BreakerState::Open {
            return Err(SendError::Away);
        }
        let Ok(Ok(_permit)) = timeout_at(deadline, self.rounds.acquire()).await else {
            return Err(SendError::Crowded);
        };
        // What is waited for in vain says nothing about a connection that is made just afterwards.
        let generation = self.breaker.generation();
        let Some(line) = self.line_by(deadline).await else {
            self.failed(generation, "there is no connection to it");
            return Err(SendError::Away);
        };
        // Whoever asked has gone: it would be charged for nothing.
        if Instant::now() >= deadline {
            return Err(SendError::Crowded);
        }
        self.count(|counters| &counters.rounds, 1);
        self.count(|counters| &counters.commands, pipeline.len());
        match timeout_at(deadline, line.connection.ask(pipeline)).await {
            Ok(Ok(values)) => {
                let replies: Vec<_> = values.into_iter().map(Reply::of).collect();
                self.judge(&line, &replies);
                Ok(replies)
            }
            Ok(Err(error)) => {
                self.let_go(line.generation);
                self.failed(line.generation, format_args!("the connection broke ({error})"));
                Err(SendError::Lost)
            }
            Err(_) => {
                self.failed(line.generation, format_args!("no reply within {:?}", self.means.timeout));
                Err(SendError::Lost)
            }
        }
    }

    /// A connection that works as far as is known, as soon as there is one.
    async fn line_by(&self, deadline: Instant) -> Option<Line> {
        let working =
            |line: &Option<Line>| line.as_ref().filter(|line| !line.connection.is_broken()).cloned();
        if let Some(line) = working(&self.line.borrow()) {
            return Some(line);
        }
        let mut lines = self.lines();
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
    fn judge(&self, line: &Line, replies: &[Reply]) {
        let mut worst = None;
        for reply in replies {
            let Reply::Refused(refusal) = reply else { continue };
            self.count(|counters| &counters.refused, 1);
            match refusal.concerns {
                Concerns::Command => {}
                Concerns::Slot => self.worry(),
                Concerns::Server | Concerns::Master => worst = Some(refusal),
            }
        }
        match worst {
            None => self.breaker.succeeded(line.generation),
            Some(refusal) => {
                if refusal.concerns == Concerns::Master {
                    self.let_go(line.generation);
                }
                self.failed(line.generation, &refusal.text);
            }
        }
    }

    /// A failure of the server as a whole.
    pub fn failed(&self, generation: Generation, why: impl fmt::Display) {
        self.count(|counters| &counters.failures, 1);
        if self.breaker.failed(generation) == Effect::Opened {
            self.opened(generation, why);
        }
        self.worry();
    }

    /// It is not asked before it is connected. Nothing is told of that unless an attempt to connect fails.
    pub fn start_away(&self) {
        self.breaker.open();
    }

    /// It could not be connected to at the start.
    pub fn open(&self, error: &ConnectError) {
        self.breaker.open();
        self.away(error);
    }

    /// It could not be connected to in the background.
    pub fn could_not_connect(&self, error: &ConnectError) {
        self.count(|counters| &counters.failures, 1);
        let generation = self.breaker.generation();
        self.breaker.failed(generation);
        self.away(error);
        self.worry();
    }

    /// Notes why an attempt to connect failed, and tells what is new of it if the breaker is open.
    fn away(&self, error: &ConnectError) {
        self.attempts.failed(error);
        if self.breaker.state() == BreakerState::Closed {
            return;
        }
        self.let_waiting_go(self.breaker.generation());
        let why = || error.reason().into_boxed_str();
        let telling = self.tell_if(BreakerState::Open, |address| StoreEvent::Opened { address, why: why() });
        let news = self.attempts.told(error);
        if telling == Telling::Before && news == News::Yes {
            self.means
                .tell(StoreEvent::ConnectFailed { address: self.address().to_string().into(), why: why() });
        }
    }

    /// The breaker was opened by a failure of this connection. There may be another one by now, which is none of its business.
    fn opened(&self, generation: Generation, why: impl fmt::Display) {
        self.let_waiting_go(generation);
        self.tell_if(BreakerState::Open, |address| StoreEvent::Opened {
            address,
            why: why.to_string().into(),
        });
    }

    /// Those who wait for a connection see that none will come.
    fn let_waiting_go(&self, generation: Generation) {
        self.line.send_if_modified(|line| {
            line.take_if(|line| line.generation == generation).is_some() || line.is_none()
        });
    }

    /// Tells that the breaker is so, if it still is and that is not what was told last.
    fn tell_if(&self, state: BreakerState, event: impl FnOnce(Box<str>) -> StoreEvent) -> Telling {
        // Held while it is told, so that the last word is what is so.
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if self.breaker.state() != state {
            return Telling::NotSo;
        }
        if *told == state {
            return Telling::Before;
        }
        *told = state;
        self.means.tell(event(self.address().to_string().into()));
        Telling::Now
    }

    fn worry(&self) {
        if let Part::OfCluster { worried, .. } = &self.part {
            worried.notify_one();
        }
    }

    /// Does without this connection from now on, if it is still the one in use. Those who wait for replies keep it.
    pub fn let_go(&self, generation: Generation) {
        self.line.send_if_modified(|line| line.take_if(|line| line.generation == generation).is_some());
    }

    /// Connects, and uses that connection from now on.
    pub async fn connect(&self, patience: super::probe::Patience) -> Result<(), ConnectError> {
        let (address, connection) = super::probe::connect(self, patience).await?;
        let shown = |address: &Address| address.to_string().into_boxed_str();
        let generation = self.breaker.renew();
        let before = std::mem::replace(
            &mut *self.address.lock().unwrap_or_else(PoisonError::into_inner),
            address.clone(),
        );
        let is_first = generation == Generation::FIRST;
        self.line.send_replace(Some(Line { connection, generation }));
        if !is_first {
            self.count(|counters| &counters.reconnects, 1);
        }
        if !is_first && before != address {
            self.means.tell(StoreEvent::MasterChanged { from: shown(&before), to: shown(&address) });
        }
        self.attempts.succeeded();
        self.tell_if(BreakerState::Closed, |address| StoreEvent::Closed { address });
        Ok(())
    }
}

/// Whether a state of the breaker was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Telling {
    Now,
    Before,
    /// The breaker is in another state.
    NotSo,
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::{ConnectError, Effect, Finder, Means, Part, Server, StoreEvent};
    use crate::redis::ConnectErrorKind as Kind;
    use crate::redis::servers::EventHook;
    use crate::redis::servers::probe::Patience;
    use crate::redis::testing::RedisProcess;
    use crate::redis::{BreakerState, RedisSettings};

    #[tokio::test]
    async fn a_failure_that_is_told_late_takes_nothing_from_the_connection_that_came_after_it() {
        let redis = RedisProcess::start();
        let told = Arc::new(Mutex::new(Vec::new()));
        let mut settings = RedisSettings::new(redis.url().parse().expect("a URL"));
        let hook = told.clone();
        settings.on_event = Some(EventHook::new(move |event| hook.lock().expect("a lock").push(event)));
        let means = Arc::new(Means::new(&settings, &[]).expect("means"));
        let server = Server::new(means, Finder::At(settings.url.first().clone()), Part::Alone);
        server.connect(Patience::AtStart).await.expect("a connection");

        let old = server.breaker.generation();
        let effects = [(); 3].map(|()| server.breaker.failed(old));
        assert_eq!(effects, [Effect::None, Effect::None, Effect::Opened]);
        server.connect(Patience::AtStart).await.expect("another connection");
        server.opened(old, "late");
        assert!(server.lines().borrow().is_some(), "the new connection is in use");
        assert_eq!(server.breaker.state(), BreakerState::Closed);
        assert_eq!(*told.lock().expect("a lock"), [], "it is there, and nobody was told otherwise");

        server.open(&ConnectError::new(Kind::Unreachable, redis.address(), "away", "wait"));
        assert!(server.lines().borrow().is_none());
        server.connect(Patience::AtStart).await.expect("another connection");
        let address = redis.address().into_boxed_str();
        let opened = StoreEvent::Opened { address: address.clone(), why: "away (hint: wait)".into() };
        assert_eq!(*told.lock().expect("a lock"), [opened, StoreEvent::Closed { address }]);
    }
}
