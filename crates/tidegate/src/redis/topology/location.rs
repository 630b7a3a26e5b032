//! Where a key is.

/// Known servers at most. Redis Cluster is not made for more than a thousand nodes, replicas included.
pub(crate) const SERVERS_MAX: usize = 1024;

/// A server of the store, by its index in a table. The index of a removed server may be reused. Commands for
/// the old server are then redirected by the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ServerId(u16);

/// Where the keys of a hash tag are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct KeyLocation {
    pub server: ServerId,
    /// The slot in Redis Cluster, or else 0. All keys of a call must share it.
    pub slot: u16,
}

/// Whether a key may move to another server of a ring while its own is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum KeyMobility {
    /// It moves, and starts empty there.
    Movable,
    /// It never moves. Another server knows nothing of its units or leases, and would grant them again.
    Fixed,
}

impl ServerId {
    pub(crate) const FIRST: Self = Self(0);

    /// None if it is beyond [`SERVERS_MAX`].
    pub(crate) fn from_index(index: usize) -> Option<Self> {
        (index < SERVERS_MAX).then(|| u16::try_from(index).ok().map(Self)).flatten()
    }

    /// Its index in a table of at most [`SERVERS_MAX`].
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}
