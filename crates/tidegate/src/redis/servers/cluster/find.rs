//! Finds a cluster in the background: asks the servers that the URL names until one of them says who has which slot.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tokio::time::sleep;

use super::Cluster;
use super::refresh::{apply, ask_seeds, keep_refreshing};
use crate::redis::servers::attempts::News;
use crate::redis::servers::backoff::Backoff;
use crate::redis::servers::connect_error::ConnectError;
use crate::redis::servers::event::StoreEvent;
use crate::redis::servers::means::Means;
use crate::redis::servers::probe::Patience;
use crate::redis::servers::stats::{BreakerState, ServerCounts, ServerStats};
use crate::redis::url::Address;

/// A cluster of which no server is known.
pub(in crate::redis::servers) fn unconnected(means: Arc<Means>, seeds: Vec<Address>) -> Arc<Cluster> {
    Arc::new(Cluster::new(means, seeds))
}

/// Finds a cluster that is not connected, and then [keeps refreshing](keep_refreshing).
pub(in crate::redis::servers) async fn find_and_keep_refreshing(cluster: Arc<Cluster>) {
    let mut telling = Telling::Nothing;
    let mut backoff = Backoff::default();
    loop {
        match ask_seeds(&cluster, Patience::InBackground).await {
            Ok(shares) => {
                apply(&cluster, &shares);
                cluster.attempts.succeeded();
                break;
            }
            Err(error) => {
                cluster.not_found(&error, &mut telling);
                sleep(backoff.pause(BreakerState::Open, &error)).await;
            }
        }
    }
    if telling == Telling::Away
        && let Some(address) = cluster.first_seed()
    {
        cluster.means.tell(StoreEvent::Closed { address });
    }
    keep_refreshing(cluster).await;
}

/// What was told of the search.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Telling {
    Nothing,
    Away,
}

impl Cluster {
    /// Before it is found, its first seed stands for all of it.
    pub(super) fn stats_of_search(&self) -> Option<ServerStats> {
        Some(ServerStats {
            address: self.first_seed()?,
            breaker: BreakerState::Open,
            connect_error: self.attempts.last_error(),
            counts: ServerCounts::default(),
        })
    }

    fn not_found(&self, error: &ConnectError, telling: &mut Telling) {
        self.means.total.failures.fetch_add(1, Relaxed);
        self.attempts.failed(error);
        let news = self.attempts.told(error);
        let Some(address) = self.first_seed() else { return };
        let why = error.reason().into();
        if *telling == Telling::Nothing {
            *telling = Telling::Away;
            self.means.tell(StoreEvent::Opened { address, why });
        } else if news == News::Yes {
            self.means.tell(StoreEvent::ConnectFailed { address, why });
        }
    }

    fn first_seed(&self) -> Option<Box<str>> {
        self.seeds.first().map(|seed| seed.to_string().into())
    }
}
