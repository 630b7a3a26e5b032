//! A call that waits: for a rule with the action `delay`, or for a shared store.

use std::task::{Context, Poll};

use h2::server::SendResponse;
use tokio::time::Instant;

use super::deadline::Deadline;
use super::memory::{DELAYED_CALL_BYTES, KeptBytes, STORE_CALL_BYTES, STREAM_BYTES};
use super::{DecisionSlot, Dispatcher};
use crate::serve::grpc::status::{GrpcCode, GrpcStatus};
use crate::serve::grpc::unsent::ResponseBytes;

/// A call that waits. When dropped, it leaves its wait queue and charges nothing. But if the request was already sent to
/// the shared store, it may be charged.
pub struct WaitingCall {
    respond: SendResponse<ResponseBytes>,
    decision: DecisionSlot,
    deadline: Deadline,
    kept_bytes: KeptBytes,
}

/// What a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// A rule with the action `delay`.
    Rule,
    /// A shared store, and perhaps a rule.
    Store,
}

/// What a call keeps while it waits. `messages` are the bytes of its message and of the request that was read from it.
pub fn kept_bytes(messages: usize, waits_for: WaitsFor) -> KeptBytes {
    let overhead = match waits_for {
        WaitsFor::Rule => DELAYED_CALL_BYTES,
        WaitsFor::Store => STORE_CALL_BYTES,
    };
    KeptBytes { messages, overhead: STREAM_BYTES + overhead }
}

impl WaitsFor {
    fn new(dispatcher: &Dispatcher) -> Self {
        if dispatcher.shared.app.has_shared_store() { Self::Store } else { Self::Rule }
    }
}

impl WaitingCall {
    /// Keeps waiting for the decision, at most until `until`. Rejects the call if the connection has no room for it.
    pub fn start(
        dispatcher: &mut Dispatcher,
        decision: DecisionSlot,
        message_bytes: usize,
        mut respond: SendResponse<ResponseBytes>,
        until: Option<Instant>,
    ) -> Option<Self> {
        let waits_for = WaitsFor::new(dispatcher);
        let kept_bytes = kept_bytes(message_bytes + decision.parts_bytes(), waits_for);
        // With a shared store, `Dispatcher::decide` has already checked for room.
        if waits_for == WaitsFor::Rule
            && let Err(status) = dispatcher.memory.check_call(kept_bytes)
        {
            dispatcher.reject(&mut respond, &status);
            return None;
        }
        Some(Self { respond, decision, deadline: Deadline::at(until), kept_bytes })
    }

    /// What the call keeps.
    pub fn kept_bytes(&self) -> KeptBytes {
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
