//! What a rule does when a limit is exceeded.

use crate::Nanos;

/// What happens to a request that is over a limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// Deny it and charge nothing.
    #[default]
    Reject,
    /// Dry run: charge it, report it, and let it pass.
    Shadow,
    /// The client sees success and the upstream is told to drop the request. Charges nothing.
    ShadowBan,
    /// Hold it until it fits, first come first served. Deny it immediately if that would take longer than `max_wait`.
    Delay {
        /// The longest time that a request is held.
        max_wait: Nanos,
    },
    /// Let it pass and mark it while it is over by no more than a margin; deny it beyond.
    Soft(Margin),
    /// The limit varies between two bounds.
    Elastic(Elastic),
    /// Let it pass. The status of the descriptor says that it is over.
    Quota,
}

/// How far a request may be over a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Margin {
    /// By this many percent of the limit.
    Percent(u32),
    /// By any amount: the limit marks requests and never denies them.
    Unlimited,
}

/// A limit with a variable L.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elastic {
    /// Always granted. At most L.
    pub min: u64,
    /// Never exceeded. At least L.
    pub max: u64,
    /// What decides between the two.
    pub source: ElasticSource,
}

/// What changes the L of an elastic limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElasticSource {
    /// A pool of the same domain: the limit may exceed `min` while the pool has room.
    Pool(Box<str>),
    /// A pushed signal from 0 to 1: L is `min` at 0 and `max` at 1. Without a signal, L is as written.
    Signal(Box<str>),
}
