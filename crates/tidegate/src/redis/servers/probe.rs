//! Connecting to a server and finding out whether it can be used, at the start and in the background.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use redis::{Pipeline, Value};
use tokio::time::timeout;

use super::connect_error::{ConnectError, ConnectErrorKind as Kind};
use super::connection::{Connection, closed_error};
use super::finder::AddressSource;
use super::greeting::{HelloReply, ServerMode, ReplicationRole, handshake, into_result, refusal_error};
use super::means::ClientConfig;
use super::reply::CommandReply;
use super::server::{Membership, Server};
use super::slot::tag_for_slot;
use super::stats::BreakerState;
use crate::redis::url::Address;

/// How often a server that was away may answer late before it is taken to be still away.
const PROBE_TRIES: usize = 3;

/// How long connecting may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectTimeouts {
    /// Somebody waits for a message that is right.
    Startup,
    /// There will be other tries, soon.
    Background,
}

/// Connecting takes about so many round trips with TLS, and decisions are given one at least.
const ROUND_TRIPS: u32 = 8;
const TOTAL_STARTUP: Duration = Duration::from_secs(5);
const TOTAL_BACKGROUND_MIN: Duration = Duration::from_millis(500);
const PER_SERVER_STARTUP: Duration = Duration::from_secs(2);
const PER_SERVER_BACKGROUND_MIN: Duration = Duration::from_millis(250);

impl ConnectTimeouts {
    /// For connecting and all that is said first, where decisions may take so long.
    pub fn total(self, decision: Duration) -> Duration {
        match self {
            Self::Startup => TOTAL_STARTUP,
            Self::Background => {
                decision.saturating_mul(ROUND_TRIPS).clamp(TOTAL_BACKGROUND_MIN, TOTAL_STARTUP)
            }
        }
    }

    /// For one of several that can say the same.
    pub fn per_server(self, decision: Duration) -> Duration {
        match self {
            Self::Startup => PER_SERVER_STARTUP,
            Self::Background => {
                decision.saturating_mul(ROUND_TRIPS).clamp(PER_SERVER_BACKGROUND_MIN, PER_SERVER_STARTUP)
            }
        }
    }
}

/// A connection that can be used, and where to.
pub(super) async fn connect(
    server: &Server,
    patience: ConnectTimeouts,
) -> Result<(Address, Connection), ConnectError> {
    let means = &*server.config;
    let address = server.address_source.resolve(means, patience.per_server(means.timeout)).await?;
    let within = patience.total(means.timeout);
    let connecting = async {
        let whom = means.endpoint(&address);
        let connection = Connection::open(means, &whom).await?;
        let greeting = handshake(&connection, &whom).await?;
        check_server_kind(server, &address, greeting)?;
        load_scripts(means, &address, &connection).await?;
        run_probe(server, &address, &connection).await?;
        Ok::<_, ConnectError>(connection)
    };
    let connection = timeout(within, connecting).await.map_err(|_| timeout_error(&address, within))??;
    Ok((address, connection))
}

pub(super) fn timeout_error(address: &Address, within: Duration) -> ConnectError {
    ConnectError::new(
        Kind::Unreachable,
        address,
        format!("no answer within {within:?}"),
        "check host, port and firewalls; with TLS it is rediss://, without it redis://",
    )
}

/// Whether it is what the URL says.
fn check_server_kind(server: &Server, address: &Address, greeting: HelloReply) -> Result<(), ConnectError> {
    let wrong = |kind, what, hint| Err(ConnectError::new(kind, address, what, hint));
    match (&server.membership, greeting.mode) {
        (_, ServerMode::Sentinel) => wrong(
            Kind::WrongKind,
            "it is a Sentinel, which keeps no data",
            "redis+sentinel://HOST,HOST/MASTER asks Sentinels where the master is",
        ),
        (Membership::Standalone, ServerMode::Cluster) => {
            wrong(Kind::WrongKind, "it is part of a cluster", "redis-cluster://HOST,HOST is for clusters")
        }
        (Membership::Cluster { .. }, ServerMode::Standalone) => wrong(
            Kind::WrongKind,
            "it is not part of a cluster",
            "redis://HOST is for a single server, redis+ring://HOST,HOST for several",
        ),
        (Membership::Cluster { .. }, _) if greeting.role == ReplicationRole::Replica => {
            wrong(Kind::NotReady, "it is a replica now", "the cluster will say who is master")
        }
        (Membership::Standalone, _) if greeting.role == ReplicationRole::Replica => match server.address_source {
            AddressSource::Fixed(_) => wrong(
                Kind::WrongKind,
                "it is a replica, which takes no writes",
                "name the master, or let Sentinels say who that is: redis+sentinel://HOST,HOST/MASTER",
            ),
            AddressSource::Sentinels(_) => wrong(
                Kind::NotReady,
                "the Sentinels name it as master, and it is a replica",
                "wait for the failover to be done",
            ),
        },
        _ => Ok(()),
    }
}

