//! A request that waits for its turn, by a rule with the action `delay`.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use h2::server::SendResponse;
use http::HeaderMap;

use super::deadline::Deadline;
use super::{Desk, decide};
use crate::serve::grpc::status::{GrpcCode, GrpcStatus};
use crate::serve::grpc::{Shared, head};

/// A request that waits for its turn. Dropped, it leaves its line and has charged nothing.
pub struct Held {
    respond: SendResponse<Bytes>,
    deciding: Pin<Box<dyn Future<Output = Result<Bytes, GrpcStatus>> + Send>>,
    deadline: Deadline,
}

impl Held {
    /// It begins to wait.
    #[cold]
    pub fn begin(
        shared: &Arc<Shared>,
        message: Bytes,
        respond: SendResponse<Bytes>,
        headers: &HeaderMap,
    ) -> Self {
        let shared = Arc::clone(shared);
        let deciding = Box::pin(async move { decide(&shared, &message, &mut BytesMut::new()).await });
        Self { respond, deciding, deadline: Deadline::after(head::timeout(headers)) }
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
