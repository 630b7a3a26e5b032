//! Calls: most are answered immediately, the others are kept until they end.
//!
//! ```text
//! start  ->  answered                                        nearly always
//!        ->  Receiving, until its body is complete           ->  answered, or Waiting
//!        ->  Waiting, for a rule with the action `delay`     ->  answered
//!            or for a shared store
//!        ->  HealthWatch, Reflection                         streams of responses
//! ```
//!
//! `decision_slot.rs` decides one call. `dispatcher.rs` answers calls, `memory.rs` bounds the memory that they take.
//! Unfinished calls are polled only when they were woken (`serve/future_set.rs`).

mod deadline;
mod decision_slot;
mod dispatcher;
mod memory;
mod receiving;
mod waiting;

use std::task::{Context, Poll};

use super::health::HealthWatch;
use super::reflection::ReflectionStream;
use decision_slot::DecisionSlot;
use memory::KeptBytes;
use receiving::ReceivingCall;
use waiting::WaitingCall;

pub use deadline::Deadline;
pub use dispatcher::Dispatcher;

/// A call that was not answered immediately.
pub enum Call {
    /// Its body is incomplete.
    Receiving(ReceivingCall),
    /// It waits for its decision.
    Waiting(WaitingCall),
    /// It watches the server's health.
    HealthWatch(HealthWatch),
    /// It is a stream of reflection requests.
    Reflection(ReflectionStream),
}

impl Call {
    /// Polls the call. Ready when it has ended.
    fn poll(&mut self, dispatcher: &mut Dispatcher, context: &mut Context<'_>) -> Poll<()> {
        if let Self::Receiving(receiving) = self {
            match receiving.poll(dispatcher, context) {
                Poll::Ready(Some(next)) => *self = next,
                Poll::Ready(None) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
        match self {
            // Unreachable: it was replaced above.
            Self::Receiving(_) => Poll::Pending,
            Self::Waiting(waiting) => waiting.poll(dispatcher, context),
            Self::HealthWatch(watch) => watch.poll(dispatcher, context),
            Self::Reflection(reflection) => reflection.poll(dispatcher, context),
        }
    }

    /// What the call keeps, with its stream.
    fn kept_bytes(&self) -> KeptBytes {
        match self {
            Self::Receiving(receiving) => KeptBytes::of_messages(receiving.kept_bytes()),
            Self::Waiting(waiting) => waiting.kept_bytes(),
            Self::HealthWatch(_) => KeptBytes::of_messages(0),
            Self::Reflection(reflection) => KeptBytes::of_messages(reflection.kept_bytes()),
        }
    }
}
