//! The servers that make up the store: which of them has a key, and talking to them.
//!
//! ```text
//! place(tag)         which server, which slot           ring.rs, cluster/; single and Sentinel have one server
//! send(server, ..)   a pipeline, within the budget      sending.rs: scripts loaded again, redirects followed
//!   batch.rs         commands for one server            server.rs: a round of them, judged by breaker.rs
//! ```
//!
//! In the background a [`keeper`] for each server makes connections ([`connection`], [`tls`]), finds out who answers
//! ([`greeting`]) and whether it can be used ([`probe`]).

mod attempts;
mod backoff;
mod batch;
mod breaker;
mod cluster;
mod connect_error;
mod connection;
mod event;
mod finder;
mod greeting;
mod jitter;
mod keeper;
mod listening;
mod means;
mod place;
mod probe;
mod reply;
mod ring;
mod sending;
mod sent;
mod sentinel;
mod server;
mod slot;
mod stats;
mod task;
#[cfg(test)]
mod tests;
mod tls;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tidegate_core::Timestamp;

use super::RedisSettings;
use super::url::Deployment;
use cluster::Cluster;
use finder::AddressSource;
use keeper::ManagedServer;
use means::ClientConfig;
use probe::ConnectTimeouts;
use ring::Ring;
use sentinel::Sentinels;
use server::{Membership, Server};
use task::AbortOnDrop;

pub use connect_error::{ConnectError, ConnectErrorKind};
pub use event::{EventHook, StoreEvent};
pub(super) use listening::{SubscribeError, SubscriberConnection};
pub(super) use place::{KeyLocation, ServerId};
pub(super) use sent::{SendError, SlotCommand};
pub use stats::{BreakerState, ServerCounts, ServerStats, ServersStats};

/// All servers of the store.
pub(super) struct Servers {
    config: Arc<ClientConfig>,
    topology: Topology,
}

/// How they belong together.
enum Topology {
    Single(ManagedServer),
    Ring(Ring),
    Cluster { cluster: Arc<Cluster>, _refresh_task: AbortOnDrop },
}

