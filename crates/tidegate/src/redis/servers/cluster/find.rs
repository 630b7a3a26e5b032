//! Finds a cluster in the background: asks the servers that the URL names until one of them says who has which slot.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tokio::time::sleep;

use super::Cluster;
use super::refresh::{apply_slots, query_seeds, refresh_loop};
use crate::redis::servers::attempts::Novelty;
use crate::redis::servers::backoff::Backoff;
use crate::redis::servers::connect_error::ConnectError;
use crate::redis::servers::event::StoreEvent;
use crate::redis::servers::means::ClientConfig;
use crate::redis::servers::probe::ConnectTimeouts;
use crate::redis::servers::stats::{BreakerState, ServerCounts, ServerStats};
use crate::redis::url::Address;

/// A cluster of which no server is known.
pub(in crate::redis::servers) fn new_unconnected(means: Arc<ClientConfig>, seeds: Vec<Address>) -> Arc<Cluster> {
    Arc::new(Cluster::new(means, seeds))
}

/// Finds a cluster that is not connected, and then [keeps refreshing](keep_refreshing).
pub(in crate::redis::servers) async fn discover_then_refresh(cluster: Arc<Cluster>) {
    let mut telling = DiscoveryReport::None;
    let mut backoff = Backoff::default();
    loop {
        match query_seeds(&cluster, ConnectTimeouts::Background).await {
            Ok(shares) => {
                apply_slots(&cluster, &shares);
                cluster.attempts.record_success();
                break;
            }
            Err(error) => {
                cluster.discovery_failed(&error, &mut telling);
                sleep(backoff.pause(BreakerState::Open, &error)).await;
            }
        }
    }
    if telling == DiscoveryReport::Away
        && let Some(address) = cluster.first_seed()
    {
        cluster.config.emit(StoreEvent::BreakerClosed { address });
    }
    refresh_loop(cluster).await;
}

/// What was told of the search.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DiscoveryReport {
    None,
    Away,
}

impl Cluster {
    /// Before it is found, its first seed stands for all of it.
    pub(super) fn discovery_stats(&self) -> Option<ServerStats> {
        Some(ServerStats {
            address: self.first_seed()?,
            breaker: BreakerState::Open,
            connect_error: self.attempts.last_error(),
            counts: ServerCounts::default(),
        })
    }

    fn discovery_failed(&self, error: &ConnectError, telling: &mut DiscoveryReport) {
        self.config.total_counters.failures.fetch_add(1, Relaxed);
        self.attempts.record_failure(error);
        let news = self.attempts.record_reported(error);
        let Some(address) = self.first_seed() else { return };
        let why = error.reason().into();
        if *telling == DiscoveryReport::None {
            *telling = DiscoveryReport::Away;
            self.config.emit(StoreEvent::BreakerOpened { address, reason: why });
        } else if news == Novelty::New {
            self.config.emit(StoreEvent::ConnectFailed { address, reason: why });
        }
    }

    fn first_seed(&self) -> Option<Box<str>> {
        self.seeds.first().map(|seed| seed.to_string().into())
    }
}
