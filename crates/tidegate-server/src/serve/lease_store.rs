//! The store of leases, if it is not that of the counters.

use tidegate::etcd::EtcdStore;

/// An etcd for leases.
pub struct LeaseStore {
    /// The store.
    pub store: EtcdStore,
    /// The URL of the store, without a password.
    pub url: String,
}
