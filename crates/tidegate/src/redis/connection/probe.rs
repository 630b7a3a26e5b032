//! Connects to a server and checks whether it can be used, at startup and in the background.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use redis::{Cmd, Pipeline, Value};
use tokio::time::timeout;

use super::client_config::ClientConfig;
use super::connect_error::{ConnectError, ConnectErrorKind as Kind};
use super::handshake::{HelloReply, ReplicationRole, ServerMode, handshake, into_result, refusal_error};
use super::multiplexed::{Connection, closed_error};
use super::reply::{CommandReply, RefusalScope};
use super::server::{Membership, Server};
use super::stats::BreakerState;
use crate::redis::topology::address_source::AddressSource;
use crate::redis::topology::hash_slot::tag_for_slot;
use crate::redis::url::Address;

/// How often a server may reply late to a probe before it counts as still down.
const PROBE_TRIES: usize = 3;

/// How long a connection attempt may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectTimeouts {
    /// The caller waits for a precise error.
    Startup,
    /// Other attempts follow soon.
    Background,
}

/// Connecting with TLS takes about this many round trips. The timeout of a decision covers at least one.
const ROUND_TRIPS: u32 = 8;
const TOTAL_STARTUP: Duration = Duration::from_secs(5);
const TOTAL_BACKGROUND_MIN: Duration = Duration::from_millis(500);
const PER_SERVER_STARTUP: Duration = Duration::from_secs(2);
const PER_SERVER_BACKGROUND_MIN: Duration = Duration::from_millis(250);

impl ConnectTimeouts {
    /// The timeout for connecting and the handshake, given the timeout of a decision.
    pub fn total(self, decision: Duration) -> Duration {
        match self {
            Self::Startup => TOTAL_STARTUP,
            Self::Background => {
                decision.saturating_mul(ROUND_TRIPS).clamp(TOTAL_BACKGROUND_MIN, TOTAL_STARTUP)
            }
        }
    }

    /// The timeout for one of several servers that can reply the same.
    pub fn per_server(self, decision: Duration) -> Duration {
        match self {
            Self::Startup => PER_SERVER_STARTUP,
            Self::Background => {
                decision.saturating_mul(ROUND_TRIPS).clamp(PER_SERVER_BACKGROUND_MIN, PER_SERVER_STARTUP)
            }
        }
    }
}

/// A connection that can be used, and its address.
pub(crate) async fn connect(
    server: &Server,
    timeouts: ConnectTimeouts,
) -> Result<(Address, Connection), ConnectError> {
    let config = &*server.config;
    let address = server.address_source.resolve(config, timeouts.per_server(config.timeout)).await?;
    let total_timeout = timeouts.total(config.timeout);
    let connecting = async {
        let endpoint = config.endpoint(&address);
        let connection = Connection::open(config, &endpoint).await?;
        let hello = handshake(&connection, &endpoint).await?;
        check_server_kind(server, &address, hello)?;
        load_scripts(config, &address, &connection).await?;
        run_probe(server, &address, &connection).await?;
        Ok::<_, ConnectError>(connection)
    };
    let connection =
        timeout(total_timeout, connecting).await.map_err(|_| timeout_error(&address, total_timeout))??;
    Ok((address, connection))
}

pub(crate) fn timeout_error(address: &Address, timeout: Duration) -> ConnectError {
    ConnectError::new(
        Kind::Unreachable,
        address,
        format!("no answer within {timeout:?}"),
        "check the host, the port and firewalls; use rediss:// with TLS, and redis:// without",
    )
}

/// Checks that the URL has the right scheme for this server: single, Sentinel or cluster.
fn check_server_kind(server: &Server, address: &Address, hello: HelloReply) -> Result<(), ConnectError> {
    let refuse = |kind, message, hint| Err(ConnectError::new(kind, address, message, hint));
    match (&server.membership, hello.mode) {
        (_, ServerMode::Sentinel) => refuse(
            Kind::WrongKind,
            "it is a Sentinel, which holds no data",
            "use redis+sentinel://HOST,HOST/MASTER to get the master from Sentinels",
        ),
        (Membership::Standalone, ServerMode::Cluster) => {
            refuse(Kind::WrongKind, "it is part of a cluster", "use redis-cluster://HOST,HOST for a cluster")
        }
        (Membership::Cluster { .. }, ServerMode::Standalone) => refuse(
            Kind::WrongKind,
            "it is not part of a cluster",
            "use redis://HOST for a single server, or redis+ring://HOST,HOST for several",
        ),
        (Membership::Cluster { .. }, _) if hello.role == ReplicationRole::Replica => {
            refuse(Kind::NotReady, "it is a replica now", "wait until the cluster reports its master")
        }
        (Membership::Standalone, _) if hello.role == ReplicationRole::Replica => {
            match server.address_source {
                AddressSource::Fixed(_) => refuse(
                    Kind::WrongKind,
                    "it is a read-only replica",
                    "name the master, or get it from Sentinels: redis+sentinel://HOST,HOST/MASTER",
                ),
                AddressSource::Sentinels(_) => refuse(
                    Kind::NotReady,
                    "the Sentinels name it as master, but it is a replica",
                    "wait until the failover is done",
                ),
            }
        }
        _ => Ok(()),
    }
}