impl Servers {
    /// Connects, once, and says what is wrong if that does not work. The scripts are loaded everywhere, now and whenever
    /// a server has lost them; [`sha`](Self::sha) is what they are called by.
    pub async fn connect(
        settings: &RedisSettings,
        scripts: &[&'static str],
    ) -> Result<Arc<Self>, ConnectError> {
        let means = Arc::new(ClientConfig::new(settings, scripts)?);
        let alone = |finder| Server::new(means.clone(), finder, Membership::Standalone);
        let addresses = settings.url.addresses.clone();
        let layout = match &settings.url.deployment {
            Deployment::Single => Topology::connect_single(alone(AddressSource::Fixed(settings.url.first_address().clone()))).await?,
            Deployment::Sentinel { master, login } => {
                let sentinels = Sentinels::new(addresses, master.clone(), login.clone());
                Topology::connect_single(alone(AddressSource::Sentinels(sentinels))).await?
            }
            Deployment::Ring => {
                let members = addresses.into_iter().map(|at| alone(AddressSource::Fixed(at))).collect();
                Topology::Ring(Ring::new(keeper::connect_all(members).await?))
            }
            Deployment::Cluster => {
                let cluster = cluster::connect(means.clone(), addresses).await?;
                let _refreshing = AbortOnDrop::spawn(cluster::refresh_loop(cluster.clone()));
                Topology::Cluster { cluster, _refresh_task: _refreshing }
            }
        };
        Ok(Arc::new(Self { config: means, topology: layout }))
    }

    /// Connects in the background, again and again until it works. Until then what is sent is answered
    /// [`Away`](SendError::Away). Has to be called on a runtime.
    pub fn connect_lazy(
        settings: &RedisSettings,
        scripts: &[&'static str],
    ) -> Result<Arc<Self>, ConnectError> {
        let means = Arc::new(ClientConfig::new(settings, scripts)?);
        let away = |finder| {
            let server = Server::new(means.clone(), finder, Membership::Standalone);
            server.start_open();
            ManagedServer::new(server)
        };
        let addresses = settings.url.addresses.clone();
        let layout = match &settings.url.deployment {
            Deployment::Single => Topology::Single(away(AddressSource::Fixed(settings.url.first_address().clone()))),
            Deployment::Sentinel { master, login } => {
                let sentinels = Sentinels::new(addresses, master.clone(), login.clone());
                Topology::Single(away(AddressSource::Sentinels(sentinels)))
            }
            Deployment::Ring => {
                Topology::Ring(Ring::new(addresses.into_iter().map(|at| away(AddressSource::Fixed(at))).collect()))
            }
            Deployment::Cluster => {
                let cluster = cluster::new_unconnected(means.clone(), addresses);
                let _refreshing = AbortOnDrop::spawn(cluster::discover_then_refresh(cluster.clone()));
                Topology::Cluster { cluster, _refresh_task: _refreshing }
            }
        };
        Ok(Arc::new(Self { config: means, topology: layout }))
    }

    /// What the script at this place of those given to [`connect`](Self::connect) is called by.
    pub fn sha(&self, script: usize) -> &str {
        self.config.scripts.get(script).map_or("", |script| script.sha())
    }

    /// Where the keys of this hash tag are. It waits for nothing.
    pub fn locate(&self, tag: &[u8]) -> KeyLocation {
        match &self.topology {
            Topology::Single(_) => KeyLocation { server: ServerId::FIRST, slot: 0 },
            Topology::Ring(ring) => KeyLocation { server: ring.locate(tag), slot: 0 },
            Topology::Cluster { cluster, .. } => cluster.locate(tag),
        }
    }

    /// Sends commands as one pipeline and gives their replies, in order, within [`RedisSettings::timeout`]. A script is
    /// loaded again where it was lost, and redirects of a cluster are followed. What may have been run is never sent again.
    pub async fn send(&self, server: ServerId, round: Vec<SlotCommand>) -> Vec<Result<redis::Value, SendError>> {
        match self.server(server) {
            _ if round.is_empty() => Vec::new(),
            Some(server) => sending::send(self, server, round).await,
            None => round.iter().map(|_| Err(SendError::Away)).collect(),
        }
    }

    fn server(&self, server: ServerId) -> Option<Arc<Server>> {
        match &self.topology {
            Topology::Single(kept) => Some(kept.server.clone()),
            Topology::Ring(ring) => ring.server(server).cloned(),
            Topology::Cluster { cluster, .. } => cluster.server(server),
        }
    }

    /// Starts the periodic work that is due.
    pub fn tick(&self, now: Timestamp) {
        match &self.topology {
            Topology::Single(kept) => {
                if let AddressSource::Sentinels(sentinels) = &kept.server.address_source {
                    sentinels.tick(now);
                }
            }
            Topology::Ring(_) => {}
            Topology::Cluster { cluster, .. } => cluster.tick(now),
        }
    }

    /// What was counted.
    pub fn stats(&self) -> ServersStats {
        let (servers, moved_to_next) = match &self.topology {
            Topology::Single(kept) => (vec![kept.server.stats()], 0),
            Topology::Ring(ring) => {
                (ring.servers().map(Server::stats).collect(), ring.moved_keys.load(Relaxed))
            }
            Topology::Cluster { cluster, .. } => (cluster.stats(), 0),
        };
        ServersStats {
            servers,
            total: self.config.total_counters.snapshot(),
            ring_moved: moved_to_next,
            replicas_short: self.config.replicas_short.load(Relaxed),
        }
    }

    fn config(&self) -> &ClientConfig {
        &self.config
    }

    fn cluster(&self) -> Option<&Cluster> {
        if let Topology::Cluster { cluster, .. } = &self.topology { Some(cluster) } else { None }
    }
}

impl Topology {
    async fn connect_single(server: Arc<Server>) -> Result<Self, ConnectError> {
        server.connect(ConnectTimeouts::Startup).await?;
        Ok(Self::Single(ManagedServer::new(server)))
    }
}
