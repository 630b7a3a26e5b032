//! Starts, answers and polls the calls of a connection.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use h2::RecvStream;
use h2::server::SendResponse;
use http::{Request, Response};
use tokio::time::Instant;

use super::memory::{CallsMemory, KeptBytes};
use super::waiting::{self, WaitsFor};
use super::{Call, DecisionSlot, ReceivingCall, WaitingCall, deadline};
use crate::serve::grpc::GrpcShared;
use crate::serve::grpc::framing::{single_message, write_framed};
use crate::serve::grpc::health::{self, HealthWatch};
use crate::serve::grpc::method::{self, GrpcMethod, SingleMessageMethod};
use crate::serve::grpc::reflection::ReflectionStream;
use crate::serve::grpc::status::{GrpcStatus, ok_headers, ok_trailers};
use crate::serve::grpc::unsent::ResponseBytes;
use crate::serve::grpc::wire::Writer;
use crate::serve::{Protocol, SharedInstant};

/// Size of the buffer for responses, in bytes.
const OUT_BYTES: usize = 4 << 10;

/// Answers the calls of one connection.
pub struct Dispatcher {
    pub shared: Arc<GrpcShared>,
    /// A free slot for the next decision.
    spare_slot: Option<DecisionSlot>,
    /// Buffer for other responses. A response shares its memory until it is sent.
    out: BytesMut,
    pub memory: CallsMemory,
    /// Whether the server drains.
    pub is_draining: bool,
    has_written: bool,
    instant: SharedInstant,
}

impl Dispatcher {
    /// For one connection.
    pub fn new(shared: Arc<GrpcShared>) -> Self {
        let held = shared.app.connections_memory.reserve_nothing(Protocol::Grpc);
        let body_bytes_max = shared.bounds.body_bytes_max;
        Self {
            memory: CallsMemory::new(held, body_bytes_max),
            shared,
            spare_slot: None,
            out: BytesMut::new(),
            is_draining: false,
            has_written: false,
            instant: SharedInstant::default(),
        }
    }

    /// Starts a pass over the calls. Nothing is read from the connection during a pass, so what it decides has arrived.
    pub fn start_pass(&mut self) {
        self.instant = SharedInstant::default();
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
        respond: SendResponse<ResponseBytes>,
        context: &mut Context<'_>,
    ) -> Option<Call> {
        let call = self.start_call(request, respond, context)?;
        self.memory.add(call.kept_bytes());
        Some(call)
    }

    /// Polls an unfinished call. Ready when it has ended.
    pub fn poll_call(&mut self, call: &mut Call, context: &mut Context<'_>) -> Poll<()> {
        self.memory.remove(call.kept_bytes());
        let gone_on = call.poll(self, context);
        if gone_on.is_pending() {
            self.memory.add(call.kept_bytes());
        }
        gone_on
    }

    /// Whether the call that is being polled may keep this many bytes of messages.
    pub fn check_room(&self, messages_bytes: usize) -> Result<(), GrpcStatus> {
        self.memory.check_call(KeptBytes::of_messages(messages_bytes))
    }

    #[inline]
    fn start_call(
        &mut self,
        request: Request<RecvStream>,
        mut respond: SendResponse<ResponseBytes>,
        context: &mut Context<'_>,
    ) -> Option<Call> {
        if let Err(status) = self.memory.check_stream() {
            self.reject(&mut respond, &status);
            return None;
        }
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
        mut respond: SendResponse<ResponseBytes>,
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
        mut respond: SendResponse<ResponseBytes>,
        until: impl FnOnce() -> Option<Instant>,
        context: &mut Context<'_>,
    ) -> Option<Call> {
        // Check for room first: once the request is sent to the shared store, it may be charged.
        if self.shared.app.has_shared_store()
            && let Err(status) = self.memory.check_call(waiting::kept_bytes(message.len(), WaitsFor::Store))
        {
            self.reject(&mut respond, &status);
            return None;
        }
        let mut decision = self.spare_slot.take().unwrap_or_else(|| DecisionSlot::new(&self.shared));
        let at = self.instant.get(&self.shared.app);
        match decision.start(message, at, context) {
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
    pub fn finish(&mut self, respond: &mut SendResponse<ResponseBytes>, answer: Result<Bytes, GrpcStatus>) {
        match answer {
            Ok(message) => {
                // The client does not read its responses. This one is lost, although the request was decided.
                if let Err(status) = self.memory.check_response(&message) {
                    return self.reject(respond, &status);
                }
                self.has_written = true;
                // These fail if the client is gone.
                if let Ok(mut stream) = respond.send_response(ok_headers(), false) {
                    let _ = stream.send_data(self.memory.unsent.count(message), false);
                    let _ = stream.send_trailers(ok_trailers());
                }
            }
            Err(status) => self.send_headers_only(respond, status.trailers_only()),
        }
    }

    /// Counts a call that has no response yet, and ends it with an error.
    pub fn reject(&mut self, respond: &mut SendResponse<ResponseBytes>, status: &GrpcStatus) {
        self.shared.count_rejected(status);
        self.send_headers_only(respond, status.trailers_only());
    }

    fn send_headers_only(&mut self, respond: &mut SendResponse<ResponseBytes>, response: Response<()>) {
        self.has_written = true;
        // It fails if the client is gone.
        let _ = respond.send_response(response, true);
    }

    /// A message was written to a response stream.
    pub fn set_has_written(&mut self) {
        self.has_written = true;
    }
}
