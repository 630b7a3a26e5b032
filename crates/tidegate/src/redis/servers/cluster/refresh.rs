//! Asks a cluster who has which slot: at the start, when something seems to have changed, and now and then.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

use tidegate_core::Timestamp;
use tokio::time::{sleep, timeout};

use super::Cluster;
use super::view::{self, SlotRange};
use crate::redis::servers::connect_error::{ConnectError, ConnectErrorKind as Kind};
use crate::redis::servers::connection::Connection;
use crate::redis::servers::event::StoreEvent;
use crate::redis::servers::greeting::{ServerMode, handshake};
use crate::redis::servers::jitter::{JitterRange, random_u64};
use crate::redis::servers::keeper;
use crate::redis::servers::means::ClientConfig;
use crate::redis::servers::probe::{ConnectTimeouts, timeout_error};
use crate::redis::servers::server::Membership;
use crate::redis::url::Address;

/// How often it is asked without any reason.
const REFRESH_INTERVAL: JitterRange = JitterRange::from_millis(25_000..=35_000);
/// Between two times, whatever the reason.
const REFRESH_PAUSE: JitterRange = JitterRange::from_millis(100..=300);
/// A server that was not mentioned so often in a row is forgotten.
const MISSED_REFRESHES_MAX: u16 = 3;
/// How many of those that are connected are asked before those that the URL names.
const QUERIED_SERVERS_MAX: usize = 3;

/// Connects to a cluster, once.
pub(in crate::redis::servers) async fn connect(
    means: Arc<ClientConfig>,
    seeds: Vec<Address>,
) -> Result<Arc<Cluster>, ConnectError> {
    let cluster = Cluster::new(means, seeds);
    let shares = query_seeds(&cluster, ConnectTimeouts::Startup).await?;
    let masters: BTreeMap<&Address, u16> =
        shares.iter().map(|share| (&share.master, *share.slots.start())).collect();
    let servers = masters.iter().map(|(&address, &slot)| cluster.new_server(address.clone(), slot)).collect();
    for kept in keeper::connect_all(servers).await? {
        cluster.add_member(&kept.server.address(), || kept);
    }
    apply_slots(&cluster, &shares);
    Ok(Arc::new(cluster))
}

impl Cluster {
    pub(in crate::redis::servers) fn tick(&self, now: Timestamp) {
        if self.refresh_timer.is_due(now, || REFRESH_INTERVAL.pick()) {
            self.refresh_needed.notify_one();
        }
    }
}

/// For as long as the cluster is used.
pub(in crate::redis::servers) async fn refresh_loop(cluster: Arc<Cluster>) {
    loop {
        cluster.refresh_needed.notified().await;
        if let Ok(shares) = query_slots(&cluster).await {
            apply_slots(&cluster, &shares);
        }
        sleep(REFRESH_PAUSE.pick()).await;
    }
}

async fn query_slots(cluster: &Cluster) -> Result<Vec<SlotRange>, ConnectError> {
    let within = ConnectTimeouts::Background.per_server(cluster.config.timeout);
    let mut servers = cluster.servers();
    if !servers.is_empty() {
        // Somebody else each time, since one that is cut off from the others may still answer.
        let first = random_u64() % servers.len() as u64;
        servers.rotate_left(usize::try_from(first).unwrap_or(0));
    }
    for server in servers.iter().filter(|server| server.subscribe_live().borrow().is_some()).take(QUERIED_SERVERS_MAX) {
        let line = server.subscribe_live().borrow().clone();
        let Some(line) = line else { continue };
        if let Ok(Ok(shares)) = timeout(within, view::query_slot_ranges(&line.connection, &server.address())).await {
            return Ok(shares);
        }
    }
    query_seeds(cluster, ConnectTimeouts::Background).await
}

pub(super) async fn query_seeds(cluster: &Cluster, patience: ConnectTimeouts) -> Result<Vec<SlotRange>, ConnectError> {
    let each = patience.per_server(cluster.config.timeout);
    let mut trouble: Option<ConnectError> = None;
    for seed in &cluster.seeds {
        let asked = timeout(each, query_seed(&cluster.config, seed)).await;
        match asked.unwrap_or_else(|_| Err(timeout_error(seed, each))) {
            Ok(shares) => return Ok(shares),
            Err(error) if error.is_transient() => trouble = trouble.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    // A URL names at least one.
    Err(trouble.unwrap_or_else(|| timeout_error(&Address { host: "?".into(), port: 0 }, each)))
}

async fn query_seed(means: &ClientConfig, seed: &Address) -> Result<Vec<SlotRange>, ConnectError> {
    let whom = means.endpoint(seed);
    let connection = Connection::open(means, &whom).await?;
    match handshake(&connection, &whom).await?.mode {
        ServerMode::Cluster => view::query_slot_ranges(&connection, seed).await,
        ServerMode::Standalone => Err(ConnectError::new(
            Kind::WrongKind,
            seed,
            "it is not part of a cluster",
            "redis://HOST is for a single server, redis+ring://HOST,HOST for several",
        )),
        ServerMode::Sentinel => Err(ConnectError::new(
            Kind::WrongKind,
            seed,
            "it is a Sentinel, which keeps no data",
            "redis+sentinel://HOST,HOST/MASTER asks Sentinels where the master is",
        )),
    }
}

/// Takes what was said for true. Slots that nobody has stay where they were.
pub(super) fn apply_slots(cluster: &Cluster, shares: &[SlotRange]) {
    for share in shares {
        // Beyond the most servers there may be: its slots are found by redirects, or not at all.
        let Some(id) = cluster.id_or_add(&share.master) else { continue };
        for slot in share.slots.clone() {
            cluster.assign_slot(slot, id);
        }
        if let Some(server) = cluster.server(id)
            && let Membership::Cluster { slot, .. } = &server.membership
        {
            slot.store(*share.slots.start(), Relaxed);
        }
    }
    remove_missing(cluster, shares);
}

/// A replica, or a server that left: nothing is sent there any more, so it need not be kept.
fn remove_missing(cluster: &Cluster, shares: &[SlotRange]) {
    let changing = cluster.members_lock.lock().unwrap_or_else(PoisonError::into_inner);
    let mut table = Vec::clone(&cluster.members.load());
    let mut forgotten = Vec::new();
    for known in &mut table {
        let Some(one) = known else { continue };
        if shares.iter().any(|share| share.master == one.address) {
            one.missed_refreshes.store(0, Relaxed);
        } else if one.missed_refreshes.fetch_add(1, Relaxed) + 1 >= MISSED_REFRESHES_MAX {
            forgotten.extend(known.take());
        }
    }
    if !forgotten.is_empty() {
        cluster.members.store(Arc::new(table));
    }
    drop(changing);
    for one in forgotten {
        cluster.config.emit(StoreEvent::LeftCluster { address: one.address.to_string().into() });
    }
}
