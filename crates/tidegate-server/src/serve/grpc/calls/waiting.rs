//! A call that waits: for a rule with the action `delay`, or for a shared store.

use std::task::{Context, Poll};

use bytes::Bytes;
use h2::server::SendResponse;
use tokio::time::Instant;

use super::deadline::Deadline;
use super::{DecisionSlot, Dispatcher};
use crate::serve::grpc::status::{GrpcCode, GrpcStatus};

/// A call that waits. When dropped, it leaves its wait queue and charges nothing. But if the request was already sent to
/// the shared store, it may be charged.
pub struct WaitingCall {
    respond: SendResponse<Bytes>,
    decision: DecisionSlot,
    deadline: Deadline,
    kept_bytes: usize,
}

impl WaitingCall {
    /// Keeps waiting for the decision, at most until `until`. Rejects the call if the connection has no room for it.
    pub fn start(
        dispatcher: &mut Dispatcher,
        decision: DecisionSlot,
        message_bytes: usize,
        mut respond: SendResponse<Bytes>,
        until: Option<Instant>,
    ) -> Option<Self> {
        let kept_bytes = message_bytes + decision.parts_bytes();
        // With a shared store, `Dispatcher::decide` has already checked for room.
        if !dispatcher.shared.app.has_shared_store()
            && let Err(status) = dispatcher.check_room(kept_bytes)
        {
            dispatcher.reject(&mut respond, &status);
            return None;
        }
        Some(Self { respond, decision, deadline: Deadline::at(until), kept_bytes })
    }

    /// Bytes of the message and of the request that was read from it.
    pub fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// Polls the call. Ready when it has ended.
    pub fn poll(&mut self, dispatcher: &mut Dispatcher, context: &mut Context<'_>) -> Poll<()> {
        if let Poll::Ready(answer) = self.decision.poll(context) {
            dispatcher.finish(&mut self.respond, answer);
            return Poll::Ready(());
        }
        if self.respond.poll_reset(context).is_ready() {
            return Poll::Ready(());
        }
        if self.deadline.poll(context).is_ready() {
            let message = match dispatcher.shared.app.has_shared_store() {
                false => {
                    "a rule delayed the request past the client's deadline (hint: raise the client's timeout, \
                     or lower `max_wait` of the rule)"
                }
                true => {
                    "a rule or the store delayed the request past the client's deadline (hint: \
                     raise the client's timeout, or lower `max_wait` of the rule or --store-timeout)"
                }
            };
            dispatcher.reject(&mut self.respond, &GrpcStatus::new(GrpcCode::DeadlineExceeded, message));
            return Poll::Ready(());
        }
        Poll::Pending
    }
}
