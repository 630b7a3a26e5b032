//! How charges are decided where nodes share a store.

/// How a charge is decided where nodes share a store. A store that is not shared ignores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StorePolicy {
    /// Where the charge is counted.
    pub mode: Mode,
    /// What happens while the shared store does not answer.
    pub on_store_failure: OnStoreFailure,
    /// Whether the charge may be denied from memory.
    pub deny_cache: DenyCache,
}

/// Where a charge is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// In the shared store, for every decision.
    #[default]
    Strict,
    /// In this process. Each node has the whole limit.
    Local,
}

/// What happens to a limit while the shared store does not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnStoreFailure {
    /// Each node enforces its share of the limit: with four nodes, a limit of 100 is a limit of 25 on each.
    #[default]
    Local,
    /// The limit is ignored.
    Allow,
    /// Requests that fall under the limit are denied as unavailable. A limit that denies no request is counted as with
    /// `Local`.
    Deny,
}

/// Whether a node may deny from memory while it knows that the shared store would deny.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DenyCache {
    /// It may.
    #[default]
    On,
    /// The store is asked every time.
    Off,
}

impl StorePolicy {
    /// Strict, and with this node's share of the limit while the store does not answer.
    pub const DEFAULT: Self =
        Self { mode: Mode::Strict, on_store_failure: OnStoreFailure::Local, deny_cache: DenyCache::On };

    /// The policy of a charge that is made for two limits: the stricter of both.
    pub(crate) fn stricter(self, other: Self) -> Self {
        let on_store_failure = match (self.on_store_failure, other.on_store_failure) {
            (OnStoreFailure::Deny, _) | (_, OnStoreFailure::Deny) => OnStoreFailure::Deny,
            (OnStoreFailure::Local, _) | (_, OnStoreFailure::Local) => OnStoreFailure::Local,
            (OnStoreFailure::Allow, OnStoreFailure::Allow) => OnStoreFailure::Allow,
        };
        let mode = if self.mode == Mode::Strict { self.mode } else { other.mode };
        let deny_cache = if self.deny_cache == DenyCache::Off { self.deny_cache } else { other.deny_cache };
        Self { mode, on_store_failure, deny_cache }
    }
}

impl Default for StorePolicy {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl OnStoreFailure {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Local, Self::Allow, Self::Deny];

    /// As it is written in rules.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }
}
