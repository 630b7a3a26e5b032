//! A connection on which nothing is asked: it is told to go, or, if calls are open on it, to say that it is there.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::server::Connection as H2;
use h2::{Ping, PingPong};
use tokio::time::{Sleep, sleep};

use crate::serve::Bounds;
use crate::serve::listening::Stream;
use crate::serve::when_woken::PollOnWake;

/// Notices that nothing is asked. It looks at the clock once in a while and not for each stream, so it may take up to
/// twice the time.
///
/// A client that went away without a word, as when its machine lost power, would else keep its connection for as long as
/// a call of its is open; and who watches the server's health waits for no answer.
pub struct IdleMonitor {
    bounds: Bounds,
    timer: PollOnWake<Pin<Box<Sleep>>>,
    phase: IdlePhase,
    /// How many streams have arrived.
    streams_total: u64,
    /// How many had when the timer was set.
    streams_at_reset: u64,
    /// Asks whether the client is there. Taken when it is first needed, for it costs a little with every poll.
    ping: Option<PingPong>,
}

/// Until when the timer runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IdlePhase {
    /// Nothing was asked for long.
    NoRequests,
    /// The client has not said for long that it is there.
    AwaitingPong,
    /// The client was told to go, and has not gone.
    AwaitingClose,
}

/// What is to be done about it.
pub enum IdleAction {
    /// Nothing, now.
    Nothing,
    /// The client is asked whether it is there, which is to be sent.
    PingSent,
    /// The client is to be told to go.
    GoAway,
    /// The connection is to be closed.
    Close,
}

/// Whether a connection has calls that are not answered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OpenCalls {
    /// It has.
    Some,
    /// It has not.
    None,
}

impl IdleMonitor {
    /// Of a connection that begins.
    pub fn new(bounds: Bounds) -> Self {
        let timer = PollOnWake::new(Box::pin(sleep(bounds.idle_timeout)));
        Self { bounds, timer, phase: IdlePhase::NoRequests, streams_total: 0, streams_at_reset: 0, ping: None }
    }

    /// So many streams arrived.
    pub fn record_streams(&mut self, streams: usize) {
        self.streams_total += streams as u64;
    }

    /// Looks whether it is time to do anything.
    pub fn poll(&mut self, h2: &mut H2<Stream, Bytes>, open: OpenCalls, context: &mut Context<'_>) -> IdleAction {
        if self.phase == IdlePhase::AwaitingPong
            && let Some(ping) = &mut self.ping
        {
            match ping.poll_pong(context) {
                Poll::Ready(Ok(_)) => self.enter(IdlePhase::NoRequests),
                Poll::Ready(Err(_)) => return IdleAction::Close,
                Poll::Pending => {}
            }
        }
        // A timer that was set is asked, for it to wake the task.
        while self.timer.poll(context).is_ready() {
            let is_asked = self.streams_total > self.streams_at_reset;
            match (self.phase, open) {
                // There is still one answer to come.
                (IdlePhase::AwaitingPong, _) if is_asked => self.enter(IdlePhase::AwaitingPong),
                (IdlePhase::NoRequests | IdlePhase::AwaitingClose, _) if is_asked => self.enter(IdlePhase::NoRequests),
                (IdlePhase::NoRequests | IdlePhase::AwaitingClose, OpenCalls::Some) => {
                    if self.ping.is_none() {
                        self.ping = h2.ping_pong();
                    }
                    let asked = self.ping.as_mut().map(|ping| ping.send_ping(Ping::opaque()));
                    self.enter(IdlePhase::AwaitingPong);
                    return if let Some(Ok(())) = asked { IdleAction::PingSent } else { IdleAction::Close };
                }
                (IdlePhase::NoRequests, OpenCalls::None) => {
                    self.enter(IdlePhase::AwaitingClose);
                    return IdleAction::GoAway;
                }
                (IdlePhase::AwaitingPong, _) | (IdlePhase::AwaitingClose, OpenCalls::None) => return IdleAction::Close,
            }
        }
        IdleAction::Nothing
    }

    fn enter(&mut self, until: IdlePhase) {
        self.streams_at_reset = self.streams_total;
        self.phase = until;
        let time = match until {
            IdlePhase::NoRequests => self.bounds.idle_timeout,
            IdlePhase::AwaitingPong | IdlePhase::AwaitingClose => self.bounds.header_timeout,
        };
        self.timer.future_mut().set(sleep(time));
    }
}
