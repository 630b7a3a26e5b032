//! All servers of a store, however they are organized.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tidegate_core::Timestamp;

use super::address_source::AddressSource;
use super::cluster::{self, Cluster};
use super::location::{KeyLocation, KeyMobility, ServerId};
use super::ring::Ring;
use super::send::{self, SentCommands};
use super::sentinel::Sentinels;
use crate::redis::RedisSettings;
use crate::redis::connection::{
    ClientConfig, ConnectError, ConnectTimeouts, ManagedServer, Membership, PipelinePurpose, PipelineTerms,
    Server, ServersStats, SlotCommand, SubscribeError, SubscriberConnection, connect_all,
};
use crate::redis::runtime::AbortOnDrop;
#[cfg(feature = "rules")]
use crate::redis::url::Address;
use crate::redis::url::Deployment;

/// All servers of the store.
pub(crate) struct Servers {
    config: Arc<ClientConfig>,
    topology: Topology,
}

/// How the servers are organized.
enum Topology {
    Single(ManagedServer),
    Ring(Ring),
    Cluster { cluster: Arc<Cluster>, _refresh_task: AbortOnDrop },
}

impl Servers {
    /// Connects with one attempt, and returns an error if it fails. The scripts are loaded on every server,
    /// now and whenever a server has lost them. [`sha`](Self::sha) returns their hashes.
    pub async fn connect(
        settings: &RedisSettings,
        scripts: &[&'static str],
    ) -> Result<Arc<Self>, ConnectError> {
        let config = Arc::new(ClientConfig::new(settings, scripts)?);
        let new_server = |address_source| Server::new(config.clone(), address_source, Membership::Standalone);
        let addresses = settings.url.addresses.clone();
        let topology = match &settings.url.deployment {
            Deployment::Single => {
                Topology::connect_single(new_server(AddressSource::Fixed(
                    settings.url.first_address().clone(),
                )))
                .await?
            }
            Deployment::Sentinel { master, login } => {
                let sentinels = Sentinels::new(addresses, master.clone(), login.clone());
                Topology::connect_single(new_server(AddressSource::Sentinels(sentinels))).await?
            }
            Deployment::Ring => {
                let members =
                    addresses.into_iter().map(|address| new_server(AddressSource::Fixed(address))).collect();
                Topology::Ring(Ring::new(connect_all(members).await?))
            }
            Deployment::Cluster => {
                let cluster = cluster::connect(config.clone(), addresses).await?;
                let _refresh_task = AbortOnDrop::spawn(cluster::refresh_loop(cluster.clone()));
                Topology::Cluster { cluster, _refresh_task }
            }
        };
        Ok(Arc::new(Self { config, topology }))
    }

    /// Connects in the background and retries until it works. Until then, commands are not sent and fail at once.
    /// Must be called on a tokio runtime.
    pub fn connect_lazy(
        settings: &RedisSettings,
        scripts: &[&'static str],
    ) -> Result<Arc<Self>, ConnectError> {
        let config = Arc::new(ClientConfig::new(settings, scripts)?);
        let new_managed = |address_source| {
            let server = Server::new(config.clone(), address_source, Membership::Standalone);
            server.start_open();
            ManagedServer::new(server)
        };
        let addresses = settings.url.addresses.clone();
        let topology = match &settings.url.deployment {
            Deployment::Single => {
                Topology::Single(new_managed(AddressSource::Fixed(settings.url.first_address().clone())))
            }
            Deployment::Sentinel { master, login } => {
                let sentinels = Sentinels::new(addresses, master.clone(), login.clone());
                Topology::Single(new_managed(AddressSource::Sentinels(sentinels)))
            }
            Deployment::Ring => Topology::Ring(Ring::new(
                addresses.into_iter().map(|address| new_managed(AddressSource::Fixed(address))).collect(),
            )),
            Deployment::Cluster => {
                let cluster = cluster::new_unconnected(config.clone(), addresses);
                let _refresh_task = AbortOnDrop::spawn(cluster::discover_then_refresh(cluster.clone()));
                Topology::Cluster { cluster, _refresh_task }
            }
        };
        Ok(Arc::new(Self { config, topology }))
    }

    /// The SHA-1 of the script with this index in the list given to [`connect`](Self::connect).
    pub fn sha(&self, script: usize) -> &str {
        self.config.scripts.get(script).map_or("", |script| script.sha())
    }

    /// Where the keys of this hash tag are. It never waits.
    pub fn locate(&self, tag: &[u8], mobility: KeyMobility) -> KeyLocation {
        match &self.topology {
            Topology::Single(_) => KeyLocation { server: ServerId::FIRST, slot: 0 },
            Topology::Ring(ring) => KeyLocation { server: ring.locate(tag, mobility), slot: 0 },
            Topology::Cluster { cluster, .. } => cluster.locate(tag),
        }
    }

    /// Sends commands as one pipeline and returns their replies in order, within [`RedisSettings::timeout`].
    /// Reloads lost scripts and follows redirects of a cluster. A command that may have run is never sent
    /// again.
    pub async fn send(&self, server: ServerId, commands: Vec<SlotCommand>) -> SentCommands {
        self.send_with(server, commands, PipelineTerms::new(self.config.timeout, PipelinePurpose::Decisions))
            .await
    }

    /// The same, on other terms.
    pub async fn send_with(
        &self,
        server: ServerId,
        commands: Vec<SlotCommand>,
        terms: PipelineTerms,
    ) -> SentCommands {
        match self.server(server) {
            Some(server) if !commands.is_empty() => send::send(self, server, commands, terms).await,
            _ => SentCommands::not_sent(&commands),
        }
    }

    /// The last known address of a server.
    #[cfg(feature = "rules")]
    pub fn address(&self, server: ServerId) -> Option<Address> {
        self.server(server).map(|server| server.address())
    }

    /// Opens a connection to a server that receives messages. `on_message` gets the channel of each.
    pub async fn open_subscriber(
        &self,
        server: ServerId,
        on_message: impl Fn(&[u8]) + Send + Sync + 'static,
    ) -> Result<SubscriberConnection, SubscribeError> {
        let server = self.server(server).ok_or(SubscribeError::Broken)?;
        let address = server.address();
        SubscriberConnection::open(&self.config, &self.config.endpoint(&address), on_message).await
    }

    fn server(&self, server: ServerId) -> Option<Arc<Server>> {
        match &self.topology {
            Topology::Single(managed) => Some(managed.server.clone()),
            Topology::Ring(ring) => ring.server(server).cloned(),
            Topology::Cluster { cluster, .. } => cluster.server(server),
        }
    }

    /// Starts the periodic work that is due.
    pub fn tick(&self, now: Timestamp) {
        match &self.topology {
            Topology::Single(managed) => {
                if let AddressSource::Sentinels(sentinels) = &managed.server.address_source {
                    sentinels.tick(now);
                }
            }
            Topology::Ring(_) => {}
            Topology::Cluster { cluster, .. } => cluster.tick(now),
        }
    }

    /// The counters of all servers.
    pub fn stats(&self) -> ServersStats {
        let (servers, ring_moved) = match &self.topology {
            Topology::Single(managed) => (vec![managed.server.stats()], 0),
            Topology::Ring(ring) => {
                (ring.servers().map(Server::stats).collect(), ring.moved_keys.load(Relaxed))
            }
            Topology::Cluster { cluster, .. } => (cluster.stats(), 0),
        };
        ServersStats {
            servers,
            total: self.config.total_counters.snapshot(),
            ring_moved,
            replicas_short: self.config.replicas_short.load(Relaxed),
        }
    }

    pub(super) fn cluster(&self) -> Option<&Cluster> {
        if let Topology::Cluster { cluster, .. } = &self.topology { Some(cluster) } else { None }
    }
}

impl Topology {
    async fn connect_single(server: Arc<Server>) -> Result<Self, ConnectError> {
        server.connect(ConnectTimeouts::Startup).await?;
        Ok(Self::Single(ManagedServer::new(server)))
    }
}
