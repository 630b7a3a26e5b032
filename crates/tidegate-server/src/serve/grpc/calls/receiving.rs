//! A call whose body is not all there.

use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use h2::RecvStream;
use h2::server::SendResponse;
use http::HeaderMap;
use tokio::time::Instant;

use super::deadline::{self, Deadline};
use super::{Call, Dispatcher};
use crate::serve::grpc::framing::{self, PREFIX_BYTES};
use crate::serve::grpc::head::SingleMessageMethod;
use crate::serve::grpc::status::{GrpcCode, GrpcStatus};

/// A call whose body is not all there.
pub struct ReceivingCall {
    method: SingleMessageMethod,
    body: RecvStream,
    received: BytesMut,
    /// Taken when it is answered.
    respond: Option<SendResponse<Bytes>>,
    /// When the rest of the body is not waited for any more.
    deadline: Deadline,
    /// Until when the client waits for the answer.
    client_deadline: Option<Instant>,
}

/// The call was turned away.
pub struct CallRejected;

impl ReceivingCall {
    /// Nothing of it is there.
    #[cold]
    pub fn start(
        desk: &Dispatcher,
        method: SingleMessageMethod,
        body: RecvStream,
        respond: SendResponse<Bytes>,
        headers: &HeaderMap,
    ) -> Self {
        let until = deadline::from_headers(headers);
        let late = Instant::now() + desk.shared.bounds.header_timeout;
        let deadline = Deadline::at(Some(until.map_or(late, |until| until.min(late))));
        Self { method, body, received: BytesMut::new(), respond: Some(respond), deadline, client_deadline: until }
    }

    /// How much is there.
    pub fn kept_bytes(&self) -> usize {
        self.received.len()
    }

    /// More of it is there.
    pub fn push(&mut self, desk: &mut Dispatcher, bytes: &[u8]) -> Result<(), CallRejected> {
        // It fails if the client is gone, of which the next read will tell.
        let _ = self.body.flow_control().release_capacity(bytes.len());
        self.buffer(desk, bytes).map_err(|status| {
            self.reject(desk, &status);
            CallRejected
        })
    }

    /// Keeps more of it; what will be refused is neither kept nor waited for.
    fn buffer(&mut self, desk: &Dispatcher, bytes: &[u8]) -> Result<(), GrpcStatus> {
        let message_bytes_max = desk.shared.bounds.body_bytes_max;
        let kept_bytes = self.received.len() + bytes.len();
        if kept_bytes > PREFIX_BYTES + message_bytes_max {
            let message = format!("the body is too large (hint: {message_bytes_max} bytes are the most)");
            return Err(GrpcStatus::new(GrpcCode::ResourceExhausted, message));
        }
        desk.check_room(kept_bytes)?;
        self.received.extend_from_slice(bytes);
        framing::message_length(&self.received, message_bytes_max).map(drop)
    }

    /// Goes on. Ready when the call is over, or becomes another.
    pub fn poll(&mut self, desk: &mut Dispatcher, context: &mut Context<'_>) -> Poll<Option<Call>> {
        loop {
            match self.body.poll_data(context) {
                Poll::Ready(Some(Ok(bytes))) => {
                    if self.push(desk, &bytes).is_err() {
                        return Poll::Ready(None);
                    }
                }
                Poll::Ready(None) => {
                    let body = std::mem::take(&mut self.received).freeze();
                    let Some(respond) = self.respond.take() else { return Poll::Ready(None) };
                    return Poll::Ready(desk.answer(self.method, body, respond, || self.client_deadline, context));
                }
                Poll::Ready(Some(Err(_))) => return Poll::Ready(None),
                Poll::Pending => break,
            }
        }
        if self.deadline.poll(context).is_ready() {
            let message = "the body took too long to arrive";
            self.reject(desk, &GrpcStatus::new(GrpcCode::DeadlineExceeded, message));
            return Poll::Ready(None);
        }
        Poll::Pending
    }

    fn reject(&mut self, desk: &mut Dispatcher, status: &GrpcStatus) {
        if let Some(mut respond) = self.respond.take() {
            desk.reject(&mut respond, status);
        }
    }
}
