//! A connection: all of its streams in one task.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::{Builder, Connection as H2, SendResponse};
use http::Request;
use tokio::time::{Sleep, sleep, timeout};

use super::Shared;
use super::bell::Bell;
use super::calls::{Call, Desk};
use crate::serve::Drain;
use crate::serve::listening::Stream;

/// The most streams of a connection at a time.
pub const STREAMS_MAX: u32 = 256;
/// The longest headers of a stream, in bytes as HTTP/2 counts them.
pub const HEADER_LIST_BYTES_MAX: u32 = 16 << 10;
/// The most bytes of unfinished bodies of a connection, all together.
pub const BODIES_BYTES_MAX: usize = 4 << 20;

/// How much may arrive on a connection that nobody has looked at, in bytes.
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;
/// The most streams that a client gives up before they were looked at, before it is told to calm down.
const RESET_STREAMS_MAX: usize = 64;
/// The most answers that wait to be written, in bytes for each stream.
const SEND_BUFFER_BYTES_MAX: usize = 64 << 10;

/// How often a connection goes on by itself before it lets others have their turn. The runtime has a bound of its own, which
/// a task that is not woken while it works would not hear of.
const ROUNDS_MAX: usize = 16;

/// Serves a connection until it ends.
pub async fn serve(stream: Stream, shared: Arc<Shared>) {
    let handshake = Builder::new()
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADER_LIST_BYTES_MAX)
        .max_pending_accept_reset_streams(RESET_STREAMS_MAX)
        .max_send_buffer_size(SEND_BUFFER_BYTES_MAX)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .handshake::<_, Bytes>(stream);
    let first_word = timeout(shared.bounds.header_timeout, handshake);
    let drain = shared.app.drain.clone();
    let h2 = tokio::select! {
        () = drain.begun() => return,
        connected = first_word => match connected {
            Ok(Ok(h2)) => h2,
            _ => return,
        },
    };
    let mut connection = Connection::new(h2, shared);
    let mut draining = pin!(drain.begun());
    let mut bell = Bell::of(Waker::noop());
    let mut waker = Waker::noop().clone();
    poll_fn(|task| {
        if !bell.is_of(task.waker()) {
            bell = Bell::of(task.waker());
            waker = Waker::from(Arc::clone(&bell));
            // These are asked once, for them to wake the task. Asking each time would cost more than a flag does.
            let context = &mut Context::from_waker(&waker);
            let _ = draining.as_mut().poll(context);
            connection.idle.ask(context);
        }
        connection.poll(&mut Context::from_waker(&waker), &bell, &drain)
    })
    .await;
}

struct Connection {
    h2: H2<Stream, Bytes>,
    desk: Desk,
    /// The streams that have arrived and were not looked at.
    arrived: Vec<(Request<RecvStream>, SendResponse<Bytes>)>,
    /// Those that take longer.
    calls: Vec<Call>,
    idle: Idle,
    leaving: Leaving,
}

/// Whether the connection is about to end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaving {
    No,
    /// The client was told to go elsewhere; what it has begun is finished.
    Politely,
}

/// What comes next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Something has changed, so everything is to be looked at again.
    Again,
    /// Nothing, until the task is woken.
    Rest,
    /// Nothing any more.
    Over,
}

impl Connection {
    fn new(h2: H2<Stream, Bytes>, shared: Arc<Shared>) -> Self {
        let idle = Idle::after(shared.bounds.idle_timeout);
        let desk = Desk::new(shared);
        Self { h2, desk, arrived: Vec::new(), calls: Vec::new(), idle, leaving: Leaving::No }
    }

    /// Goes on until there is nothing to do; ready when the connection is over.
    fn poll(&mut self, context: &mut Context<'_>, bell: &Bell, drain: &Drain) -> Poll<()> {
        for _ in 0..ROUNDS_MAX {
            bell.work();
            // To poll is also to write what waits to be written. So all that has arrived is taken before any of it is
            // answered, and the answers leave together.
            loop {
                match self.h2.poll_accept(context) {
                    Poll::Ready(Some(Ok(stream))) => self.arrived.push(stream),
                    Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(()),
                    Poll::Pending => break,
                }
            }
            let is_busy = self.answer(context);
            match self.look_around(context, drain) {
                Next::Over => return Poll::Ready(()),
                Next::Rest if !is_busy && bell.may_rest() => return Poll::Pending,
                Next::Rest | Next::Again => {}
            }
        }
        bell.come_again();
        Poll::Pending
    }

    /// Answers what can be answered. Says whether there is anything to write.
    fn answer(&mut self, context: &mut Context<'_>) -> bool {
        let has_arrived = !self.arrived.is_empty();
        self.idle.streams += self.arrived.len() as u64;
        for (request, respond) in self.arrived.drain(..) {
            self.calls.extend(self.desk.begin(request, respond, context));
        }
        if !self.calls.is_empty() {
            self.desk.bodies_bytes = self.calls.iter().map(Call::held_bytes).sum();
            self.calls.retain_mut(|call| call.poll(&mut self.desk, context).is_pending());
        }
        self.desk.has_written_since() || has_arrived
    }

    /// Whether the server stops, or nothing has been asked for long.
    fn look_around(&mut self, context: &mut Context<'_>, drain: &Drain) -> Next {
        if drain.is_on() && !self.desk.is_draining {
            self.desk.is_draining = true;
            self.leave();
            return Next::Again;
        }
        let bounds = self.desk.shared.bounds;
        match self.idle.look(!self.calls.is_empty()) {
            Silence::NotYet => return Next::Rest,
            Silence::Broken => self.idle.again(bounds.idle_timeout, context),
            Silence::Long if self.leaving == Leaving::Politely => return Next::Over,
            Silence::Long => {
                self.leave();
                self.idle.again(bounds.header_timeout, context);
            }
        }
        Next::Again
    }

    fn leave(&mut self) {
        self.leaving = Leaving::Politely;
        self.h2.graceful_shutdown();
    }
}

/// Notices that nothing is asked. It looks at the clock once in a while and not for each stream, so it may take up to
/// twice the time.
struct Idle {
    timer: Pin<Box<Sleep>>,
    /// How many streams have arrived.
    streams: u64,
    /// How many had when the timer was set.
    streams_then: u64,
}

/// What an [`Idle`] knows.
enum Silence {
    /// It is not time to say.
    NotYet,
    /// Something was asked, or is still being answered.
    Broken,
    /// Nothing was asked.
    Long,
}

impl Idle {
    fn after(time: Duration) -> Self {
        Self { timer: Box::pin(sleep(time)), streams: 0, streams_then: 0 }
    }

    fn ask(&mut self, context: &mut Context<'_>) {
        // What it says is looked at when it is over.
        let _ = self.timer.as_mut().poll(context);
    }

    fn look(&self, is_answering: bool) -> Silence {
        match self.timer.is_elapsed() {
            false => Silence::NotYet,
            true if is_answering || self.streams > self.streams_then => Silence::Broken,
            true => Silence::Long,
        }
    }

    fn again(&mut self, time: Duration, context: &mut Context<'_>) {
        self.streams_then = self.streams;
        self.timer.set(sleep(time));
        self.ask(context);
    }
}
