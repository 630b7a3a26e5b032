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

use super::GrpcShared;
use super::bell::WakeFlag;
use super::calls::{Call, Dispatcher};
use super::idle::{IdleMonitor, OpenCalls, IdleAction};
use crate::serve::listening::Stream;
use crate::serve::sleepers::FutureSet;
use crate::serve::when_woken::PollOnWake;

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
const NEW_STREAMS_MAX: usize = STREAMS_MAX as usize;

/// How often a connection goes on by itself before it lets others have their turn. The runtime has a bound of its own, which
/// a task that is not woken while it works would not hear of.
const POLL_ROUNDS_MAX: usize = 16;

/// Serves a connection until it ends.
pub async fn serve(stream: Stream, shared: Arc<GrpcShared>) {
    let handshake = Builder::new()
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADER_LIST_BYTES_MAX)
        .max_pending_accept_reset_streams(RESET_STREAMS_MAX)
        .max_send_buffer_size(SEND_BUFFER_BYTES_MAX)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .handshake::<_, Bytes>(stream);
    let first_word = timeout(shared.bounds.header_timeout, handshake);
    let h2 = tokio::select! {
        () = shared.app.drain.wait() => return,
        connected = first_word => match connected {
            Ok(Ok(h2)) => h2,
            _ => return,
        },
    };
    let mut connection = GrpcConnection::new(h2, shared);
    let mut bell = WakeFlag::new(Waker::noop());
    let mut waker = Waker::noop().clone();
    poll_fn(|task| {
        if !bell.is_for(task.waker()) {
            bell = WakeFlag::new(task.waker());
            waker = Waker::from(Arc::clone(&bell));
        }
        connection.poll(&mut Context::from_waker(&waker), &bell)
    })
    .await;
}

struct GrpcConnection {
    h2: H2<Stream, Bytes>,
    dispatcher: Dispatcher,
    /// The streams that have arrived and were not looked at.
    new_streams: Vec<(Request<RecvStream>, SendResponse<Bytes>)>,
    /// Those that take longer.
    calls: FutureSet<Call>,
    idle: IdleMonitor,
    /// Until the server is about to stop; none afterwards.
    draining: Option<PollOnWake<DrainFuture>>,
}

type DrainFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What comes next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PollStep {
    /// Something has changed, so everything is to be looked at again.
    Repeat,
    /// Nothing, until the task is woken.
    Wait,
    /// Nothing any more.
    Done,
}

impl GrpcConnection {
    fn new(h2: H2<Stream, Bytes>, shared: Arc<GrpcShared>) -> Self {
        let drain = shared.app.drain.clone();
        let draining: DrainFuture = Box::pin(async move { drain.wait().await });
        Self {
            h2,
            idle: IdleMonitor::new(shared.bounds),
            dispatcher: Dispatcher::new(shared),
            new_streams: Vec::new(),
            calls: FutureSet::new(),
            draining: Some(PollOnWake::new(draining)),
        }
    }

    /// Goes on until there is nothing to do; ready when the connection is over.
    fn poll(&mut self, context: &mut Context<'_>, bell: &WakeFlag) -> Poll<()> {
        for _ in 0..POLL_ROUNDS_MAX {
            bell.start_polling();
            // To poll is also to write what waits to be written. So all that has arrived is taken before any of it is
            // answered, and the answers leave together.
            while self.new_streams.len() < NEW_STREAMS_MAX {
                match self.h2.poll_accept(context) {
                    Poll::Ready(Some(Ok(stream))) => self.new_streams.push(stream),
                    Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(()),
                    Poll::Pending => break,
                }
            }
            let answered = self.poll_calls(context);
            match self.poll_timers(context) {
                PollStep::Done => return Poll::Ready(()),
                PollStep::Wait if answered == PollStep::Wait && bell.try_idle() => return Poll::Pending,
                PollStep::Wait | PollStep::Repeat => {}
            }
        }
        bell.wake_task();
        Poll::Pending
    }

    /// Answers what can be answered, which is then to be written.
    fn poll_calls(&mut self, context: &mut Context<'_>) -> PollStep {
        let has_arrived = !self.new_streams.is_empty();
        self.idle.record_streams(self.new_streams.len());
        for (request, respond) in self.new_streams.drain(..) {
            if let Some(call) = self.dispatcher.start(request, respond, context) {
                self.calls.add(call);
            }
        }
        self.calls.poll(context, |call, context| self.dispatcher.poll_call(call, context));
        if self.dispatcher.take_has_written() || has_arrived { PollStep::Repeat } else { PollStep::Wait }
    }

    /// Whether the server stops, or nothing has been asked for long.
    fn poll_timers(&mut self, context: &mut Context<'_>) -> PollStep {
        if self.draining.as_mut().is_some_and(|draining| draining.poll(context).is_ready()) {
            self.draining = None;
            self.dispatcher.is_draining = true;
            self.calls.wake_all();
            self.h2.graceful_shutdown();
            return PollStep::Repeat;
        }
        let open = if self.calls.is_empty() { OpenCalls::None } else { OpenCalls::Some };
        match self.idle.poll(&mut self.h2, open, context) {
            IdleAction::Nothing => PollStep::Wait,
            IdleAction::PingSent => PollStep::Repeat,
            IdleAction::GoAway => {
                self.h2.graceful_shutdown();
                PollStep::Repeat
            }
            IdleAction::Close => PollStep::Done,
        }
    }
}
