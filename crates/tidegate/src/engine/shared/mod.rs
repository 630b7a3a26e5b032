//! Rules over a store that a fleet shares, which answers later, or not at all.
//!
//! ```text
//! Deciding, at its first poll  ->  decide    deciding.rs   by the rules as they are, and once more if they change
//!                              ->  turn      waiting.rs    it comes, may stand in a line (line.rs), leaves with an answer (turn.rs)
//!                              ->  settle    asking.rs     as for memory: pools, what is tried out, what attempts leave
//!                              ->  put       asking.rs     one question to the shared store
//!                              ->  without   without.rs    where it does not answer: by the policy of each rule
//! ```
//!
//! The future of a decision is polled by tasks of whatever runtime, on whatever thread; nothing here needs one. It holds
//! the rules that it began with, and looks for others when it has waited.

mod asking;
mod deciding;
mod line;
mod turn;
mod waiting;
mod without;

pub(super) use asking::{Asker, Want, whole};
pub(super) use deciding::{Parts, decide};
pub(super) use without::{settle_plan, stands_in_for};

use std::sync::Arc;

use tidegate_core::Timestamp;

use super::Engine;
use crate::{Clock, Lease, SharedStore};

/// The store that a fleet shares.
pub(super) struct Shared {
    pub store: Arc<dyn SharedStore>,
}

impl<C: Clock> Engine<C> {
    /// The same with counters that a fleet shares: what is decided by [`decide`](Engine::decide), `acquire` and whatever
    /// else is a future is decided there. While the shared store does not answer, each rule's
    /// [`on_store_failure`](crate::rules::Rule::on_store_failure) says what becomes of its limits, answers are
    /// [marked](crate::rules::Answer::degraded), and the engine's own store has this process's share of them.
    ///
    /// The rules [in force](Engine::in_force) go on asking the engine's own store.
    #[must_use]
    pub fn sharing(mut self, store: Arc<dyn SharedStore>) -> Self {
        self.shared = Some(Shared { store });
        self
    }

    /// The store that a fleet shares, if there is one.
    pub fn shared(&self) -> Option<&Arc<dyn SharedStore>> {
        self.shared.as_ref().map(|shared| &shared.store)
    }
}

/// A lease of the shared store as one that ends by the engine's clock, which is the one that its holder goes by. It was asked
/// for at `asked`, so it was not handed out before that, and ends for its holder no later than in the store.
pub(super) fn by_our_clock(lease: Lease, asked: Timestamp) -> Lease {
    Lease { since: asked, expires: asked.saturating_add(lease.lasts()), ..lease }
}
