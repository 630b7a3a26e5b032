//! A call whose body is incomplete.

use std::task::{Context, Poll};

use bytes::BytesMut;
use h2::RecvStream;
use h2::server::SendResponse;
use http::HeaderMap;
use tokio::time::Instant;

use super::deadline::{self, Deadline};
use super::{Call, Dispatcher};
use crate::serve::grpc::framing::{self, PREFIX_BYTES};
use crate::serve::grpc::method::SingleMessageMethod;
use crate::serve::grpc::status::{GrpcCode, GrpcStatus};
use crate::serve::grpc::unsent::ResponseBytes;

/// A call whose body is incomplete.
pub struct ReceivingCall {
    method: SingleMessageMethod,
    body: RecvStream,
    received: BytesMut,
    /// `None` after the call was answered.
    respond: Option<SendResponse<ResponseBytes>>,
    /// When the server stops waiting for the body.
    deadline: Deadline,
    /// When the client stops waiting for the response.
    client_deadline: Option<Instant>,
}

/// The call was rejected.
pub struct CallRejected;

impl ReceivingCall {
    /// A call of which no body has arrived yet.
    #[cold]
    pub fn start(
        dispatcher: &Dispatcher,
        method: SingleMessageMethod,
        body: RecvStream,
        respond: SendResponse<ResponseBytes>,
        headers: &HeaderMap,
    ) -> Self {
        let client_deadline = deadline::from_headers(headers);
        let arrival = Instant::now() + dispatcher.shared.bounds.header_timeout;
        let deadline = client_deadline.map_or(arrival, |deadline| deadline.min(arrival));
        Self {
            method,
            body,
            received: BytesMut::new(),
            respond: Some(respond),
            deadline: Deadline::at(Some(deadline)),
            client_deadline,
        }
    }

    /// Bytes of the body that have arrived.
    pub fn kept_bytes(&self) -> usize {
        self.received.len()
    }

    /// Adds a part of the body.
    pub fn push(&mut self, dispatcher: &mut Dispatcher, bytes: &[u8]) -> Result<(), CallRejected> {
        // It fails if the client is gone. The next read reports that.
        let _ = self.body.flow_control().release_capacity(bytes.len());
        self.buffer(dispatcher, bytes).map_err(|status| {
            self.reject(dispatcher, &status);
            CallRejected
        })
    }

    /// Buffers a part of the body, and rejects a body that is too large as early as possible.
    fn buffer(&mut self, dispatcher: &Dispatcher, bytes: &[u8]) -> Result<(), GrpcStatus> {
        let message_bytes_max = dispatcher.shared.bounds.body_bytes_max;
        let kept_bytes = self.received.len() + bytes.len();
        if kept_bytes > PREFIX_BYTES + message_bytes_max {
            let message = format!("the body is too large (hint: the maximum is {message_bytes_max} bytes)");
            return Err(GrpcStatus::new(GrpcCode::ResourceExhausted, message));
        }
        dispatcher.check_room(kept_bytes)?;
        self.received.extend_from_slice(bytes);
        framing::message_length(&self.received, message_bytes_max).map(drop)
    }

    /// Polls the body. Ready when the call has ended or becomes another kind of call.
    pub fn poll(&mut self, dispatcher: &mut Dispatcher, context: &mut Context<'_>) -> Poll<Option<Call>> {
        loop {
            match self.body.poll_data(context) {
                Poll::Ready(Some(Ok(bytes))) => {
                    if self.push(dispatcher, &bytes).is_err() {
                        return Poll::Ready(None);
                    }
                }
                Poll::Ready(None) => {
                    let body = std::mem::take(&mut self.received).freeze();
                    let Some(respond) = self.respond.take() else { return Poll::Ready(None) };
                    return Poll::Ready(dispatcher.answer(
                        self.method,
                        body,
                        respond,
                        || self.client_deadline,
                        context,
                    ));
                }
                Poll::Ready(Some(Err(_))) => return Poll::Ready(None),
                Poll::Pending => break,
            }
        }
        if self.deadline.poll(context).is_ready() {
            let message = "the body took too long to arrive";
            self.reject(dispatcher, &GrpcStatus::new(GrpcCode::DeadlineExceeded, message));
            return Poll::Ready(None);
        }
        Poll::Pending
    }

    fn reject(&mut self, dispatcher: &mut Dispatcher, status: &GrpcStatus) {
        if let Some(mut respond) = self.respond.take() {
            dispatcher.reject(&mut respond, status);
        }
    }
}
