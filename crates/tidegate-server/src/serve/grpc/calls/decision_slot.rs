//! Decides one `ShouldRateLimit` call in memory that the next call reuses.
//!
//! The connection keeps a heap slot for the future of a call. The first poll decides nearly every call, so the slot is
//! free again without an allocation. A call that takes longer keeps the slot and continues in it: its message is read
//! once, and it keeps its position in a wait queue.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use tidegate::Timestamp;

use crate::serve::Protocol;
use crate::serve::grpc::GrpcShared;
use crate::serve::grpc::framing::write_framed;
use crate::serve::grpc::messages::{read_request, write_response};
use crate::serve::grpc::status::{GrpcCode, GrpcStatus};
use crate::serve::grpc::wire::Writer;
use crate::serve::rls::{self, DecideError, RlsError};

/// Size of the buffer for responses, in bytes.
const OUT_BYTES: usize = 4 << 10;

/// Memory for the decision of one call at a time.
pub struct DecisionSlot {
    future: Box<dyn ReusableFuture>,
    /// The buffers, while no call uses them.
    buffers: Option<CallBuffers>,
    /// Heap bytes of the request that is being decided, besides its message.
    parts_bytes: Arc<AtomicUsize>,
}

/// What a call needs. One call hands it to the next, so that no call allocates or changes a reference count.
struct CallBuffers {
    shared: Arc<GrpcShared>,
    /// A copy: the message is a slice of a larger read from the connection and would keep all of that memory alive.
    message: Vec<u8>,
    /// Buffer for responses. A response shares its memory until it is sent.
    out: BytesMut,
    parts_bytes: Arc<AtomicUsize>,
    /// The instant of the decision, if it is shared with other calls.
    at: Option<Timestamp>,
}

type CallResult = Result<Bytes, GrpcStatus>;

trait ReusableFuture: Send {
    fn start(&mut self, buffers: CallBuffers);
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<(CallResult, CallBuffers)>;
}

struct ReusableFutureBox<M, F> {
    decide: M,
    future: Pin<Box<Option<F>>>,
}

impl<M, F> ReusableFuture for ReusableFutureBox<M, F>
where
    M: Fn(CallBuffers) -> F + Send,
    F: Future<Output = (CallResult, CallBuffers)> + Send,
{
    fn start(&mut self, buffers: CallBuffers) {
        self.future.set(Some((self.decide)(buffers)));
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<(CallResult, CallBuffers)> {
        let Some(future) = self.future.as_mut().as_pin_mut() else { return Poll::Pending };
        let result = ready!(future.poll(context));
        self.future.set(None);
        Poll::Ready(result)
    }
}

impl DecisionSlot {
    /// An empty slot.
    pub fn new(shared: &Arc<GrpcShared>) -> Self {
        let parts_bytes = Arc::new(AtomicUsize::new(0));
        let buffers = CallBuffers {
            shared: Arc::clone(shared),
            message: Vec::new(),
            out: BytesMut::new(),
            parts_bytes: Arc::clone(&parts_bytes),
            at: None,
        };
        let decide = |mut buffers: CallBuffers| async move {
            let answer = decide(&mut buffers).await;
            (answer, buffers)
        };
        let future = Box::new(ReusableFutureBox { decide, future: Box::pin(None) });
        Self { future, buffers: Some(buffers), parts_bytes }
    }

    /// Starts a call with this message and polls it. `at` is the instant of its decision, if other calls share it.
    #[inline]
    pub fn start(
        &mut self,
        message: &[u8],
        at: Option<Timestamp>,
        context: &mut Context<'_>,
    ) -> Poll<CallResult> {
        if let Some(mut buffers) = self.buffers.take() {
            buffers.message.clear();
            buffers.message.extend_from_slice(message);
            buffers.at = at;
            self.future.start(buffers);
        }
        self.poll(context)
    }

    /// Polls the current call.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<CallResult> {
        let (answer, buffers) = ready!(self.future.poll(context));
        self.buffers = Some(buffers);
        Poll::Ready(answer)
    }

    /// Heap bytes of the request that is being decided, besides its message.
    pub fn parts_bytes(&self) -> usize {
        self.parts_bytes.load(Ordering::Relaxed)
    }
}

/// From a message to a response that is ready to be sent. Counts errors of the message.
async fn decide(buffers: &mut CallBuffers) -> CallResult {
    let CallBuffers { shared, message, out, parts_bytes, at } = buffers;
    let invalid = |error: RlsError| {
        let status = GrpcStatus::new(GrpcCode::InvalidArgument, error.to_string());
        shared.count_rejected(&status);
        status
    };
    let request = read_request(message).map_err(invalid)?;
    parts_bytes.store(request.heap_bytes(), Ordering::Relaxed);
    let decided =
        rls::decide(&shared.app, Protocol::Grpc, &request, *at).await.map_err(|error| match error {
            DecideError::Request(error) => invalid(error),
            DecideError::Engine(error) => GrpcStatus::new(GrpcCode::Internal, error.to_string()),
        })?;
    let response = decided.response(&request, shared.details);
    // Rarely needed: a buffer serves several responses.
    if out.capacity() - out.len() < OUT_BYTES / 8 {
        out.reserve(OUT_BYTES);
    }
    Ok(write_framed(out, |out| write_response(&mut Writer::new(out), &response)))
}
