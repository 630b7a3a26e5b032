//! A call whose body is not all there.

use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use h2::RecvStream;
use h2::server::SendResponse;
use http::HeaderMap;

use super::deadline::Deadline;
use super::{Call, Desk};
use crate::serve::grpc::connection::BODIES_BYTES_MAX;
use crate::serve::grpc::framing::{self, PREFIX_BYTES};
use crate::serve::grpc::head::{self, Method};
use crate::serve::grpc::status::{GrpcCode, GrpcStatus};

/// A call whose body is not all there.
pub struct Receiving {
    method: Method,
    headers: HeaderMap,
    body: RecvStream,
    received: BytesMut,
    /// Taken when it is answered.
    respond: Option<SendResponse<Bytes>>,
    deadline: Deadline,
}

/// The call was turned away.
pub struct TurnedAway;

impl Receiving {
    /// Nothing of it is there.
    #[cold]
    pub fn begin(
        desk: &Desk,
        method: Method,
        body: RecvStream,
        respond: SendResponse<Bytes>,
        headers: HeaderMap,
    ) -> Self {
        let time = desk.shared.bounds.header_timeout;
        let time = head::timeout(&headers).map_or(time, |clients| clients.min(time));
        let deadline = Deadline::after(Some(time));
        Self { method, headers, body, received: BytesMut::new(), respond: Some(respond), deadline }
    }

    /// How much is there.
    pub fn held_bytes(&self) -> usize {
        self.received.len()
    }

    /// More of it is there.
    pub fn push(&mut self, desk: &mut Desk, bytes: &[u8]) -> Result<(), TurnedAway> {
        // It fails if the client is gone, of which the next read will tell.
        let _ = self.body.flow_control().release_capacity(bytes.len());
        desk.bodies_bytes += bytes.len();
        let message_bytes_max = desk.shared.bounds.body_bytes_max;
        let is_too_long = self.received.len() + bytes.len() > PREFIX_BYTES + message_bytes_max;
        if is_too_long || desk.bodies_bytes > BODIES_BYTES_MAX {
            let message =
                "the body is too large, or there are too many unfinished ones (hint: send less at a time)";
            return Err(self.turn_away(desk, &GrpcStatus::new(GrpcCode::ResourceExhausted, message)));
        }
        self.received.extend_from_slice(bytes);
        // What will be refused is not waited for.
        match framing::length(&self.received, message_bytes_max) {
            Ok(_) => Ok(()),
            Err(status) => Err(self.turn_away(desk, &status)),
        }
    }

    /// Goes on. Ready when the call is over, or becomes another.
    pub fn poll(&mut self, desk: &mut Desk, context: &mut Context<'_>) -> Poll<Option<Call>> {
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
                    return Poll::Ready(desk.answer(self.method, body, respond, &self.headers, context));
                }
                Poll::Ready(Some(Err(_))) => return Poll::Ready(None),
                Poll::Pending => break,
            }
        }
        if self.deadline.poll(context).is_ready() {
            let message = "the body took too long to arrive";
            let _ = self.turn_away(desk, &GrpcStatus::new(GrpcCode::DeadlineExceeded, message));
            return Poll::Ready(None);
        }
        Poll::Pending
    }

    fn turn_away(&mut self, desk: &mut Desk, status: &GrpcStatus) -> TurnedAway {
        if let Some(mut respond) = self.respond.take() {
            desk.reject(&mut respond, status);
        }
        TurnedAway
    }
}
