//! Calls: those that are answered at once, and those that take longer.
//!
//! ```text
//! begin  ->  answered at once                       nearly always
//!        ->  Receiving, until its body is there     ->  answered, or held
//!        ->  Held, by a rule with the action delay, ->  answered
//!            or while a shared store is asked
//!        ->  Watching, Reflecting                   streams of answers
//! ```
//!
//! `deciding.rs` decides one call. `desk.rs` answers, and knows how much the calls of its connection keep in memory. Of those that take longer, only who
//! was woken is polled: `serve/sleepers.rs`.

mod deadline;
mod deciding;
mod desk;
mod held;
mod receiving;

use std::task::{Context, Poll};

use super::health::HealthWatch;
use super::reflection::ReflectionStream;
pub use deadline::Deadline;
use deciding::DecisionSlot;
pub use desk::Dispatcher;
use held::WaitingCall;
use receiving::ReceivingCall;

/// A call that was not answered at once.
pub enum Call {
    /// Its body is not all there.
    Receiving(ReceivingCall),
    /// It waits for its turn.
    Waiting(WaitingCall),
    /// It wants to know of the server's health.
    HealthWatch(HealthWatch),
    /// It asks what can be called.
    Reflection(ReflectionStream),
}

impl Call {
    /// Goes on; ready when it is over.
    fn poll(&mut self, desk: &mut Dispatcher, context: &mut Context<'_>) -> Poll<()> {
        if let Self::Receiving(receiving) = self {
            match receiving.poll(desk, context) {
                Poll::Ready(Some(next)) => *self = next,
                Poll::Ready(None) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
        match self {
            // It became something else.
            Self::Receiving(_) => Poll::Pending,
            Self::Waiting(held) => held.poll(desk, context),
            Self::HealthWatch(watching) => watching.poll(desk, context),
            Self::Reflection(reflecting) => reflecting.poll(desk, context),
        }
    }

    /// How much of messages it keeps.
    fn kept_bytes(&self) -> usize {
        match self {
            Self::Receiving(receiving) => receiving.kept_bytes(),
            Self::Waiting(held) => held.kept_bytes(),
            Self::HealthWatch(_) => 0,
            Self::Reflection(reflecting) => reflecting.kept_bytes(),
        }
    }
}
