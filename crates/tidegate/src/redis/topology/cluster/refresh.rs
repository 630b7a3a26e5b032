//! Queries which server of a cluster has which slot: at the start, when something seems to have changed, and
//! periodically.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

use tidegate_core::Timestamp;
use tokio::time::{sleep, timeout};

use super::Cluster;
use super::slot_ranges::{self, SlotRange};
use crate::redis::connection::{
    ClientConfig, ConnectError, ConnectErrorKind as Kind, ConnectTimeouts, Connection, JitterRange,
    Membership, ServerMode, StoreEvent, connect_all, handshake, random_u64, timeout_error,
};
use crate::redis::url::Address;

/// The interval of queries without a reason.
const REFRESH_INTERVAL: JitterRange = JitterRange::from_millis(25_000..=35_000);
/// The pause between two queries, whatever the reason.
const REFRESH_PAUSE: JitterRange = JitterRange::from_millis(100..=300);
/// A server that is missing in this many queries in a row is removed.
const MISSED_REFRESHES_MAX: u16 = 3;
/// How many connected servers are queried before those of the URL.
const QUERIED_SERVERS_MAX: usize = 3;

/// Connects to a cluster with one attempt.
pub(crate) async fn connect(
    config: Arc<ClientConfig>,
    seeds: Vec<Address>,
) -> Result<Arc<Cluster>, ConnectError> {
    let cluster = Cluster::new(config, seeds);
    let ranges = query_seeds(&cluster, ConnectTimeouts::Startup).await?;
    let masters: BTreeMap<&Address, u16> =
        ranges.iter().map(|range| (&range.master, *range.slots.start())).collect();
    let servers = masters.iter().map(|(&address, &slot)| cluster.new_server(address.clone(), slot)).collect();
    for managed in connect_all(servers).await? {
        cluster.add_member(&managed.server.address(), || managed);
    }
    apply_slots(&cluster, &ranges);
    Ok(Arc::new(cluster))
}

impl Cluster {
    pub(crate) fn tick(&self, now: Timestamp) {
        if self.refresh_timer.is_due(now, || REFRESH_INTERVAL.pick()) {
            self.refresh_needed.notify_one();
        }
    }
}

/// Refreshes the slots until the cluster is dropped.
pub(crate) async fn refresh_loop(cluster: Arc<Cluster>) {
    loop {
        cluster.refresh_needed.notified().await;
        if let Ok(ranges) = query_slots(&cluster).await {
            apply_slots(&cluster, &ranges);
        }
        sleep(REFRESH_PAUSE.pick()).await;
    }
}

async fn query_slots(cluster: &Cluster) -> Result<Vec<SlotRange>, ConnectError> {
    let timeout_each = ConnectTimeouts::Background.per_server(cluster.config.timeout);
    let mut servers = cluster.servers();
    if !servers.is_empty() {
        // Query a random server: one that is cut off from the others may still reply.
        let first = random_u64() % servers.len() as u64;
        servers.rotate_left(usize::try_from(first).unwrap_or(0));
    }
    for server in
        servers.iter().filter(|server| server.subscribe_live().borrow().is_some()).take(QUERIED_SERVERS_MAX)
    {
        let live = server.subscribe_live().borrow().clone();
        let Some(live) = live else { continue };
        if let Ok(Ok(ranges)) =
            timeout(timeout_each, slot_ranges::query_slot_ranges(&live.connection, &server.address())).await
        {
            return Ok(ranges);
        }
    }
    query_seeds(cluster, ConnectTimeouts::Background).await
}

pub(crate) async fn query_seeds(
    cluster: &Cluster,
    timeouts: ConnectTimeouts,
) -> Result<Vec<SlotRange>, ConnectError> {
    let timeout_each = timeouts.per_server(cluster.config.timeout);
    let mut first_error: Option<ConnectError> = None;
    for seed in &cluster.seeds {
        let result = timeout(timeout_each, query_seed(&cluster.config, seed)).await;
        match result.unwrap_or_else(|_| Err(timeout_error(seed, timeout_each))) {
            Ok(ranges) => return Ok(ranges),
            Err(error) if error.is_transient() => first_error = first_error.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    // A URL names at least one.
    Err(first_error.unwrap_or_else(|| timeout_error(&Address { host: "?".into(), port: 0 }, timeout_each)))
}

async fn query_seed(config: &ClientConfig, seed: &Address) -> Result<Vec<SlotRange>, ConnectError> {
    let endpoint = config.endpoint(seed);
    let connection = Connection::open(config, &endpoint).await?;
    match handshake(&connection, &endpoint).await?.mode {
        ServerMode::Cluster => slot_ranges::query_slot_ranges(&connection, seed).await,
        ServerMode::Standalone => Err(ConnectError::new(
            Kind::WrongKind,
            seed,
            "it is not part of a cluster",
            "use redis://HOST for a single server, or redis+ring://HOST,HOST for several",
        )),
        ServerMode::Sentinel => Err(ConnectError::new(
            Kind::WrongKind,
            seed,
            "it is a Sentinel, which holds no data",
            "use redis+sentinel://HOST,HOST/MASTER to get the master from Sentinels",
        )),
    }
}

/// Takes over the slots of a reply. Slots without an owner stay where they were.
pub(crate) fn apply_slots(cluster: &Cluster, ranges: &[SlotRange]) {
    for range in ranges {
        // There are too many servers. The slots of this one are found by redirects, or not at all.
        let Some(id) = cluster.id_or_add(&range.master) else { continue };
        for slot in range.slots.clone() {
            cluster.assign_slot(slot, id);
        }
        if let Some(server) = cluster.server(id)
            && let Membership::Cluster { slot, .. } = &server.membership
        {
            slot.store(*range.slots.start(), Relaxed);
        }
    }
    remove_missing(cluster, ranges);
}

/// Removes servers that became replicas or left: no command is sent to them any more.
fn remove_missing(cluster: &Cluster, ranges: &[SlotRange]) {
    let guard = cluster.members_lock.lock().unwrap_or_else(PoisonError::into_inner);
    let mut table = Vec::clone(&cluster.members.load());
    let mut removed = Vec::new();
    for entry in &mut table {
        let Some(member) = entry else { continue };
        if ranges.iter().any(|range| range.master == member.address) {
            member.missed_refreshes.store(0, Relaxed);
        } else if member.missed_refreshes.fetch_add(1, Relaxed) + 1 >= MISSED_REFRESHES_MAX {
            removed.extend(entry.take());
        }
    }
    if !removed.is_empty() {
        cluster.members.store(Arc::new(table));
    }
    drop(guard);
    for member in removed {
        cluster.config.emit(StoreEvent::LeftCluster { address: member.address.to_string().into() });
    }
}
