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
use super::url::Shape;
use cluster::Cluster;
use finder::Finder;
use keeper::Kept;
use means::Means;
use probe::Patience;
use ring::Ring;
use sentinel::Sentinels;
use server::{Part, Server};
use task::Task;

pub use connect_error::{ConnectError, ConnectErrorKind};
pub use event::{EventHook, StoreEvent};
pub(super) use listening::{ListenError, Listener};
pub(super) use place::{Place, ServerId};
pub(super) use sent::{SendError, Sent};
pub use stats::{BreakerState, ServerCounts, ServerStats, ServersStats};

/// All servers of the store.
pub(super) struct Servers {
    means: Arc<Means>,
    layout: Layout,
}

/// How they belong together.
enum Layout {
    One(Kept),
    Ring(Ring),
    Cluster { cluster: Arc<Cluster>, _refreshing: Task },
}

impl Servers {
    /// Connects, once, and says what is wrong if that does not work. The scripts are loaded everywhere, now and whenever
    /// a server has lost them; [`sha`](Self::sha) is what they are called by.
    pub async fn connect(
        settings: &RedisSettings,
        scripts: &[&'static str],
    ) -> Result<Arc<Self>, ConnectError> {
        let means = Arc::new(Means::new(settings, scripts)?);
        let alone = |finder| Server::new(means.clone(), finder, Part::Alone);
        let addresses = settings.url.addresses.clone();
        let layout = match &settings.url.shape {
            Shape::Single => Layout::one(alone(Finder::At(settings.url.first().clone()))).await?,
            Shape::Sentinel { master, login } => {
                let sentinels = Sentinels::new(addresses, master.clone(), login.clone());
                Layout::one(alone(Finder::Asking(sentinels))).await?
            }
            Shape::Ring => {
                let members = addresses.into_iter().map(|at| alone(Finder::At(at))).collect();
                Layout::Ring(Ring::new(keeper::start(members).await?))
            }
            Shape::Cluster => {
                let cluster = cluster::connect(means.clone(), addresses).await?;
                let _refreshing = Task::spawn(cluster::keep_refreshing(cluster.clone()));
                Layout::Cluster { cluster, _refreshing }
            }
        };
        Ok(Arc::new(Self { means, layout }))
    }

    /// Connects in the background, again and again until it works. Until then what is sent is answered
    /// [`Away`](SendError::Away). Has to be called on a runtime.
    pub fn connect_lazy(
        settings: &RedisSettings,
        scripts: &[&'static str],
    ) -> Result<Arc<Self>, ConnectError> {
        let means = Arc::new(Means::new(settings, scripts)?);
        let away = |finder| {
            let server = Server::new(means.clone(), finder, Part::Alone);
            server.start_away();
            Kept::new(server)
        };
        let addresses = settings.url.addresses.clone();
        let layout = match &settings.url.shape {
            Shape::Single => Layout::One(away(Finder::At(settings.url.first().clone()))),
            Shape::Sentinel { master, login } => {
                let sentinels = Sentinels::new(addresses, master.clone(), login.clone());
                Layout::One(away(Finder::Asking(sentinels)))
            }
            Shape::Ring => {
                Layout::Ring(Ring::new(addresses.into_iter().map(|at| away(Finder::At(at))).collect()))
            }
            Shape::Cluster => {
                let cluster = cluster::unconnected(means.clone(), addresses);
                let _refreshing = Task::spawn(cluster::find_and_keep_refreshing(cluster.clone()));
                Layout::Cluster { cluster, _refreshing }
            }
        };
        Ok(Arc::new(Self { means, layout }))
    }

    /// What the script at this place of those given to [`connect`](Self::connect) is called by.
    pub fn sha(&self, script: usize) -> &str {
        self.means.scripts.get(script).map_or("", |script| script.sha())
    }

    /// Where the keys of this hash tag are. It waits for nothing.
    pub fn place(&self, tag: &[u8]) -> Place {
        match &self.layout {
            Layout::One(_) => Place { server: ServerId::FIRST, slot: 0 },
            Layout::Ring(ring) => Place { server: ring.place(tag), slot: 0 },
            Layout::Cluster { cluster, .. } => cluster.place(tag),
        }
    }

    /// Sends commands as one pipeline and gives their replies, in order, within [`RedisSettings::timeout`]. A script is
    /// loaded again where it was lost, and redirects of a cluster are followed. What may have been run is never sent again.
    pub async fn send(&self, server: ServerId, round: Vec<Sent>) -> Vec<Result<redis::Value, SendError>> {
        match self.server(server) {
            _ if round.is_empty() => Vec::new(),
            Some(server) => sending::send(self, server, round).await,
            None => round.iter().map(|_| Err(SendError::Away)).collect(),
        }
    }

    fn server(&self, server: ServerId) -> Option<Arc<Server>> {
        match &self.layout {
            Layout::One(kept) => Some(kept.server.clone()),
            Layout::Ring(ring) => ring.server(server).cloned(),
            Layout::Cluster { cluster, .. } => cluster.server(server),
        }
    }

    /// Starts the periodic work that is due.
    pub fn tick(&self, now: Timestamp) {
        match &self.layout {
            Layout::One(kept) => {
                if let Finder::Asking(sentinels) = &kept.server.finder {
                    sentinels.tick(now);
                }
            }
            Layout::Ring(_) => {}
            Layout::Cluster { cluster, .. } => cluster.tick(now),
        }
    }

    /// What was counted.
    pub fn stats(&self) -> ServersStats {
        let (servers, moved_to_next) = match &self.layout {
            Layout::One(kept) => (vec![kept.server.stats()], 0),
            Layout::Ring(ring) => {
                (ring.servers().map(Server::stats).collect(), ring.moved_to_next.load(Relaxed))
            }
            Layout::Cluster { cluster, .. } => (cluster.stats(), 0),
        };
        ServersStats {
            servers,
            total: self.means.total.snapshot(),
            moved_to_next,
            waited_short: self.means.waited_short.load(Relaxed),
        }
    }

    fn means(&self) -> &Means {
        &self.means
    }

    fn cluster(&self) -> Option<&Cluster> {
        if let Layout::Cluster { cluster, .. } = &self.layout { Some(cluster) } else { None }
    }
}

impl Layout {
    async fn one(server: Arc<Server>) -> Result<Self, ConnectError> {
        server.connect(Patience::AtStart).await?;
        Ok(Self::One(Kept::new(server)))
    }
}