async fn load_scripts(
    config: &ClientConfig,
    address: &Address,
    connection: &Connection,
) -> Result<(), ConnectError> {
    let mut pipeline = Pipeline::new();
    for script in config.scripts.iter().chain([&config.probe]) {
        pipeline.cmd("SCRIPT").arg("LOAD").arg(script.text);
    }
    let replies = connection.send(&pipeline).await.map_err(|error| closed_error(address, &error))?;
    for reply in replies {
        into_result(Some(reply)).map_err(|error| refusal_error(address, &error))?;
    }
    Ok(())
}

/// Calls the probe script on a key of this server.
pub(super) fn probe_command(server: &Server) -> Cmd {
    let tag = match &server.membership {
        Membership::Standalone => "probe".to_owned(),
        Membership::Cluster { slot, .. } => tag_for_slot(slot.load(Relaxed)),
    };
    let mut command = redis::cmd("EVALSHA");
    command.arg(server.config.probe.sha()).arg(1).arg(format!("{}:1{{{tag}}}probe", server.config.namespace));
    command
}

/// Runs the commands of a decision on one key. A server that was down must do so within the timeout of a
/// decision. Otherwise its breaker would open and close all the time.
async fn run_probe(server: &Server, address: &Address, connection: &Connection) -> Result<(), ConnectError> {
    let config = &*server.config;
    let mut pipeline = Pipeline::new();
    pipeline.add_command(probe_command(server));
    if config.wait_replicas.is_some() {
        // Zero replicas: only the permission is tested.
        pipeline.cmd("WAIT").arg(0).arg(1);
    }
    let run_once = async || {
        let replies = connection.send(&pipeline).await.map_err(|error| closed_error(address, &error))?;
        replies.into_iter().try_for_each(|reply| check_probe_reply(server, address, reply))
    };
    if server.breaker.state() == BreakerState::Closed {
        return run_once().await;
    }
    for _ in 0..PROBE_TRIES {
        if let Ok(result) = timeout(config.timeout, run_once()).await {
            return result;
        }
    }
    let message = format!("it replies, but not within {:?}", config.timeout);
    Err(ConnectError::new(
        Kind::NotReady,
        address,
        message,
        "raise the store's timeout, or find out why it is slow",
    ))
}

fn check_probe_reply(server: &Server, address: &Address, reply: Value) -> Result<(), ConnectError> {
    match into_result(Some(reply)) {
        Ok(_) => Ok(()),
        // The slot is on another server or migrating, which is not this server's fault.
        Err(error) => match CommandReply::from_value(Value::ServerError(error.clone())) {
            CommandReply::Moved(_) | CommandReply::Ask(_) | CommandReply::TryAgain(_) => Ok(()),
            // It can still deny requests.
            CommandReply::Refused(refusal) if refusal.scope == RefusalScope::Writes => {
                server.record_write_refusal(&refusal_error(address, &error).reason());
                Ok(())
            }
            _ => Err(refusal_error(address, &error)),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::ConnectTimeouts::{Background, Startup};

    #[test]
    fn connect_timeouts_grow_with_the_decision_timeout() {
        let ms = Duration::from_millis;
        // With the default timeout, and as long as it is short.
        for decision in [1, 10, 30] {
            assert_eq!(
                (Background.total(ms(decision)), Background.per_server(ms(decision))),
                (ms(500), ms(250))
            );
        }
        assert_eq!((Background.total(ms(200)), Background.per_server(ms(200))), (ms(1600), ms(1600)));
        // Never longer than the timeout at startup.
        for decision in [1_000, 60_000, u64::MAX / 1_000_000] {
            let decision = ms(decision);
            assert_eq!(Background.total(decision), Startup.total(decision));
            assert_eq!(Background.per_server(decision), Startup.per_server(decision));
        }
    }
}
