//! Where the calls of a connection are answered.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use h2::RecvStream;
use h2::server::SendResponse;
use http::{Request, Response};
use tokio::time::Instant;

use super::deadline;
use super::{Call, DecisionSlot, WaitingCall, ReceivingCall};
use crate::serve::Protocol;
use crate::serve::grpc::GrpcShared;
use crate::serve::grpc::connection::KEPT_BYTES_MAX;
use crate::serve::grpc::framing::{write_framed, single_message};
use crate::serve::grpc::head::{self, GrpcMethod, SingleMessageMethod};
use crate::serve::grpc::health::{self, HealthWatch};
use crate::serve::grpc::reflection::ReflectionStream;
use crate::serve::grpc::status::{GrpcCode, GrpcStatus, ok_headers, ok_trailers};
use crate::serve::grpc::wire::Writer;

/// How much memory answers are written to at a time, in bytes.
const OUT_BYTES: usize = 4 << 10;

/// Where the calls of a connection are answered.
pub struct Dispatcher {
    pub shared: Arc<GrpcShared>,
    /// Where a request is decided, while none is.
    spare_slot: Option<DecisionSlot>,
    /// Where other answers are written. Those that are written share its memory until they are sent.
    out: BytesMut,
    /// How much of messages calls keep that take longer, but for the one that goes on just now.
    other_calls_bytes: usize,
    /// Whether the server is about to stop.
    pub is_draining: bool,
    has_written: bool,
}

impl Dispatcher {
    /// Of one connection.
    pub fn new(shared: Arc<GrpcShared>) -> Self {
        Self {
            shared,
            spare_slot: None,
            out: BytesMut::new(),
            other_calls_bytes: 0,
            is_draining: false,
            has_written: false,
        }
    }

    /// Whether anything was answered since this was last asked.
    pub fn take_has_written(&mut self) -> bool {
        std::mem::take(&mut self.has_written)
    }

    /// A stream arrived. It is answered, or takes longer.
    #[inline]
    pub fn start(
        &mut self,
        request: Request<RecvStream>,
        respond: SendResponse<Bytes>,
        context: &mut Context<'_>,
    ) -> Option<Call> {
        let call = self.start_call(request, respond, context);
        self.other_calls_bytes += call.as_ref().map_or(0, Call::kept_bytes);
        call
    }

    /// A call that takes longer goes on; ready when it is over.
    pub fn poll_call(&mut self, call: &mut Call, context: &mut Context<'_>) -> Poll<()> {
        self.other_calls_bytes -= call.kept_bytes();
        let gone_on = call.poll(self, context);
        if gone_on.is_pending() {
            self.other_calls_bytes += call.kept_bytes();
        }
        gone_on
    }

    /// Whether the call that goes on just now may keep so much, beside what the others do.
    pub fn check_room(&self, bytes: usize) -> Result<(), GrpcStatus> {
        if self.other_calls_bytes + bytes <= KEPT_BYTES_MAX {
            return Ok(());
        }
        let message = "too much is unfinished or held on this connection (hint: send less at a time)";
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
        let method = match head::parse_method(&head) {
            Ok(GrpcMethod::SingleMessage(method)) => method,
            Ok(GrpcMethod::Reflection) => return ReflectionStream::start(self, body, respond).map(Call::Reflection),
            Err(refused) => {
                self.shared.app.metrics.count_rejected_request(Protocol::Grpc, refused.reason());
                self.send_headers_only(&mut respond, refused.response());
                return None;
            }
        };
        let until = || deadline::from_headers(&head.headers);
        match body.poll_data(context) {
            // Nearly always all of it is there.
            Poll::Ready(Some(Ok(bytes))) if body.is_end_stream() => {
                let length = bytes.len();
                let call = self.answer(method, bytes, respond, until, context);
                if call.is_some() {
                    // What was answered gives back its part of the window by itself.
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

    /// All of a body is there. `until` says until when the client waits for the answer, if anybody asks.
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
            SingleMessageMethod::HealthWatch => return HealthWatch::start(self, &message, respond).map(Call::HealthWatch),
        };
        self.finish(&mut respond, answer);
        None
    }

    /// Decides a request: at once, or as a call that waits.
    fn decide(
        &mut self,
        message: &[u8],
        mut respond: SendResponse<Bytes>,
        until: impl FnOnce() -> Option<Instant>,
        context: &mut Context<'_>,
    ) -> Option<Call> {
        // Once a shared store is asked, the request may be charged: so it is known before whether it may wait.
        if self.shared.app.has_shared_store()
            && let Err(full) = self.check_room(message.len())
        {
            self.reject(&mut respond, &full);
            return None;
        }
        let mut deciding = self.spare_slot.take().unwrap_or_else(|| DecisionSlot::new(&self.shared));
        match deciding.start(message, context) {
            Poll::Ready(answer) => {
                self.spare_slot = Some(deciding);
                self.finish(&mut respond, answer);
                None
            }
            Poll::Pending => WaitingCall::start(self, deciding, message.len(), respond, until()).map(Call::Waiting),
        }
    }

    /// Writes a message, with what stands in front of it.
    pub fn write_framed(&mut self, write: impl FnOnce(&mut Writer<'_>)) -> Bytes {
        self.out.reserve(OUT_BYTES);
        write_framed(&mut self.out, |out| write(&mut Writer::new(out)))
    }

    /// Answers a call that has one answer, or ends it with an error that was counted.
    pub fn finish(&mut self, respond: &mut SendResponse<Bytes>, answer: Result<Bytes, GrpcStatus>) {
        match answer {
            Ok(message) => {
                self.has_written = true;
                // Each of these fails if the client is gone.
                if let Ok(mut stream) = respond.send_response(ok_headers(), false) {
                    let _ = stream.send_data(message, false);
                    let _ = stream.send_trailers(ok_trailers());
                }
            }
            Err(status) => self.send_headers_only(respond, status.trailers_only()),
        }
    }

    /// Ends a call to which nothing was answered yet, and counts it.
    pub fn reject(&mut self, respond: &mut SendResponse<Bytes>, status: &GrpcStatus) {
        self.shared.count_rejected(status);
        self.send_headers_only(respond, status.trailers_only());
    }

    fn send_headers_only(&mut self, respond: &mut SendResponse<Bytes>, all: Response<()>) {
        self.has_written = true;
        // It fails if the client is gone.
        let _ = respond.send_response(all, true);
    }

    /// Something was written to a stream of answers.
    pub fn set_has_written(&mut self) {
        self.has_written = true;
    }
}
