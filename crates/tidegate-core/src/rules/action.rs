//! What a rule does when a limit is exceeded.

use crate::Nanos;

/// What becomes of a request that is over a limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// Denied, and charged nowhere.
    #[default]
    Reject,
    /// A dry run: charged, reported, let through.
    Shadow,
    /// The client sees success and the upstream is told to drop it; charged nowhere.
    ShadowBan,
    /// Held until it fits, first come first served; denied at once if that takes longer.
    Delay {
        /// The longest that a request is held.
        max_wait: Nanos,
    },
    /// Let through and marked while it is over by no more than a margin; then denied.
    Soft(Margin),
    /// The limit moves between two bounds.
    Elastic(Elastic),
    /// Let through; the descriptor's own status says that it is over.
    Quota,
}

/// How far over a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Margin {
    /// By so many percent of it.
    Percent(u32),
    /// However far: it marks and never denies.
    Unlimited,
}

/// A limit whose L moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elastic {
    /// Always granted. No more than L.
    pub min: u64,
    /// Never exceeded. No less than L.
    pub max: u64,
    /// What decides in between.
    pub source: ElasticSource,
}

/// What an elastic limit moves with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElasticSource {
    /// A pool of the same domain: over `min` as long as it has room.
    Pool(Box<str>),
    /// A signal from 0 to 1 that is pushed: L is `min` at 0 and `max` at 1, and as written without a signal.
    Signal(Box<str>),
}
