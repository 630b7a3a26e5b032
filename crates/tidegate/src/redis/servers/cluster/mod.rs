//! Redis Cluster: which server has which slot.
//!
//! Every server of a cluster knows; one of them is asked at the start, now and then, and whenever there is reason to think that
//! something changed ([`refresh`]). Servers say themselves if a slot is not theirs any more, which is noted at once.

mod find;
mod refresh;
mod view;

use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use tokio::sync::Notify;

use super::attempts::Attempts;
use super::finder::Finder;
use super::keeper::Kept;
use super::means::Means;
use super::place::{Place, SERVERS_MAX, ServerId};
use super::server::{Part, Server};
use super::slot::{SLOTS, slot_of};
use super::stats::ServerStats;
use crate::redis::ticking::Due;
use crate::redis::url::Address;

pub(super) use find::{find_and_keep_refreshing, unconnected};
pub(super) use refresh::{connect, keep_refreshing};

/// In the place of a server: nobody is known to have that slot.
const NOBODY: u16 = u16::MAX;

/// A cluster, as far as it is known.
pub(super) struct Cluster {
    means: Arc<Means>,
    /// Those that the URL names. They are asked if nobody else answers.
    seeds: Vec<Address>,
    /// For each slot the place of its server in the table.
    owners: Box<[AtomicU16]>,
    /// At most [`SERVERS_MAX`].
    table: ArcSwap<Vec<Option<Arc<Known>>>>,
    /// Held while the table is changed.
    changing: Mutex<()>,
    /// Told when there is reason to ask who has which slot.
    worried: Arc<Notify>,
    /// When it is asked without any reason.
    refresh_due: Due,
    /// To find it for the first time.
    attempts: Attempts,
}

/// A server of the table.
struct Known {
    kept: Kept,
    address: Address,
    /// How often in a row the cluster was asked and did not mention it.
    unmentioned: AtomicU16,
}

impl Cluster {
    fn new(means: Arc<Means>, seeds: Vec<Address>) -> Self {
        Self {
            means,
            seeds,
            owners: (0..SLOTS).map(|_| AtomicU16::new(NOBODY)).collect(),
            table: ArcSwap::default(),
            changing: Mutex::new(()),
            worried: Arc::new(Notify::new()),
            refresh_due: Due::default(),
            attempts: Attempts::default(),
        }
    }

    pub fn place(&self, tag: &[u8]) -> Place {
        let slot = slot_of(tag);
        let owner = self.owners[usize::from(slot)].load(Relaxed);
        // Somebody will say whose it is.
        let server = ServerId::at(usize::from(owner)).unwrap_or(ServerId::FIRST);
        Place { server, slot }
    }

    /// The server at this place of the table, or any other if it is gone.
    pub fn server(&self, id: ServerId) -> Option<Arc<Server>> {
        let table = self.table.load();
        let known = table.get(id.index()).and_then(Option::as_ref);
        known.or_else(|| table.iter().flatten().next()).map(|known| known.kept.server.clone())
    }

    pub fn servers(&self) -> Vec<Arc<Server>> {
        self.table.load().iter().flatten().map(|known| known.kept.server.clone()).collect()
    }

    /// Of all servers. Before any is known, of the cluster as a whole.
    pub fn stats(&self) -> Vec<ServerStats> {
        let servers: Vec<_> = self.servers().iter().map(|server| server.stats()).collect();
        if servers.is_empty() { self.stats_of_search().into_iter().collect() } else { servers }
    }

    /// The server at this address, which may be new. None if there are too many.
    pub fn at(&self, address: &Address) -> Option<Arc<Server>> {
        self.server(self.id_at(address)?)
    }

    /// Somebody says that this slot belongs to the server at this address.
    pub fn moved(&self, slot: u16, address: &Address) -> Option<Arc<Server>> {
        self.worried.notify_one();
        let id = self.id_at(address)?;
        self.give(slot, id);
        self.server(id)
    }

    fn give(&self, slot: u16, owner: ServerId) {
        if let (Some(place), Ok(owner)) = (self.owners.get(usize::from(slot)), u16::try_from(owner.index())) {
            place.store(owner, Relaxed);
        }
    }

    fn id_at(&self, address: &Address) -> Option<ServerId> {
        if let Some(id) = self.find(address) {
            return Some(id);
        }
        self.add(address, || Kept::new(self.new_server(address.clone(), NOBODY)))
    }

    fn find(&self, address: &Address) -> Option<ServerId> {
        let table = self.table.load();
        let at = |known: &Option<Arc<Known>>| known.as_ref().is_some_and(|known| known.address == *address);
        table.iter().position(at).and_then(ServerId::at)
    }

    fn add(&self, address: &Address, kept: impl FnOnce() -> Kept) -> Option<ServerId> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(id) = self.find(address) {
            return Some(id);
        }
        let mut table = Vec::clone(&self.table.load());
        let free = table.iter().position(Option::is_none).unwrap_or(table.len());
        let id = ServerId::at(free).filter(|_| free < SERVERS_MAX)?;
        let known =
            Arc::new(Known { kept: kept(), address: address.clone(), unmentioned: AtomicU16::new(0) });
        if free == table.len() {
            table.push(Some(known));
        } else {
            table[free] = Some(known);
        }
        self.table.store(Arc::new(table));
        Some(id)
    }

    fn new_server(&self, address: Address, slot: u16) -> Arc<Server> {
        let part = Part::OfCluster { slot: AtomicU16::new(slot), worried: self.worried.clone() };
        Server::new(self.means.clone(), Finder::At(address), part)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Address, Cluster, Means, NOBODY, SERVERS_MAX, slot_of};
    use crate::redis::RedisSettings;

    fn cluster() -> Cluster {
        let settings = RedisSettings::new("redis-cluster://127.0.0.1:1".parse().expect("a URL"));
        Cluster::new(Arc::new(Means::new(&settings, &[]).expect("means")), Vec::new())
    }

    fn address(number: usize) -> Address {
        Address { host: format!("host-{number}").into(), port: 1 }
    }

    #[tokio::test]
    async fn a_slot_that_moved_is_noted_at_once() {
        let cluster = cluster();
        let slot = slot_of(b"user");
        assert_eq!(cluster.owners[usize::from(slot)].load(std::sync::atomic::Ordering::Relaxed), NOBODY);
        for number in [0, 1, 0] {
            let server = cluster.moved(slot, &address(number)).expect("a server");
            let placed = cluster.place(b"user");
            assert!(Arc::ptr_eq(&server, &cluster.server(placed.server).expect("a server")));
            assert_eq!((placed.slot, server.address()), (slot, address(number)));
        }
        assert_eq!(cluster.servers().len(), 2);
    }

    #[tokio::test]
    async fn there_are_never_too_many_servers() {
        let cluster = cluster();
        for number in 0..SERVERS_MAX {
            assert!(cluster.at(&address(number)).is_some());
        }
        assert!(cluster.at(&address(SERVERS_MAX)).is_none());
        assert!(cluster.at(&address(7)).is_some());
        assert_eq!(cluster.servers().len(), SERVERS_MAX);
    }
}
