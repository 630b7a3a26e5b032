//! One connection: a single task polls all its streams.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use h2::RecvStream;
use h2::server::{Builder, Connection as H2, SendResponse};
use http::Request;
use tokio::time::timeout;

use super::GrpcShared;
use super::calls::{Call, Dispatcher};
use super::idle::{IdleAction, IdleMonitor, OpenCalls};
use super::unsent::ResponseBytes;
use super::wake_flag::WakeFlag;
use crate::serve::future_set::FutureSet;
use crate::serve::listen::Stream;
use crate::serve::poll_on_wake::PollOnWake;

/// Maximum number of concurrent streams per connection.
pub const STREAMS_MAX: u32 = 256;
/// Maximum size of a stream's headers, in bytes as HTTP/2 counts them.
pub const HEADER_LIST_BYTES_MAX: u32 = 16 << 10;
/// Maximum bytes that all calls of a connection keep together: incomplete bodies and waiting requests.
pub const KEPT_BYTES_MAX: usize = 4 << 20;

/// Flow control: bytes that a client may send on a connection before the server reads them.
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;
/// Maximum number of streams that a client may reset before the server accepts them. Above it, h2 closes the
/// connection.
const RESET_STREAMS_MAX: usize = 64;
/// Maximum bytes per stream that are queued for writing.
const SEND_BUFFER_BYTES_MAX: usize = 64 << 10;
/// Maximum number of streams accepted in one round. More than this can only be open if the client resets some
/// meanwhile.
const NEW_STREAMS_MAX: usize = STREAMS_MAX as usize;

/// Maximum number of rounds before the task yields to other tasks. Tokio's own budget does not suffice: it works by
/// waking the task, and [`WakeFlag`] ignores wakes during a poll.
const POLL_ROUNDS_MAX: usize = 16;

/// Serves a connection until it ends.
pub async fn serve(stream: Stream, shared: Arc<GrpcShared>) {
    let handshake = Builder::new()
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADER_LIST_BYTES_MAX)
        .max_pending_accept_reset_streams(RESET_STREAMS_MAX)
        .max_send_buffer_size(SEND_BUFFER_BYTES_MAX)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .handshake::<_, ResponseBytes>(stream);
    let h2 = tokio::select! {
        () = shared.app.drain.wait() => return,
        result = timeout(shared.bounds.header_timeout, handshake) => match result {
            Ok(Ok(h2)) => h2,
            _ => return,
        },
    };
    let mut connection = GrpcConnection::new(h2, shared);
    let mut wake_flag = WakeFlag::new(Waker::noop());
    let mut waker = Waker::noop().clone();
    poll_fn(|task| {
        if !wake_flag.is_for(task.waker()) {
            wake_flag = WakeFlag::new(task.waker());
            waker = Waker::from(Arc::clone(&wake_flag));
        }
        connection.poll(&mut Context::from_waker(&waker), &wake_flag)
    })
    .await;
}

struct GrpcConnection {
    h2: H2<Stream, ResponseBytes>,
    dispatcher: Dispatcher,
    /// Accepted streams that are not handled yet.
    new_streams: Vec<(Request<RecvStream>, SendResponse<ResponseBytes>)>,
    /// Calls that were not answered immediately.
    calls: FutureSet<Call>,
    idle: IdleMonitor,
    /// Ready when the server starts to drain; `None` afterwards.
    draining: Option<PollOnWake<DrainFuture>>,
}

type DrainFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What the connection's task does next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PollStep {
    /// Something changed: poll everything again.
    Repeat,
    /// Nothing to do until the task is woken.
    Wait,
    /// The connection has ended.
    Done,
}

impl GrpcConnection {
    fn new(h2: H2<Stream, ResponseBytes>, shared: Arc<GrpcShared>) -> Self {
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

    /// Polls until there is nothing left to do. Ready when the connection has ended.
    fn poll(&mut self, context: &mut Context<'_>, wake_flag: &WakeFlag) -> Poll<()> {
        let polled = self.poll_rounds(context, wake_flag);
        // Not for each call: several together change the count of all connections once.
        self.dispatcher.memory.release_unused();
        polled
    }

    fn poll_rounds(&mut self, context: &mut Context<'_>, wake_flag: &WakeFlag) -> Poll<()> {
        for _ in 0..POLL_ROUNDS_MAX {
            wake_flag.start_polling();
            // `poll_accept` also writes queued responses. Accept all streams before answering any of them, so that
            // their responses are written together.
            while self.new_streams.len() < NEW_STREAMS_MAX {
                match self.h2.poll_accept(context) {
                    Poll::Ready(Some(Ok(stream))) => self.new_streams.push(stream),
                    Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(()),
                    Poll::Pending => break,
                }
            }
            let calls_step = self.poll_calls(context);
            match self.poll_timers(context) {
                PollStep::Done => return Poll::Ready(()),
                PollStep::Wait if calls_step == PollStep::Wait && wake_flag.try_idle() => {
                    return Poll::Pending;
                }
                PollStep::Wait | PollStep::Repeat => {}
            }
        }
        wake_flag.wake_task();
        Poll::Pending
    }

    /// Starts new calls and polls the unfinished ones.
    fn poll_calls(&mut self, context: &mut Context<'_>) -> PollStep {
        self.dispatcher.start_pass();
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

    /// Checks whether the server drains and whether the connection is idle.
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
