//! Asks a cluster who has which slot: at the start, when something seems to have changed, and now and then.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

use tidegate_core::Timestamp;
use tokio::time::{sleep, timeout};

use super::Cluster;
use super::view::{self, Share};
use crate::redis::servers::connect_error::{ConnectError, ConnectErrorKind as Kind};
use crate::redis::servers::connection::Connection;
use crate::redis::servers::event::StoreEvent;
use crate::redis::servers::greeting::{Mode, greet};
use crate::redis::servers::jitter::{Between, draw};
use crate::redis::servers::keeper;
use crate::redis::servers::means::Means;
use crate::redis::servers::probe::{Patience, late};
use crate::redis::servers::server::Part;
use crate::redis::url::Address;

/// How often it is asked without any reason.
const REFRESHED: Between = Between::millis(25_000..=35_000);
/// Between two times, whatever the reason.
const REFRESH_PAUSE: Between = Between::millis(100..=300);
/// A server that was not mentioned so often in a row is forgotten.
const UNMENTIONED_MAX: u16 = 3;
/// How many of those that are connected are asked before those that the URL names.
const ASKED_MAX: usize = 3;

/// Connects to a cluster, once.
pub(in crate::redis::servers) async fn connect(
    means: Arc<Means>,
    seeds: Vec<Address>,
) -> Result<Arc<Cluster>, ConnectError> {
    let cluster = Cluster::new(means, seeds);
    let shares = ask_seeds(&cluster, Patience::AtStart).await?;
    let masters: BTreeMap<&Address, u16> =
        shares.iter().map(|share| (&share.master, *share.slots.start())).collect();
    let servers = masters.iter().map(|(&address, &slot)| cluster.new_server(address.clone(), slot)).collect();
    for kept in keeper::start(servers).await? {
        cluster.add(&kept.server.address(), || kept);
    }
    apply(&cluster, &shares);
    Ok(Arc::new(cluster))
}

impl Cluster {
    pub(in crate::redis::servers) fn tick(&self, now: Timestamp) {
        if self.refresh_due.is_due(now, || REFRESHED.draw()) {
            self.worried.notify_one();
        }
    }
}

/// For as long as the cluster is used.
pub(in crate::redis::servers) async fn keep_refreshing(cluster: Arc<Cluster>) {
    loop {
        cluster.worried.notified().await;
        if let Ok(shares) = ask_anyone(&cluster).await {
            apply(&cluster, &shares);
        }
        sleep(REFRESH_PAUSE.draw()).await;
    }
}

async fn ask_anyone(cluster: &Cluster) -> Result<Vec<Share>, ConnectError> {
    let within = Patience::InBackground.each(cluster.means.timeout);
    let mut servers = cluster.servers();
    if !servers.is_empty() {
        // Somebody else each time, since one that is cut off from the others may still answer.
        let first = draw() % servers.len() as u64;
        servers.rotate_left(usize::try_from(first).unwrap_or(0));
    }
    for server in servers.iter().filter(|server| server.lines().borrow().is_some()).take(ASKED_MAX) {
        let line = server.lines().borrow().clone();
        let Some(line) = line else { continue };
        if let Ok(Ok(shares)) = timeout(within, view::ask(&line.connection, &server.address())).await {
            return Ok(shares);
        }
    }
    ask_seeds(cluster, Patience::InBackground).await
}

pub(super) async fn ask_seeds(cluster: &Cluster, patience: Patience) -> Result<Vec<Share>, ConnectError> {
    let each = patience.each(cluster.means.timeout);
    let mut trouble: Option<ConnectError> = None;
    for seed in &cluster.seeds {
        let asked = timeout(each, ask_seed(&cluster.means, seed)).await;
        match asked.unwrap_or_else(|_| Err(late(seed, each))) {
            Ok(shares) => return Ok(shares),
            Err(error) if error.is_passing() => trouble = trouble.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    // A URL names at least one.
    Err(trouble.unwrap_or_else(|| late(&Address { host: "?".into(), port: 0 }, each)))
}

async fn ask_seed(means: &Means, seed: &Address) -> Result<Vec<Share>, ConnectError> {
    let whom = means.server(seed);
    let connection = Connection::open(means, &whom).await?;
    match greet(&connection, &whom).await?.mode {
        Mode::Cluster => view::ask(&connection, seed).await,
        Mode::Standalone => Err(ConnectError::new(
            Kind::WrongKind,
            seed,
            "it is not part of a cluster",
            "redis://HOST is for a single server, redis+ring://HOST,HOST for several",
        )),
        Mode::Sentinel => Err(ConnectError::new(
            Kind::WrongKind,
            seed,
            "it is a Sentinel, which keeps no data",
            "redis+sentinel://HOST,HOST/MASTER asks Sentinels where the master is",
        )),
    }
}

/// Takes what was said for true. Slots that nobody has stay where they were.
pub(super) fn apply(cluster: &Cluster, shares: &[Share]) {
    for share in shares {
        // Beyond the most servers there may be: its slots are found by redirects, or not at all.
        let Some(id) = cluster.id_at(&share.master) else { continue };
        for slot in share.slots.clone() {
            cluster.give(slot, id);
        }
        if let Some(server) = cluster.server(id)
            && let Part::OfCluster { slot, .. } = &server.part
        {
            slot.store(*share.slots.start(), Relaxed);
        }
    }
    forget_unmentioned(cluster, shares);
}

/// A replica, or a server that left: nothing is sent there any more, so it need not be kept.
fn forget_unmentioned(cluster: &Cluster, shares: &[Share]) {
    let changing = cluster.changing.lock().unwrap_or_else(PoisonError::into_inner);
    let mut table = Vec::clone(&cluster.table.load());
    let mut forgotten = Vec::new();
    for known in &mut table {
        let Some(one) = known else { continue };
        if shares.iter().any(|share| share.master == one.address) {
            one.unmentioned.store(0, Relaxed);
        } else if one.unmentioned.fetch_add(1, Relaxed) + 1 >= UNMENTIONED_MAX {
            forgotten.extend(known.take());
        }
    }
    if !forgotten.is_empty() {
        cluster.table.store(Arc::new(table));
    }
    drop(changing);
    for one in forgotten {
        cluster.means.tell(StoreEvent::Left { address: one.address.to_string().into() });
    }
}
