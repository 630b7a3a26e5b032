//! Calls: those that are answered at once, and those that take longer.
//!
//! ```text
//! begin  ->  answered at once                       nearly always
//!        ->  Receiving, until its body is there     ->  answered, or held
//!        ->  Held, by a rule with the action delay  ->  answered
//!        ->  Watching, Reflecting                   streams of answers
//! ```

mod deadline;
mod held;
mod receiving;

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use h2::RecvStream;
use h2::server::SendResponse;
use http::{HeaderMap, Request};

use super::framing::{framed, only_message};
use super::head::{self, Method};
use super::health::{self, Watching};
use super::messages::{read_request, write_response};
use super::reflection::Reflecting;
use super::status::{GrpcCode, GrpcStatus, ok_head, ok_trailers};
use super::wire::Writer;
use super::{Shared, framing};
use crate::serve::{Protocol, rls};
pub use deadline::Deadline;
use held::Held;
use receiving::Receiving;

/// How much memory answers are written to at a time, in bytes.
const OUT_BYTES: usize = 4 << 10;

/// Where the calls of a connection are answered.
pub struct Desk {
    pub shared: Arc<Shared>,
    /// Where answers are written. Those that are written share its memory until they are sent.
    out: BytesMut,
    /// How much of unfinished bodies is held.
    pub bodies_bytes: usize,
    /// Whether the server is about to stop.
    pub is_draining: bool,
    has_written: bool,
}

/// A call that was not answered at once.
pub enum Call {
    /// Its body is not all there.
    Receiving(Receiving),
    /// It waits for its turn.
    Held(Held),
    /// It wants to know of the server's health.
    Watching(Watching),
    /// It asks what can be called.
    Reflecting(Reflecting),
}

