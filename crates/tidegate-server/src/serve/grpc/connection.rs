//! A connection: all of its streams in one task.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::RecvStream;
use h2::server::{Builder, Connection as H2, SendResponse};
use http::Request;
use tokio::time::timeout;

use super::Shared;
use super::bell::Bell;
use super::calls::{Call, Desk};
use super::idle::{Idle, Open, Silence};
use crate::serve::listening::Stream;
use crate::serve::sleepers::Sleepers;
use crate::serve::when_woken::WhenWoken;

/// The most streams of a connection at a time.
pub const STREAMS_MAX: u32 = 256;
/// The longest headers of a stream, in bytes as HTTP/2 counts them.
pub const HEADER_LIST_BYTES_MAX: u32 = 16 << 10;
/// The most bytes that the calls of a connection keep, all together: of bodies that are not all there, and of requests that
/// are held.
pub const KEPT_BYTES_MAX: usize = 4 << 20;

/// How much may arrive on a connection that nobody has looked at, in bytes.
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;
/// The most streams that a client gives up before they were looked at, before it is told to calm down.
const RESET_STREAMS_MAX: usize = 64;
/// The most answers that wait to be written, in bytes for each stream.
const SEND_BUFFER_BYTES_MAX: usize = 64 << 10;
/// The most streams that are taken before they are answered: as many as there can be, unless the client gives some up
/// meanwhile.
const ARRIVED_MAX: usize = STREAMS_MAX as usize;

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
    let h2 = tokio::select! {
        () = shared.app.drain.begun() => return,
        connected = first_word => match connected {
            Ok(Ok(h2)) => h2,
            _ => return,
        },
    };
    let mut connection = Connection::new(h2, shared);
    let mut bell = Bell::of(Waker::noop());
    let mut waker = Waker::noop().clone();
    poll_fn(|task| {
        if !bell.is_of(task.waker()) {
            bell = Bell::of(task.waker());
            waker = Waker::from(Arc::clone(&bell));
        }
        connection.poll(&mut Context::from_waker(&waker), &bell)
    })
    .await;
}

struct Connection {
    h2: H2<Stream, Bytes>,
    desk: Desk,
    /// The streams that have arrived and were not looked at.
    arrived: Vec<(Request<RecvStream>, SendResponse<Bytes>)>,
    /// Those that take longer.
    calls: Sleepers<Call>,
    idle: Idle,
    /// Until the server is about to stop; none afterwards.
    draining: Option<WhenWoken<Draining>>,
}

type Draining = Pin<Box<dyn Future<Output = ()> + Send>>;

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
        let drain = shared.app.drain.clone();
        let draining: Draining = Box::pin(async move { drain.begun().await });
        Self {
            h2,
            idle: Idle::new(shared.bounds),
            desk: Desk::new(shared),
            arrived: Vec::new(),
            calls: Sleepers::new(),
            draining: Some(WhenWoken::new(draining)),
        }
    }

    /// Goes on until there is nothing to do; ready when the connection is over.
    fn poll(&mut self, context: &mut Context<'_>, bell: &Bell) -> Poll<()> {
        for _ in 0..ROUNDS_MAX {
            bell.work();
            // To poll is also to write what waits to be written. So all that has arrived is taken before any of it is
            // answered, and the answers leave together.
            while self.arrived.len() < ARRIVED_MAX {
                match self.h2.poll_accept(context) {
                    Poll::Ready(Some(Ok(stream))) => self.arrived.push(stream),
                    Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(()),
                    Poll::Pending => break,
                }
            }
            let answered = self.answer(context);
            match self.look_around(context) {
                Next::Over => return Poll::Ready(()),
                Next::Rest if answered == Next::Rest && bell.may_rest() => return Poll::Pending,
                Next::Rest | Next::Again => {}
            }
        }
        bell.come_again();
        Poll::Pending
    }

    /// Answers what can be answered, which is then to be written.
    fn answer(&mut self, context: &mut Context<'_>) -> Next {
        let has_arrived = !self.arrived.is_empty();
        self.idle.heard(self.arrived.len());
        for (request, respond) in self.arrived.drain(..) {
            if let Some(call) = self.desk.begin(request, respond, context) {
                self.calls.add(call);
            }
        }
        self.calls.poll(context, |call, context| self.desk.go_on(call, context));
        if self.desk.has_written_since() || has_arrived { Next::Again } else { Next::Rest }
    }

    /// Whether the server stops, or nothing has been asked for long.
    fn look_around(&mut self, context: &mut Context<'_>) -> Next {
        if self.draining.as_mut().is_some_and(|draining| draining.poll(context).is_ready()) {
            self.draining = None;
            self.desk.is_draining = true;
            self.calls.wake_all();
            self.h2.graceful_shutdown();
            return Next::Again;
        }
        let open = if self.calls.is_empty() { Open::Nothing } else { Open::Calls };
        match self.idle.look(&mut self.h2, open, context) {
            Silence::NotYet => Next::Rest,
            Silence::Asked => Next::Again,
            Silence::Long => {
                self.h2.graceful_shutdown();
                Next::Again
            }
            Silence::Gone => Next::Over,
        }
    }
}
