//! Starts, answers and polls the calls of a connection, and bounds the memory that they keep.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use h2::RecvStream;
use h2::server::SendResponse;
use http::{Request, Response};
use tokio::time::Instant;

use super::{Call, DecisionSlot, ReceivingCall, WaitingCall, deadline};
use crate::serve::Protocol;
use crate::serve::connections_memory::HeldBytes;
use crate::serve::grpc::GrpcShared;
use crate::serve::grpc::connection::KEPT_BYTES_MAX;
use crate::serve::grpc::framing::{single_message, write_framed};
use crate::serve::grpc::health::{self, HealthWatch};
use crate::serve::grpc::method::{self, GrpcMethod, SingleMessageMethod};
use crate::serve::grpc::reflection::ReflectionStream;
use crate::serve::grpc::status::{GrpcCode, GrpcStatus, ok_headers, ok_trailers};
use crate::serve::grpc::wire::Writer;

/// What a call keeps besides its message: the frame, and the lists of its descriptors and entries.
const MESSAGE_OVERHEAD_BYTES: usize = 256 << 10;

/// Size of the buffer for responses, in bytes.
const OUT_BYTES: usize = 4 << 10;

const OUT_OF_MEMORY: &str = "the server has no memory for the call (hint: try again later, or raise the server's \
                             --connections-memory-max)";

/// Answers the calls of one connection.
pub struct Dispatcher {
    pub shared: Arc<GrpcShared>,
    /// A free slot for the next decision.
    spare_slot: Option<DecisionSlot>,
    /// Buffer for other responses. A response shares its memory until it is sent.
    out: BytesMut,
    /// Bytes kept by unfinished calls, except the call that is being polled.
    other_calls_bytes: usize,
    /// Reserved for what unfinished calls keep.
    held: HeldBytes,
    /// Whether the server drains.
    pub is_draining: bool,
    has_written: bool,
}

impl Dispatcher {
    /// For one connection.
    pub fn new(shared: Arc<GrpcShared>) -> Self {
        let held = shared.app.connections_memory.reserve_nothing(Protocol::Grpc);
        Self {
            held,
            shared,
            spare_slot: None,
            out: BytesMut::new(),
            other_calls_bytes: 0,
            is_draining: false,
            has_written: false,
        }
    }

    /// Whether anything was written since the last call of this function.
    pub fn take_has_written(&mut self) -> bool {
        std::mem::take(&mut self.has_written)
    }

    /// Starts the call of a new stream. Returns it if it is not finished yet.
    #[inline]
    pub fn start(
        &mut self,
        request: Request<RecvStream>,
        respond: SendResponse<Bytes>,
        context: &mut Context<'_>,
    ) -> Option<Call> {
        let call = self.start_call(request, respond, context);
        self.other_calls_bytes += call.as_ref().map_or(0, Call::kept_bytes);
        self.release_unused();
        call
    }

    /// Polls an unfinished call. Ready when it has ended.
    pub fn poll_call(&mut self, call: &mut Call, context: &mut Context<'_>) -> Poll<()> {
        self.other_calls_bytes -= call.kept_bytes();
        let gone_on = call.poll(self, context);
        if gone_on.is_pending() {
            self.other_calls_bytes += call.kept_bytes();
        }
        self.release_unused();
        gone_on
    }

    /// Reduces the reservation to what is kept.
    #[inline]
    fn release_unused(&self) {
        // It cannot fail: `check_room` has reserved at least as much.
        let _ = self.held.try_hold(self.other_calls_bytes as u64);
    }

    /// Whether the call that is being polled may keep `bytes` in addition to the other calls.
    pub fn check_room(&self, bytes: usize) -> Result<(), GrpcStatus> {
        // At least one message of the maximum size has room.
        let bytes_max = KEPT_BYTES_MAX.max(self.shared.bounds.body_bytes_max + MESSAGE_OVERHEAD_BYTES);
        let kept_bytes = self.other_calls_bytes + bytes;
        if kept_bytes <= bytes_max {
            return match self.held.try_hold(kept_bytes as u64) {
                true => Ok(()),
                false => Err(GrpcStatus::new(GrpcCode::ResourceExhausted, OUT_OF_MEMORY)),
            };
        }
        let message = "unfinished calls on this connection keep too many bytes (hint: send fewer at a time)";
        Err(GrpcStatus::new(GrpcCode::ResourceExhausted, message))
    }

