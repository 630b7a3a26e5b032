//! A request that waits for its turn, by a rule with the action `delay`, or for a store that is not in this process.

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

/// A request that waits for its turn. Dropped, it leaves its line and has charged nothing, unless a store was asked that is
/// not in this process: what that was asked for may be charged.
pub struct Held {
    respond: SendResponse<Bytes>,
    deciding: Pin<Box<dyn Future<Output = Result<Bytes, GrpcStatus>> + Send>>,
    deadline: Deadline,
    kept_bytes: usize,
}

impl Held {
    /// It begins to wait, until this instant at most; unless the others keep so much that there is no room for it.
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
            let message = match desk.shared.app.is_shared() {
                false => {
                    "the request is held by a rule for longer than the client waits (hint: raise the client's timeout, \
                     or lower `max_wait` of the rule)"
                }
                true => {
                    "the request is held by a rule, or waits for the store, for longer than the client waits (hint: \
                     raise the client's timeout, or lower `max_wait` of the rule or --store-timeout)"
                }
            };
            desk.reject(&mut self.respond, &GrpcStatus::new(GrpcCode::DeadlineExceeded, message));
            return Poll::Ready(());
        }
        Poll::Pending
    }
}
