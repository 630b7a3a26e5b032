//! Where a key is.

/// The most servers that are known at a time. Redis Cluster is not made for more than a thousand nodes, replicas included.
pub(in crate::redis) const SERVERS_MAX: usize = 1024;

/// One server of those that make up the store, by its place in a table. The place of a server that is gone may be taken by
/// another one; what was meant for the old one is then redirected by the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::redis) struct ServerId(u16);

/// Where the keys of a hash tag are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::redis) struct KeyLocation {
    pub server: ServerId,
    /// The slot in Redis Cluster, else 0. A script's keys have to share it.
    pub slot: u16,
}

impl ServerId {
    pub(in crate::redis) const FIRST: Self = Self(0);

    /// None if it is beyond [`SERVERS_MAX`].
    pub(super) fn from_index(index: usize) -> Option<Self> {
        (index < SERVERS_MAX).then(|| u16::try_from(index).ok().map(Self)).flatten()
    }

    /// Its place in a table of at most [`SERVERS_MAX`].
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}