    #[inline]
    fn start_call(
        &mut self,
        request: Request<RecvStream>,
        mut respond: SendResponse<Bytes>,
        context: &mut Context<'_>,
    ) -> Option<Call> {
        let (head, mut body) = request.into_parts();
        let method = match method::parse_method(&head) {
            Ok(GrpcMethod::SingleMessage(method)) => method,
            Ok(GrpcMethod::Reflection) => {
                return ReflectionStream::start(self, body, respond).map(Call::Reflection);
            }
            Err(error) => {
                self.shared.app.metrics.count_rejected_request(Protocol::Grpc, error.reason());
                self.send_headers_only(&mut respond, error.response());
                return None;
            }
        };
        let until = || deadline::from_headers(&head.headers);
        match body.poll_data(context) {
            // Nearly always the whole body is there.
            Poll::Ready(Some(Ok(bytes))) if body.is_end_stream() => {
                let length = bytes.len();
                let call = self.answer(method, bytes, respond, until, context);
                if call.is_some() {
                    // An answered stream releases its flow control window itself; one that waits must do it here.
                    let _ = body.flow_control().release_capacity(length);
                }
                call
            }
            Poll::Ready(Some(Ok(bytes))) => {
                let mut receiving = ReceivingCall::start(self, method, body, respond, &head.headers);
                receiving.push(self, &bytes).is_ok().then_some(Call::Receiving(receiving))
            }
            Poll::Ready(None) => self.answer(method, Bytes::new(), respond, until, context),
            Poll::Ready(Some(Err(_))) => None,
            Poll::Pending => {
                Some(Call::Receiving(ReceivingCall::start(self, method, body, respond, &head.headers)))
            }
        }
    }

    /// Answers a call whose body is complete. `until` computes the client's deadline, and is called only if the call
    /// waits.
    pub fn answer(
        &mut self,
        method: SingleMessageMethod,
        body: Bytes,
        mut respond: SendResponse<Bytes>,
        until: impl FnOnce() -> Option<Instant>,
        context: &mut Context<'_>,
    ) -> Option<Call> {
        let message = match single_message(body, self.shared.bounds.body_bytes_max) {
            Ok(message) => message,
            Err(status) => {
                self.reject(&mut respond, &status);
                return None;
            }
        };
        let answer = match method {
            SingleMessageMethod::ShouldRateLimit => return self.decide(&message, respond, until, context),
            SingleMessageMethod::HealthCheck => {
                health::check(self, &message).inspect_err(|status| self.shared.count_rejected(status))
            }
            SingleMessageMethod::HealthList => Ok(health::list(self)),
            SingleMessageMethod::HealthWatch => {
                return HealthWatch::start(self, &message, respond).map(Call::HealthWatch);
            }
        };
        self.finish(&mut respond, answer);
        None
    }

    /// Decides a request immediately, or returns a call that waits.
    fn decide(
        &mut self,
        message: &[u8],
        mut respond: SendResponse<Bytes>,
        until: impl FnOnce() -> Option<Instant>,
        context: &mut Context<'_>,
    ) -> Option<Call> {
        // Check for room first: once the request is sent to the shared store, it may be charged.
        if self.shared.app.has_shared_store()
            && let Err(status) = self.check_room(message.len())
        {
            self.reject(&mut respond, &status);
            return None;
        }
        let mut decision = self.spare_slot.take().unwrap_or_else(|| DecisionSlot::new(&self.shared));
        match decision.start(message, context) {
            Poll::Ready(answer) => {
                self.spare_slot = Some(decision);
                self.finish(&mut respond, answer);
                None
            }
            Poll::Pending => {
                WaitingCall::start(self, decision, message.len(), respond, until()).map(Call::Waiting)
            }
        }
    }

    /// Writes a message with its prefix.
    pub fn write_framed(&mut self, write: impl FnOnce(&mut Writer<'_>)) -> Bytes {
        self.out.reserve(OUT_BYTES);
        write_framed(&mut self.out, |out| write(&mut Writer::new(out)))
    }

    /// Sends the only response of a call. Its error was already counted.
    pub fn finish(&mut self, respond: &mut SendResponse<Bytes>, answer: Result<Bytes, GrpcStatus>) {
        match answer {
            Ok(message) => {
                self.has_written = true;
                // These fail if the client is gone.
                if let Ok(mut stream) = respond.send_response(ok_headers(), false) {
                    let _ = stream.send_data(message, false);
                    let _ = stream.send_trailers(ok_trailers());
                }
            }
            Err(status) => self.send_headers_only(respond, status.trailers_only()),
        }
    }

    /// Counts a call that has no response yet, and ends it with an error.
    pub fn reject(&mut self, respond: &mut SendResponse<Bytes>, status: &GrpcStatus) {
        self.shared.count_rejected(status);
        self.send_headers_only(respond, status.trailers_only());
    }

    fn send_headers_only(&mut self, respond: &mut SendResponse<Bytes>, response: Response<()>) {
        self.has_written = true;
        // It fails if the client is gone.
        let _ = respond.send_response(response, true);
    }

    /// A message was written to a response stream.
    pub fn set_has_written(&mut self) {
        self.has_written = true;
    }
}
