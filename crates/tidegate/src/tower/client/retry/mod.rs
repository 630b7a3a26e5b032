//! Waits for limits of servers, and retries.
//!
//! ```text
//! layer.rs         the layer, its service and settings
//! task.rs          one request: its waits and attempts
//! hints.rs         what a response says about when to send again
//! known_limits.rs  until when servers have said that their limits are used up
//! policy.rs        which attempts are retried
//! backoff.rs       pauses with jitter
//! budget.rs        how many retries there may be
//! replay_body.rs   a request body that can be sent again
//! ```

mod backoff;
mod budget;
mod hints;
mod known_limits;
mod layer;
mod policy;
mod replay_body;
mod task;

pub use backoff::Backoff;
pub use budget::RetryBudget;
pub use layer::{ATTEMPTS_MAX_DEFAULT, DEADLINE_DEFAULT, REPLAY_BYTES_MAX_DEFAULT, RetryLayer, RetryService};
pub use policy::{Attempt, AttemptResult, RetryChoice};
pub use replay_body::ReplayBody;
