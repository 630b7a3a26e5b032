//! Discovers a cluster in the background: queries the servers of the URL until one of them returns the slots.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tokio::time::sleep;

use super::Cluster;
use super::refresh::{apply_slots, query_seeds, refresh_loop};
use crate::redis::connection::{
    Backoff, BreakerState, ClientConfig, ConnectError, ConnectTimeouts, Novelty, ServerCounts, ServerStats,
    StoreEvent, WriteState,
};
use crate::redis::url::Address;

/// A cluster without known servers.
pub(crate) fn new_unconnected(config: Arc<ClientConfig>, seeds: Vec<Address>) -> Arc<Cluster> {
    Arc::new(Cluster::new(config, seeds))
}

/// Discovers a cluster that is not connected, and then [refreshes](refresh_loop) it.
pub(crate) async fn discover_then_refresh(cluster: Arc<Cluster>) {
    let mut report = DiscoveryReport::None;
    let mut backoff = Backoff::default();
    loop {
        match query_seeds(&cluster, ConnectTimeouts::Background).await {
            Ok(ranges) => {
                apply_slots(&cluster, &ranges);
                cluster.attempts.record_success();
                break;
            }
            Err(error) => {
                cluster.discovery_failed(&error, &mut report);
                sleep(backoff.pause(BreakerState::Open, &error)).await;
            }
        }
    }
    if report == DiscoveryReport::Away
        && let Some(address) = cluster.first_seed()
    {
        cluster.config.emit(StoreEvent::BreakerClosed { address });
    }
    refresh_loop(cluster).await;
}

/// What was reported about the discovery.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DiscoveryReport {
    None,
    Away,
}

impl Cluster {
    /// Before the discovery, the first seed stands for the whole cluster.
    pub(crate) fn discovery_stats(&self) -> Option<ServerStats> {
        Some(ServerStats {
            address: self.first_seed()?,
            breaker: BreakerState::Open,
            writes: WriteState::Accepted,
            connect_error: self.attempts.last_error(),
            counts: ServerCounts::default(),
        })
    }

    fn discovery_failed(&self, error: &ConnectError, report: &mut DiscoveryReport) {
        self.config.total_counters.failures.fetch_add(1, Relaxed);
        self.attempts.record_failure(error);
        let novelty = self.attempts.record_reported(error);
        let Some(address) = self.first_seed() else { return };
        let reason = error.reason().into();
        if *report == DiscoveryReport::None {
            *report = DiscoveryReport::Away;
            self.config.emit(StoreEvent::BreakerOpened { address, reason });
        } else if novelty == Novelty::New {
            self.config.emit(StoreEvent::ConnectFailed { address, reason });
        }
    }

    fn first_seed(&self) -> Option<Box<str>> {
        self.seeds.first().map(|seed| seed.to_string().into())
    }
}
