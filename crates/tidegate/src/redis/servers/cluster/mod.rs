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

use super::attempts::ConnectAttempts;
use super::finder::AddressSource;
use super::keeper::ManagedServer;
use super::means::ClientConfig;
use super::place::{KeyLocation, SERVERS_MAX, ServerId};
use super::server::{Membership, Server};
use super::slot::{SLOT_COUNT, slot_of};
use super::stats::ServerStats;
use crate::redis::tick::PeriodicTimer;
use crate::redis::url::Address;

pub(super) use find::{discover_then_refresh, new_unconnected};
pub(super) use refresh::{connect, refresh_loop};

/// In the place of a server: nobody is known to have that slot.
const NO_SERVER: u16 = u16::MAX;

/// A cluster, as far as it is known.
pub(super) struct Cluster {
    config: Arc<ClientConfig>,
    /// Those that the URL names. They are asked if nobody else answers.
    seeds: Vec<Address>,
    /// For each slot the place of its server in the table.
    slot_owners: Box<[AtomicU16]>,
    /// At most [`SERVERS_MAX`].
    members: ArcSwap<Vec<Option<Arc<ClusterMember>>>>,
    /// Held while the table is changed.
    members_lock: Mutex<()>,
    /// Told when there is reason to ask who has which slot.
    refresh_needed: Arc<Notify>,
    /// When it is asked without any reason.
    refresh_timer: PeriodicTimer,
    /// To find it for the first time.
    attempts: ConnectAttempts,
}

/// A server of the table.
struct ClusterMember {
    managed: ManagedServer,
    address: Address,
    /// How often in a row the cluster was asked and did not mention it.
    missed_refreshes: AtomicU16,
}

impl Cluster {
    fn new(means: Arc<ClientConfig>, seeds: Vec<Address>) -> Self {
        Self {
            config: means,
            seeds,
            slot_owners: (0..SLOT_COUNT).map(|_| AtomicU16::new(NO_SERVER)).collect(),
            members: ArcSwap::default(),
            members_lock: Mutex::new(()),
            refresh_needed: Arc::new(Notify::new()),
            refresh_timer: PeriodicTimer::default(),
            attempts: ConnectAttempts::default(),
        }
    }

    pub fn locate(&self, tag: &[u8]) -> KeyLocation {
        let slot = slot_of(tag);
        let owner = self.slot_owners[usize::from(slot)].load(Relaxed);
        // Somebody will say whose it is.
        let server = ServerId::from_index(usize::from(owner)).unwrap_or(ServerId::FIRST);
        KeyLocation { server, slot }
    }

    /// The server at this place of the table, or any other if it is gone.
    pub fn server(&self, id: ServerId) -> Option<Arc<Server>> {
        let table = self.members.load();
        let known = table.get(id.index()).and_then(Option::as_ref);
        known.or_else(|| table.iter().flatten().next()).map(|known| known.managed.server.clone())
    }

    pub fn servers(&self) -> Vec<Arc<Server>> {
        self.members.load().iter().flatten().map(|known| known.managed.server.clone()).collect()
    }

    /// Of all servers. Before any is known, of the cluster as a whole.
    pub fn stats(&self) -> Vec<ServerStats> {
        let servers: Vec<_> = self.servers().iter().map(|server| server.stats()).collect();
        if servers.is_empty() { self.discovery_stats().into_iter().collect() } else { servers }
    }

    /// The server at this address, which may be new. None if there are too many.
    pub fn server_at(&self, address: &Address) -> Option<Arc<Server>> {
        self.server(self.id_or_add(address)?)
    }

    /// Somebody says that this slot belongs to the server at this address.
    pub fn slot_moved(&self, slot: u16, address: &Address) -> Option<Arc<Server>> {
        self.refresh_needed.notify_one();
        let id = self.id_or_add(address)?;
        self.assign_slot(slot, id);
        self.server(id)
    }

    fn assign_slot(&self, slot: u16, owner: ServerId) {
        if let (Some(place), Ok(owner)) = (self.slot_owners.get(usize::from(slot)), u16::try_from(owner.index())) {
            place.store(owner, Relaxed);
        }
    }

    fn id_or_add(&self, address: &Address) -> Option<ServerId> {
        if let Some(id) = self.find_id(address) {
            return Some(id);
        }
        self.add_member(address, || ManagedServer::new(self.new_server(address.clone(), NO_SERVER)))
    }

    fn find_id(&self, address: &Address) -> Option<ServerId> {
        let table = self.members.load();
        let at = |known: &Option<Arc<ClusterMember>>| known.as_ref().is_some_and(|known| known.address == *address);
        table.iter().position(at).and_then(ServerId::from_index)
    }

    fn add_member(&self, address: &Address, kept: impl FnOnce() -> ManagedServer) -> Option<ServerId> {
        let _changing = self.members_lock.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(id) = self.find_id(address) {
            return Some(id);
        }
        let mut table = Vec::clone(&self.members.load());
        let free = table.iter().position(Option::is_none).unwrap_or(table.len());
        let id = ServerId::from_index(free).filter(|_| free < SERVERS_MAX)?;
        let known =
            Arc::new(ClusterMember { managed: kept(), address: address.clone(), missed_refreshes: AtomicU16::new(0) });
        if free == table.len() {
            table.push(Some(known));
        } else {
            table[free] = Some(known);
        }
        self.members.store(Arc::new(table));
        Some(id)
    }

    fn new_server(&self, address: Address, slot: u16) -> Arc<Server> {
        let part = Membership::Cluster { slot: AtomicU16::new(slot), refresh_needed: self.refresh_needed.clone() };
        Server::new(self.config.clone(), AddressSource::Fixed(address), part)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Address, Cluster, ClientConfig, NO_SERVER, SERVERS_MAX, slot_of};
    use crate::redis::RedisSettings;

    fn cluster() -> Cluster {
        let settings = RedisSettings::new("redis-cluster://127.0.0.1:1".parse().expect("a URL"));
        Cluster::new(Arc::new(ClientConfig::new(&settings, &[]).expect("means")), Vec::new())
    }

    fn address(number: usize) -> Address {
        Address { host: format!("host-{number}").into(), port: 1 }
    }

    #[tokio::test]
    async fn a_slot_that_moved_is_noted_at_once() {
        let cluster = cluster();
        let slot = slot_of(b"user");
        assert_eq!(cluster.slot_owners[usize::from(slot)].load(std::sync::atomic::Ordering::Relaxed), NO_SERVER);
        for number in [0, 1, 0] {
            let server = cluster.slot_moved(slot, &address(number)).expect("a server");
            let placed = cluster.locate(b"user");
            assert!(Arc::ptr_eq(&server, &cluster.server(placed.server).expect("a server")));
            assert_eq!((placed.slot, server.address()), (slot, address(number)));
        }
        assert_eq!(cluster.servers().len(), 2);
    }

    #[tokio::test]
    async fn the_number_of_servers_is_bounded() {
        let cluster = cluster();
        for number in 0..SERVERS_MAX {
            assert!(cluster.server_at(&address(number)).is_some());
        }
        assert!(cluster.server_at(&address(SERVERS_MAX)).is_none());
        assert!(cluster.server_at(&address(7)).is_some());
        assert_eq!(cluster.servers().len(), SERVERS_MAX);
    }
}