async fn load_scripts(means: &ClientConfig, address: &Address, connection: &Connection) -> Result<(), ConnectError> {
    let mut pipeline = Pipeline::new();
    for script in means.scripts.iter().chain([&means.probe]) {
        pipeline.cmd("SCRIPT").arg("LOAD").arg(script.text);
    }
    let replies = connection.send(&pipeline).await.map_err(|error| closed_error(address, &error))?;
    for reply in replies {
        into_result(Some(reply)).map_err(|error| refusal_error(address, &error))?;
    }
    Ok(())
}

/// Does what decisions do to one key. A server that was away has to do so as fast as decisions need it, else its breaker would
/// open and close all the time.
async fn run_probe(server: &Server, address: &Address, connection: &Connection) -> Result<(), ConnectError> {
    let means = &*server.config;
    let tag = match &server.membership {
        Membership::Standalone => "probe".to_owned(),
        Membership::Cluster { slot, .. } => tag_for_slot(slot.load(Relaxed)),
    };
    let mut pipeline = Pipeline::new();
    pipeline.cmd("EVALSHA").arg(means.probe.sha()).arg(1).arg(format!("{}:1{{{tag}}}probe", means.namespace));
    if means.wait_replicas.is_some() {
        // For none: it is the right to do so that is tried.
        pipeline.cmd("WAIT").arg(0).arg(1);
    }
    let answer = async || {
        let replies = connection.send(&pipeline).await.map_err(|error| closed_error(address, &error))?;
        replies.into_iter().try_for_each(|reply| check_probe_reply(address, reply))
    };
    if server.breaker.state() == BreakerState::Closed {
        return answer().await;
    }
    for _ in 0..PROBE_TRIES {
        if let Ok(answer) = timeout(means.timeout, answer()).await {
            return answer;
        }
    }
    let what = format!("it answers, but not within {:?}", means.timeout);
    Err(ConnectError::new(
        Kind::NotReady,
        address,
        what,
        "give decisions more time, or find out what makes it slow",
    ))
}

fn check_probe_reply(address: &Address, reply: Value) -> Result<(), ConnectError> {
    match into_result(Some(reply)) {
        Ok(_) => Ok(()),
        // The slot is elsewhere, or on its way: that is no fault of this server.
        Err(error) => match CommandReply::from_value(Value::ServerError(error.clone())) {
            CommandReply::Moved(_) | CommandReply::Ask(_) | CommandReply::TryAgain(_) => Ok(()),
            _ => Err(refusal_error(address, &error)),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::ConnectTimeouts::{Startup, Background};

    #[test]
    fn connect_timeouts_grow_with_the_decision_timeout() {
        let ms = Duration::from_millis;
        // By default, and as long as it is soon.
        for decision in [1, 10, 30] {
            assert_eq!(
                (Background.total(ms(decision)), Background.per_server(ms(decision))),
                (ms(500), ms(250))
            );
        }
        assert_eq!((Background.total(ms(200)), Background.per_server(ms(200))), (ms(1600), ms(1600)));
        // Never longer than somebody waits at the start.
        for decision in [1_000, 60_000, u64::MAX / 1_000_000] {
            let decision = ms(decision);
            assert_eq!(Background.total(decision), Startup.total(decision));
            assert_eq!(Background.per_server(decision), Startup.per_server(decision));
        }
    }
}
