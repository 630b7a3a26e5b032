//! Redis Cluster: which server has which slot.
//!
//! Every server of a cluster knows this. The store queries one of them at the start, from time to time, and
//! when something seems to have changed ([`refresh`]). A server that does not have a slot any more replies
//! with a redirect, which takes effect at once.

pub(crate) mod discovery;
mod refresh;
pub(crate) mod slot_ranges;

use std::sync::atomic::AtomicU16;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use tokio::sync::Notify;

use super::address_source::AddressSource;
use super::hash_slot::{SLOT_COUNT, slot_of};
use super::location::{KeyLocation, SERVERS_MAX, ServerId};
use crate::redis::connection::{
    ClientConfig, ConnectAttempts, ManagedServer, Membership, Server, ServerStats,
};
use crate::redis::tick::PeriodicTimer;
use crate::redis::url::Address;

pub(crate) use discovery::{discover_then_refresh, new_unconnected};
pub(crate) use refresh::{connect, refresh_loop};

/// The owner of a slot whose server is not known.
const NO_SERVER: u16 = u16::MAX;

/// A cluster, as far as it is known.
pub(crate) struct Cluster {
    config: Arc<ClientConfig>,
    /// The servers of the URL. They are queried if no other server replies.
    seeds: Vec<Address>,
    /// For each slot, the index of its server.
    slot_owners: Box<[AtomicU16]>,
    /// At most [`SERVERS_MAX`].
    members: ArcSwap<Vec<Option<Arc<ClusterMember>>>>,
    /// Held while the members change.
    members_lock: Mutex<()>,
    /// Notified when the slots may have changed.
    refresh_needed: Arc<Notify>,
    /// When the slots are queried without a reason.
    refresh_timer: PeriodicTimer,
    /// The attempts to discover the cluster.
    attempts: ConnectAttempts,
}

/// A known server.
struct ClusterMember {
    managed: ManagedServer,
    address: Address,
    /// How many refreshes in a row did not list it.
    missed_refreshes: AtomicU16,
}

impl Cluster {
    fn new(config: Arc<ClientConfig>, seeds: Vec<Address>) -> Self {
        Self {
            config,
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
        // Any server will redirect to the owner.
        let server = ServerId::from_index(usize::from(owner)).unwrap_or(ServerId::FIRST);
        KeyLocation { server, slot }
    }

    /// The server with this index, or any other if it is gone.
    pub fn server(&self, id: ServerId) -> Option<Arc<Server>> {
        let table = self.members.load();
        let member = table.get(id.index()).and_then(Option::as_ref);
        member.or_else(|| table.iter().flatten().next()).map(|member| member.managed.server.clone())
    }

    pub fn servers(&self) -> Vec<Arc<Server>> {
        self.members.load().iter().flatten().map(|member| member.managed.server.clone()).collect()
    }

    /// The stats of all servers. Before any is known, those of the whole cluster.
    pub fn stats(&self) -> Vec<ServerStats> {
        let servers: Vec<_> = self.servers().iter().map(|server| server.stats()).collect();
        if servers.is_empty() { self.discovery_stats().into_iter().collect() } else { servers }
    }

    /// The server at this address, which may be new. None if there are too many.
    pub fn server_at(&self, address: &Address) -> Option<Arc<Server>> {
        self.server(self.id_or_add(address)?)
    }

    /// A redirect says that this slot belongs to the server at this address.
    pub fn slot_moved(&self, slot: u16, address: &Address) -> Option<Arc<Server>> {
        self.refresh_needed.notify_one();
        let id = self.id_or_add(address)?;
        self.assign_slot(slot, id);
        self.server(id)
    }

    fn assign_slot(&self, slot: u16, owner: ServerId) {
        if let (Some(slot_owner), Ok(owner)) =
            (self.slot_owners.get(usize::from(slot)), u16::try_from(owner.index()))
        {
            slot_owner.store(owner, Relaxed);
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
        let has_address = |member: &Option<Arc<ClusterMember>>| {
            member.as_ref().is_some_and(|member| member.address == *address)
        };
        table.iter().position(has_address).and_then(ServerId::from_index)
    }

    fn add_member(&self, address: &Address, new_server: impl FnOnce() -> ManagedServer) -> Option<ServerId> {
        let _guard = self.members_lock.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(id) = self.find_id(address) {
            return Some(id);
        }
        let mut table = Vec::clone(&self.members.load());
        let index = table.iter().position(Option::is_none).unwrap_or(table.len());
        let id = ServerId::from_index(index).filter(|_| index < SERVERS_MAX)?;
        let member = Arc::new(ClusterMember {
            managed: new_server(),
            address: address.clone(),
            missed_refreshes: AtomicU16::new(0),
        });
        if index == table.len() {
            table.push(Some(member));
        } else {
            table[index] = Some(member);
        }
        self.members.store(Arc::new(table));
        Some(id)
    }

    fn new_server(&self, address: Address, slot: u16) -> Arc<Server> {
        let membership =
            Membership::Cluster { slot: AtomicU16::new(slot), refresh_needed: self.refresh_needed.clone() };
        Server::new(self.config.clone(), AddressSource::Fixed(address), membership)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Address, ClientConfig, Cluster, NO_SERVER, SERVERS_MAX, slot_of};
    use crate::redis::RedisSettings;

    fn cluster() -> Cluster {
        let settings = RedisSettings::new("redis-cluster://127.0.0.1:1".parse().expect("a URL"));
        Cluster::new(Arc::new(ClientConfig::new(&settings, &[]).expect("a config")), Vec::new())
    }

    fn address(number: usize) -> Address {
        Address { host: format!("host-{number}").into(), port: 1 }
    }

    #[tokio::test]
    async fn a_slot_that_moved_is_noted_at_once() {
        let cluster = cluster();
        let slot = slot_of(b"user");
        assert_eq!(
            cluster.slot_owners[usize::from(slot)].load(std::sync::atomic::Ordering::Relaxed),
            NO_SERVER
        );
        for number in [0, 1, 0] {
            let server = cluster.slot_moved(slot, &address(number)).expect("a server");
            let location = cluster.locate(b"user");
            assert!(Arc::ptr_eq(&server, &cluster.server(location.server).expect("a server")));
            assert_eq!((location.slot, server.address()), (slot, address(number)));
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
