//! Bugs that the checker must find. Each of them was in a real limiter. They are put between the nodes and the network,
//! so the code under test has no hooks for them.

/// A bug to inject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// A node answers "under the limit" for keys that it does not own.
    ForeignKeysAllowed,
    /// The length of the window is not passed on to the store, so that a key never refills.
    WindowNotPassedOn,
    /// Each synchronisation counts twice.
    CountsDoubled,
    /// All nodes use the rules of the first node, which never loads new ones.
    RulesOfFirstNode,
    /// A ttl in milliseconds is read as seconds.
    TtlInSeconds,
    /// What was counted in an old window during a partition is charged to the new one.
    OldHitsInNewWindow,
    /// What was being sent when a partition began is lost.
    CountsLostInFlush,
    /// A bucket gets units back, but the instant of its last refill stays.
    RefundWithoutClock,
    /// A lease does not end with its window.
    LeaseAfterWindow,
    /// The life of a lease is measured from the reply.
    TimeFromReply,
}

impl Mutation {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::ForeignKeysAllowed,
        Self::WindowNotPassedOn,
        Self::CountsDoubled,
        Self::RulesOfFirstNode,
        Self::TtlInSeconds,
        Self::OldHitsInNewWindow,
        Self::CountsLostInFlush,
        Self::RefundWithoutClock,
        Self::LeaseAfterWindow,
        Self::TimeFromReply,
    ];

    /// The name on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ForeignKeysAllowed => "foreign-keys-allowed",
            Self::WindowNotPassedOn => "window-not-passed-on",
            Self::CountsDoubled => "counts-doubled",
            Self::RulesOfFirstNode => "rules-of-first-node",
            Self::TtlInSeconds => "ttl-in-seconds",
            Self::OldHitsInNewWindow => "old-hits-in-new-window",
            Self::CountsLostInFlush => "counts-lost-in-flush",
            Self::RefundWithoutClock => "refund-without-clock",
            Self::LeaseAfterWindow => "lease-after-window",
            Self::TimeFromReply => "time-from-reply",
        }
    }

    /// The mutation of this name.
    pub fn parse(name: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::as_str).join(", ");
        Self::ALL
            .into_iter()
            .find(|mutation| mutation.as_str() == name)
            .ok_or_else(|| format!("there is no such mutation (hint: one of {})", names()))
    }
}
