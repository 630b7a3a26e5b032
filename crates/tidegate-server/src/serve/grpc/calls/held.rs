//! A request that waits for its turn, by a rule with the action `delay`.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use h2::server::SendResponse;
use tokio::time::Instant;

use super::Desk;
use super::deadline::Deadline;
use super::desk::decide;
use crate::serve::grpc::messages::read_request;
use crate::serve::grpc::status::{GrpcCode, GrpcStatus};

/// A request that waits for its turn. Dropped, it leaves its line and has charged nothing.
pub struct Held {
    respond: SendResponse<Bytes>,
    deciding: Pin<Box<dyn Future<Output = Result<Bytes, GrpcStatus>> + Send>>,
    deadline: Deadline,
    kept_bytes: usize,
}

impl Held {
    /// It begins to wait, until this instant at most; unless the others keep so much that there is no room for it.
    #[cold]
    pub fn begin(
        desk: &mut Desk,
        message: &[u8],
        mut respond: SendResponse<Bytes>,
        until: Option<Instant>,
    ) -> Option<Self> {
        let parts_bytes = read_request(message).map_or(0, |request| request.parts_bytes());
        let kept_bytes = message.len() + parts_bytes;
        if let Err(full) = desk.check_room(kept_bytes) {
            desk.reject(&mut respond, &full);
            return None;
        }
        let shared = Arc::clone(&desk.shared);
        // A copy: the message is a part of what was read from the connection at once, and would keep all of it.
        let message: Box<[u8]> = message.into();
        let deciding = Box::pin(async move { decide(&shared, &message, &mut BytesMut::new()).await });
        Some(Self { respond, deciding, deadline: Deadline::at(until), kept_bytes })
    }

    /// How much of the message it keeps, and of what was read from it.
    pub fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// Goes on; ready when it is over.
    pub fn poll(&mut self, desk: &mut Desk, context: &mut Context<'_>) -> Poll<()> {
        if let Poll::Ready(answer) = self.deciding.as_mut().poll(context) {
            desk.finish(&mut self.respond, answer);
            return Poll::Ready(());
        }
        if self.respond.poll_reset(context).is_ready() {
            return Poll::Ready(());
        }
        if self.deadline.poll(context).is_ready() {
            let message = "the request is held by a rule for longer than the client waits (hint: raise the client's \
                           timeout, or lower `max_wait` of the rule)";
            desk.reject(&mut self.respond, &GrpcStatus::new(GrpcCode::DeadlineExceeded, message));
            return Poll::Ready(());
        }
        Poll::Pending
    }
}
