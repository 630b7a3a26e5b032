//! Handles connections without new requests: one without open calls is closed, one with open calls is pinged.

use std::pin::Pin;
use std::task::{Context, Poll};

use h2::server::Connection as H2;
use h2::{Ping, PingPong};
use tokio::time::{Sleep, sleep};

use super::unsent::ResponseBytes;
use crate::serve::Bounds;
use crate::serve::listen::Stream;
use crate::serve::poll_on_wake::PollOnWake;

/// Detects that no requests arrive. The timer is not reset for each stream, so this takes up to twice the timeout.
///
/// A client may vanish without closing its connection, for example when its machine loses power. A connection with open
/// calls would then stay forever: a client that watches the server's health sends nothing while it waits.
pub struct IdleMonitor {
    bounds: Bounds,
    timer: PollOnWake<Pin<Box<Sleep>>>,
    phase: IdlePhase,
    /// Streams that have arrived.
    streams_total: u64,
    /// The value of `streams_total` when the timer was set.
    streams_at_reset: u64,
    /// Sends pings. Created when first needed, because it makes every poll of the connection a little slower.
    ping: Option<PingPong>,
}

/// What the timer waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IdlePhase {
    /// No requests within the idle timeout.
    NoRequests,
    /// No reply to the ping.
    AwaitingPong,
    /// GOAWAY was sent, and the client has not closed the connection.
    AwaitingClose,
}

/// What the connection has to do.
pub enum IdleAction {
    Nothing,
    /// A ping was queued and has to be written.
    PingSent,
    /// Send GOAWAY.
    GoAway,
    /// Close the connection.
    Close,
}

/// Whether a connection has unanswered calls.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OpenCalls {
    Some,
    None,
}

impl IdleMonitor {
    /// For a new connection.
    pub fn new(bounds: Bounds) -> Self {
        let timer = PollOnWake::new(Box::pin(sleep(bounds.idle_timeout)));
        Self {
            bounds,
            timer,
            phase: IdlePhase::NoRequests,
            streams_total: 0,
            streams_at_reset: 0,
            ping: None,
        }
    }

    /// Counts new streams.
    pub fn record_streams(&mut self, streams: usize) {
        self.streams_total += streams as u64;
    }

    /// Polls the timer and the ping.
    pub fn poll(
        &mut self,
        h2: &mut H2<Stream, ResponseBytes>,
        open: OpenCalls,
        context: &mut Context<'_>,
    ) -> IdleAction {
        if self.phase == IdlePhase::AwaitingPong
            && let Some(ping) = &mut self.ping
        {
            match ping.poll_pong(context) {
                Poll::Ready(Ok(_)) => self.enter(IdlePhase::NoRequests),
                Poll::Ready(Err(_)) => return IdleAction::Close,
                Poll::Pending => {}
            }
        }
        // Poll the timer again after setting it, so that it wakes the task.
        while self.timer.poll(context).is_ready() {
            let has_new_streams = self.streams_total > self.streams_at_reset;
            match (self.phase, open) {
                // The client is alive, but its pong is still due.
                (IdlePhase::AwaitingPong, _) if has_new_streams => self.enter(IdlePhase::AwaitingPong),
                (IdlePhase::NoRequests | IdlePhase::AwaitingClose, _) if has_new_streams => {
                    self.enter(IdlePhase::NoRequests);
                }
                (IdlePhase::NoRequests | IdlePhase::AwaitingClose, OpenCalls::Some) => {
                    if self.ping.is_none() {
                        self.ping = h2.ping_pong();
                    }
                    let sent = self.ping.as_mut().map(|ping| ping.send_ping(Ping::opaque()));
                    self.enter(IdlePhase::AwaitingPong);
                    return if let Some(Ok(())) = sent { IdleAction::PingSent } else { IdleAction::Close };
                }
                (IdlePhase::NoRequests, OpenCalls::None) => {
                    self.enter(IdlePhase::AwaitingClose);
                    return IdleAction::GoAway;
                }
                (IdlePhase::AwaitingPong, _) | (IdlePhase::AwaitingClose, OpenCalls::None) => {
                    return IdleAction::Close;
                }
            }
        }
        IdleAction::Nothing
    }

    fn enter(&mut self, phase: IdlePhase) {
        self.streams_at_reset = self.streams_total;
        self.phase = phase;
        let timeout = match phase {
            IdlePhase::NoRequests => self.bounds.idle_timeout,
            IdlePhase::AwaitingPong | IdlePhase::AwaitingClose => self.bounds.header_timeout,
        };
        self.timer.future_mut().set(sleep(timeout));
    }
}
