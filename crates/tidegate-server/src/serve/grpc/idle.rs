//! A connection on which nothing is asked: it is told to go, or, if calls are open on it, to say that it is there.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::server::Connection as H2;
use h2::{Ping, PingPong};
use tokio::time::{Sleep, sleep};

use crate::serve::Bounds;
use crate::serve::listening::Stream;
use crate::serve::when_woken::WhenWoken;

/// Notices that nothing is asked. It looks at the clock once in a while and not for each stream, so it may take up to
/// twice the time.
///
/// A client that went away without a word, as when its machine lost power, would else keep its connection for as long as
/// a call of its is open; and who watches the server's health waits for no answer.
pub struct Idle {
    bounds: Bounds,
    timer: WhenWoken<Pin<Box<Sleep>>>,
    until: Until,
    /// How many streams have arrived.
    streams: u64,
    /// How many had when the timer was set.
    streams_then: u64,
    /// Asks whether the client is there. Taken when it is first needed, for it costs a little with every poll.
    ping: Option<PingPong>,
}

/// Until when the timer runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// Nothing was asked for long.
    Silent,
    /// The client has not said for long that it is there.
    Unheard,
    /// The client was told to go, and has not gone.
    ToldToGo,
}

/// What is to be done about it.
pub enum Silence {
    /// Nothing, now.
    NotYet,
    /// The client is asked whether it is there, which is to be sent.
    Asked,
    /// The client is to be told to go.
    Long,
    /// The connection is to be closed.
    Gone,
}

/// Whether a connection has calls that are not answered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// It has.
    Calls,
    /// It has not.
    Nothing,
}

impl Idle {
    /// Of a connection that begins.
    pub fn new(bounds: Bounds) -> Self {
        let timer = WhenWoken::new(Box::pin(sleep(bounds.idle_timeout)));
        Self { bounds, timer, until: Until::Silent, streams: 0, streams_then: 0, ping: None }
    }

    /// So many streams arrived.
    pub fn heard(&mut self, streams: usize) {
        self.streams += streams as u64;
    }

    /// Looks whether it is time to do anything.
    pub fn look(&mut self, h2: &mut H2<Stream, Bytes>, open: Open, context: &mut Context<'_>) -> Silence {
        if self.until == Until::Unheard
            && let Some(ping) = &mut self.ping
        {
            match ping.poll_pong(context) {
                Poll::Ready(Ok(_)) => self.wait(Until::Silent),
                Poll::Ready(Err(_)) => return Silence::Gone,
                Poll::Pending => {}
            }
        }
        // A timer that was set is asked, for it to wake the task.
        while self.timer.poll(context).is_ready() {
            let is_asked = self.streams > self.streams_then;
            match (self.until, open) {
                // There is still one answer to come.
                (Until::Unheard, _) if is_asked => self.wait(Until::Unheard),
                (Until::Silent | Until::ToldToGo, _) if is_asked => self.wait(Until::Silent),
                (Until::Silent | Until::ToldToGo, Open::Calls) => {
                    if self.ping.is_none() {
                        self.ping = h2.ping_pong();
                    }
                    let asked = self.ping.as_mut().map(|ping| ping.send_ping(Ping::opaque()));
                    self.wait(Until::Unheard);
                    return if let Some(Ok(())) = asked { Silence::Asked } else { Silence::Gone };
                }
                (Until::Silent, Open::Nothing) => {
                    self.wait(Until::ToldToGo);
                    return Silence::Long;
                }
                (Until::Unheard, _) | (Until::ToldToGo, Open::Nothing) => return Silence::Gone,
            }
        }
        Silence::NotYet
    }

    fn wait(&mut self, until: Until) {
        self.streams_then = self.streams;
        self.until = until;
        let time = match until {
            Until::Silent => self.bounds.idle_timeout,
            Until::Unheard | Until::ToldToGo => self.bounds.header_timeout,
        };
        self.timer.change().set(sleep(time));
    }
}