impl Call {
    /// Goes on; ready when it is over.
    pub fn poll(&mut self, desk: &mut Desk, context: &mut Context<'_>) -> Poll<()> {
        if let Self::Receiving(receiving) = self {
            match receiving.poll(desk, context) {
                Poll::Ready(Some(next)) => *self = next,
                Poll::Ready(None) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
        match self {
            // It became something else.
            Self::Receiving(_) => Poll::Pending,
            Self::Held(held) => held.poll(desk, context),
            Self::Watching(watching) => watching.poll(desk, context),
            Self::Reflecting(reflecting) => reflecting.poll(desk, context),
        }
    }

    /// How much of an unfinished body it holds.
    pub fn held_bytes(&self) -> usize {
        match self {
            Self::Receiving(receiving) => receiving.held_bytes(),
            Self::Reflecting(reflecting) => reflecting.held_bytes(),
            Self::Held(_) | Self::Watching(_) => 0,
        }
    }
}

impl Desk {
    /// Of one connection.
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { shared, out: BytesMut::new(), bodies_bytes: 0, is_draining: false, has_written: false }
    }

    /// Whether anything was answered since this was last asked.
    pub fn has_written_since(&mut self) -> bool {
        std::mem::take(&mut self.has_written)
    }

    /// A stream arrived. It is answered, or takes longer.
    #[inline]
    pub fn begin(
        &mut self,
        request: Request<RecvStream>,
        mut respond: SendResponse<Bytes>,
        context: &mut Context<'_>,
    ) -> Option<Call> {
        let (head, mut body) = request.into_parts();
        let method = match head::method(&head) {
            Ok(Method::Reflection) => return Reflecting::begin(self, body, respond).map(Call::Reflecting),
            Ok(method) => method,
            Err(refused) => {
                self.shared.app.metrics.rejected(Protocol::Grpc, refused.reason());
                // It fails if the client is gone.
                let _ = respond.send_response(refused.response(), true);
                return None;
            }
        };
        match body.poll_data(context) {
            // Nearly always all of it is there.
            Poll::Ready(Some(Ok(bytes))) if body.is_end_stream() => {
                let length = bytes.len();
                let call = self.answer(method, bytes, respond, &head.headers, context);
                if call.is_some() {
                    // What was answered gives back its part of the window by itself.
                    let _ = body.flow_control().release_capacity(length);
                }
                call
            }
            Poll::Ready(Some(Ok(bytes))) => {
                let mut receiving = Receiving::begin(self, method, body, respond, head.headers);
                receiving.push(self, &bytes).is_ok().then_some(Call::Receiving(receiving))
            }
            Poll::Ready(None) => self.answer(method, Bytes::new(), respond, &head.headers, context),
            Poll::Ready(Some(Err(_))) => None,
            Poll::Pending => {
                Some(Call::Receiving(Receiving::begin(self, method, body, respond, head.headers)))
            }
        }
    }

    /// All of a body is there.
    fn answer(
        &mut self,
        method: Method,
        body: Bytes,
        mut respond: SendResponse<Bytes>,
        headers: &HeaderMap,
        context: &mut Context<'_>,
    ) -> Option<Call> {
        let message = match only_message(body, self.shared.bounds.body_bytes_max) {
            Ok(message) => message,
            Err(status) => {
                self.reject(&mut respond, &status);
                return None;
            }
        };
        let answer = match method {
            Method::ShouldRateLimit => match self.decide(&message, context) {
                Poll::Ready(answer) => answer,
                Poll::Pending => {
                    return Some(Call::Held(Held::begin(&self.shared, message, respond, headers)));
                }
            },
            Method::HealthCheck => health::check(self, &message),
            Method::HealthList => Ok(health::list(self)),
            Method::HealthWatch => return Watching::begin(self, &message, respond).map(Call::Watching),
            Method::Reflection => Ok(Bytes::new()),
        };
        self.finish(&mut respond, answer);
        None
    }

    /// Decides a request, if nothing holds it. If something does, it has charged nothing.
    fn decide(&mut self, message: &Bytes, context: &mut Context<'_>) -> Poll<Result<Bytes, GrpcStatus>> {
        pin!(decide(&self.shared, message, &mut self.out)).poll(context)
    }

    /// Writes a message, with what stands in front of it.
    pub fn framed(&mut self, write: impl FnOnce(&mut Writer<'_>)) -> Bytes {
        self.out.reserve(OUT_BYTES);
        framed(&mut self.out, |out| write(&mut Writer::new(out)))
    }

    /// Answers a call that has one answer.
    pub fn finish(&mut self, respond: &mut SendResponse<Bytes>, answer: Result<Bytes, GrpcStatus>) {
        match answer {
            Ok(message) => {
                self.has_written = true;
                // Each of these fails if the client is gone.
                if let Ok(mut stream) = respond.send_response(ok_head(), false) {
                    let _ = stream.send_data(message, false);
                    let _ = stream.send_trailers(ok_trailers());
                }
            }
            Err(status) => self.fail(respond, &status),
        }
    }

    /// Ends a call that was not decided, and counts it.
    pub fn reject(&mut self, respond: &mut SendResponse<Bytes>, status: &GrpcStatus) {
        self.shared.app.metrics.rejected(Protocol::Grpc, status.code.as_str());
        self.fail(respond, status);
    }

    /// Ends a call to which nothing was answered yet.
    pub fn fail(&mut self, respond: &mut SendResponse<Bytes>, status: &GrpcStatus) {
        self.has_written = true;
        // It fails if the client is gone.
        let _ = respond.send_response(status.trailers_only(), true);
    }

    /// Something was written to a stream of answers.
    pub fn has_written(&mut self) {
        self.has_written = true;
    }
}

/// From a message to the answer, ready to be sent.
async fn decide(shared: &Shared, message: &[u8], out: &mut BytesMut) -> Result<Bytes, GrpcStatus> {
    let request = read_request(message).map_err(|error| {
        let status = GrpcStatus::new(GrpcCode::InvalidArgument, error.to_string());
        shared.app.metrics.rejected(Protocol::Grpc, status.code.as_str());
        status
    })?;
    let answered = |response: &rls::RlsResponse<'_>| {
        // Once in a while; else there is room.
        if out.capacity() - out.len() < OUT_BYTES / 8 {
            out.reserve(OUT_BYTES);
        }
        framing::framed(out, |out| write_response(&mut Writer::new(out), response))
    };
    let decided = rls::decide(&shared.app, Protocol::Grpc, &request, shared.details, answered).await;
    decided.map_err(|full| GrpcStatus::new(GrpcCode::Internal, full.to_string()))
}
