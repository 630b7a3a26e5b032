//! A request that waits for its turn, by a rule with the action `delay`, or for a store that is not in this process.

use std::task::{Context, Poll};

use bytes::Bytes;
use h2::server::SendResponse;
use tokio::time::Instant;

use super::deadline::Deadline;
use super::{DecisionSlot, Dispatcher};
use crate::serve::grpc::status::{GrpcCode, GrpcStatus};

/// A request that waits for its turn. Dropped, it leaves its line and has charged nothing, unless a store was asked that is
/// not in this process: what that was asked for may be charged.
pub struct WaitingCall {
    respond: SendResponse<Bytes>,
    decision: DecisionSlot,
    deadline: Deadline,
    kept_bytes: usize,
}

impl WaitingCall {
    /// A call that was not decided at once waits on, until this instant at most; unless the others keep so much that there is no
    /// room for it.
    pub fn start(
        desk: &mut Dispatcher,
        deciding: DecisionSlot,
        message_bytes: usize,
        mut respond: SendResponse<Bytes>,
        until: Option<Instant>,
    ) -> Option<Self> {
        let kept_bytes = message_bytes + deciding.parts_bytes();
        // A request that a shared store was asked about is answered.
        if !desk.shared.app.has_shared_store()
            && let Err(full) = desk.check_room(kept_bytes)
        {
            desk.reject(&mut respond, &full);
            return None;
        }
        Some(Self { respond, decision: deciding, deadline: Deadline::at(until), kept_bytes })
    }

    /// How much of the message it keeps, and of what was read from it.
    pub fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// Goes on; ready when it is over.
    pub fn poll(&mut self, desk: &mut Dispatcher, context: &mut Context<'_>) -> Poll<()> {
        if let Poll::Ready(answer) = self.decision.poll(context) {
            desk.finish(&mut self.respond, answer);
            return Poll::Ready(());
        }
        if self.respond.poll_reset(context).is_ready() {
            return Poll::Ready(());
        }
        if self.deadline.poll(context).is_ready() {
            let message = match desk.shared.app.has_shared_store() {
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
