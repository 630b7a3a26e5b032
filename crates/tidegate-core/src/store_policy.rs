//! How charges are decided where nodes share a store.

use std::num::NonZeroU32;

use crate::Limit;

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
    /// In this process, from units that this node debited in the shared store in advance: a quota lease.
    Leased {
        /// The longest life of a quota lease, in microseconds. It begins when the lease is asked for.
        lease_us: NonZeroU32,
    },
    /// In this process, from a copy of the shared count. Own units are added to the shared count afterwards.
    Eventual {
        /// The longest time between two synchronisations of a key that is in use, in microseconds.
        sync_us: NonZeroU32,
        /// What happens to units beyond the limit of a fixed window when the window ends.
        carry: Carry,
    },
    /// In this process. Each node has the whole limit.
    Local,
}

/// What happens to units beyond the limit of a fixed window when the window ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Carry {
    /// They count in the next window, up to the limit.
    #[default]
    On,
    /// They are forgotten.
    Off,
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

    /// The same policy. A charge that would be leased or eventual is asked strictly.
    #[must_use]
    pub fn strict_or_local(self) -> Self {
        let mode = match self.mode {
            Mode::Leased { .. } | Mode::Eventual { .. } => Mode::Strict,
            mode @ (Mode::Strict | Mode::Local) => mode,
        };
        Self { mode, ..self }
    }

    /// The policy of a charge that is made for two limits: the stricter of both.
    pub(crate) fn stricter(self, other: Self) -> Self {
        let on_store_failure = match (self.on_store_failure, other.on_store_failure) {
            (OnStoreFailure::Deny, _) | (_, OnStoreFailure::Deny) => OnStoreFailure::Deny,
            (OnStoreFailure::Local, _) | (_, OnStoreFailure::Local) => OnStoreFailure::Local,
            (OnStoreFailure::Allow, OnStoreFailure::Allow) => OnStoreFailure::Allow,
        };
        let mode = if self.mode.strictness() >= other.mode.strictness() { self.mode } else { other.mode };
        let deny_cache = if self.deny_cache == DenyCache::Off { self.deny_cache } else { other.deny_cache };
        Self { mode, on_store_failure, deny_cache }
    }
}

impl Default for StorePolicy {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Mode {
    /// The longest default life of a quota lease.
    const LEASE_US_MAX: u64 = 1_000_000;
    /// The default time between synchronisations.
    const SYNC_US: NonZeroU32 = NonZeroU32::new(100_000).unwrap();

    /// Leased, with the default life of a lease: a tenth of the window, and at most a second.
    pub fn leased(limit: &Limit) -> Self {
        let lease_us = (limit.rate().window_ns() / 10_000).clamp(1, Self::LEASE_US_MAX);
        Self::Leased {
            lease_us: u32::try_from(lease_us).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN),
        }
    }

    /// Eventual, with the default interval of 100 ms, and with the carry of fixed windows.
    pub const fn eventual() -> Self {
        Self::Eventual { sync_us: Self::SYNC_US, carry: Carry::On }
    }

    /// As it is written in rules.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Leased { .. } => "leased",
            Self::Eventual { .. } => "eventual",
            Self::Local => "local",
        }
    }

    /// A larger number for a mode that promises more.
    const fn strictness(self) -> u8 {
        match self {
            Self::Strict => 3,
            Self::Leased { .. } => 2,
            Self::Eventual { .. } => 1,
            Self::Local => 0,
        }
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
