//! One `ShouldRateLimit` call, decided in memory that the next call uses again.
//!
//! The future of a call is written to a place on the heap that its connection keeps. Nearly every call is decided by the first poll,
//! so the place is free again and nothing was allocated. A call that takes longer keeps the place and goes on where it is: its message is
//! read once, and it keeps its position in a wait queue.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};

use crate::serve::grpc::GrpcShared;
use crate::serve::grpc::framing::write_framed;
use crate::serve::grpc::messages::{read_request, write_response};
use crate::serve::grpc::status::{GrpcCode, GrpcStatus};
use crate::serve::grpc::wire::Writer;
use crate::serve::{Protocol, rls};

/// How much memory answers are written to at a time, in bytes.
const OUT_BYTES: usize = 4 << 10;

/// A place for one call at a time.
pub struct DecisionSlot {
    future: Box<dyn ReusableFuture>,
    /// What a call works with, while there is none.
    buffers: Option<CallBuffers>,
    /// What is kept of the message that is decided, besides its bytes.
    parts_bytes: Arc<AtomicUsize>,
}

/// What a call works with. It is handed on from one to the next, so that nothing is counted or allocated for each.
struct CallBuffers {
    shared: Arc<GrpcShared>,
    /// A copy: the message is a part of what was read from the connection at once, and would keep all of it.
    message: Vec<u8>,
    /// Where answers are written. Those that are written share its memory until they are sent.
    out: BytesMut,
    parts_bytes: Arc<AtomicUsize>,
}

type CallResult = Result<Bytes, GrpcStatus>;

trait ReusableFuture: Send {
    fn start(&mut self, kit: CallBuffers);
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
    fn start(&mut self, kit: CallBuffers) {
        self.future.set(Some((self.decide)(kit)));
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<(CallResult, CallBuffers)> {
        let Some(future) = self.future.as_mut().as_pin_mut() else { return Poll::Pending };
        let decided = ready!(future.poll(context));
        self.future.set(None);
        Poll::Ready(decided)
    }
}

impl DecisionSlot {
    /// A place without a call.
    pub fn new(shared: &Arc<GrpcShared>) -> Self {
        let parts_bytes = Arc::new(AtomicUsize::new(0));
        let kit = CallBuffers {
            shared: Arc::clone(shared),
            message: Vec::new(),
            out: BytesMut::new(),
            parts_bytes: Arc::clone(&parts_bytes),
        };
        let decide = |mut kit: CallBuffers| async move {
            let answer = decide(&mut kit).await;
            (answer, kit)
        };
        let place = Box::new(ReusableFutureBox { decide, future: Box::pin(None) });
        Self { future: place, buffers: Some(kit), parts_bytes }
    }

    /// Begins a call with this message, and polls it.
    #[inline]
    pub fn start(&mut self, message: &[u8], context: &mut Context<'_>) -> Poll<CallResult> {
        if let Some(mut kit) = self.buffers.take() {
            kit.message.clear();
            kit.message.extend_from_slice(message);
            self.future.start(kit);
        }
        self.poll(context)
    }

    /// Goes on.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<CallResult> {
        let (answer, kit) = ready!(self.future.poll(context));
        self.buffers = Some(kit);
        Poll::Ready(answer)
    }

    /// What is kept of the message that is decided, besides its bytes.
    pub fn parts_bytes(&self) -> usize {
        self.parts_bytes.load(Ordering::Relaxed)
    }
}

/// From a message to the answer, ready to be sent. What comes to nothing is counted.
async fn decide(kit: &mut CallBuffers) -> CallResult {
    let CallBuffers { shared, message, out, parts_bytes } = kit;
    let request = read_request(message).map_err(|error| {
        let status = GrpcStatus::new(GrpcCode::InvalidArgument, error.to_string());
        shared.count_rejected(&status);
        status
    })?;
    parts_bytes.store(request.heap_bytes(), Ordering::Relaxed);
    // An error was counted where it was found.
    let decided = rls::decide(&shared.app, Protocol::Grpc, &request).await;
    let decided = decided.map_err(|error| GrpcStatus::new(GrpcCode::Internal, error.to_string()))?;
    let response = decided.response(&request, shared.details);
    // Once in a while; else there is room.
    if out.capacity() - out.len() < OUT_BYTES / 8 {
        out.reserve(OUT_BYTES);
    }
    Ok(write_framed(out, |out| write_response(&mut Writer::new(out), &response)))
}
