//! Connecting to a server and finding out whether it can be used, at the start and in the background.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use redis::{Pipeline, Value};
use tokio::time::timeout;

use super::connect_error::{ConnectError, ConnectErrorKind as Kind};
use super::connection::{Connection, closed};
use super::finder::Finder;
use super::greeting::{Greeting, Mode, Role, greet, judged, refused};
use super::means::Means;
use super::reply::Reply;
use super::server::{Part, Server};
use super::slot::tag_in;
use super::stats::BreakerState;
use crate::redis::url::Address;

/// How often a server that was away may answer late before it is taken to be still away.
const PROMPT_TRIES: usize = 3;

/// How long connecting may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// Somebody waits for a message that is right.
    AtStart,
    /// There will be other tries, soon.
    InBackground,
}

/// Connecting takes about so many round trips with TLS, and decisions are given one at least.
const ROUND_TRIPS: u32 = 8;
const WHOLE_AT_START: Duration = Duration::from_secs(5);
const WHOLE_IN_BACKGROUND: Duration = Duration::from_millis(500);
const EACH_AT_START: Duration = Duration::from_secs(2);
const EACH_IN_BACKGROUND: Duration = Duration::from_millis(250);

impl Patience {
    /// For connecting and all that is said first, where decisions may take so long.
    pub fn whole(self, decision: Duration) -> Duration {
        match self {
            Self::AtStart => WHOLE_AT_START,
            Self::InBackground => {
                decision.saturating_mul(ROUND_TRIPS).clamp(WHOLE_IN_BACKGROUND, WHOLE_AT_START)
            }
        }
    }

    /// For one of several that can say the same.
    pub fn each(self, decision: Duration) -> Duration {
        match self {
            Self::AtStart => EACH_AT_START,
            Self::InBackground => {
                decision.saturating_mul(ROUND_TRIPS).clamp(EACH_IN_BACKGROUND, EACH_AT_START)
            }
        }
    }
}

/// A connection that can be used, and where to.
pub(super) async fn connect(
    server: &Server,
    patience: Patience,
) -> Result<(Address, Connection), ConnectError> {
    let means = &*server.means;
    let address = server.finder.find(means, patience.each(means.timeout)).await?;
    let within = patience.whole(means.timeout);
    let connecting = async {
        let whom = means.server(&address);
        let connection = Connection::open(means, &whom).await?;
        let greeting = greet(&connection, &whom).await?;
        check_kind(server, &address, greeting)?;
        load_scripts(means, &address, &connection).await?;
        try_out(server, &address, &connection).await?;
        Ok::<_, ConnectError>(connection)
    };
    let connection = timeout(within, connecting).await.map_err(|_| late(&address, within))??;
    Ok((address, connection))
}

pub(super) fn late(address: &Address, within: Duration) -> ConnectError {
    ConnectError::new(
        Kind::Unreachable,
        address,
        format!("no answer within {within:?}"),
        "check host, port and firewalls; with TLS it is rediss://, without it redis://",
    )
}

/// Whether it is what the URL says.
fn check_kind(server: &Server, address: &Address, greeting: Greeting) -> Result<(), ConnectError> {
    let wrong = |kind, what, hint| Err(ConnectError::new(kind, address, what, hint));
    match (&server.part, greeting.mode) {
        (_, Mode::Sentinel) => wrong(
            Kind::WrongKind,
            "it is a Sentinel, which keeps no data",
            "redis+sentinel://HOST,HOST/MASTER asks Sentinels where the master is",
        ),
        (Part::Alone, Mode::Cluster) => {
            wrong(Kind::WrongKind, "it is part of a cluster", "redis-cluster://HOST,HOST is for clusters")
        }
        (Part::OfCluster { .. }, Mode::Standalone) => wrong(
            Kind::WrongKind,
            "it is not part of a cluster",
            "redis://HOST is for a single server, redis+ring://HOST,HOST for several",
        ),
        (Part::OfCluster { .. }, _) if greeting.role == Role::Replica => {
            wrong(Kind::NotReady, "it is a replica now", "the cluster will say who is master")
        }
        (Part::Alone, _) if greeting.role == Role::Replica => match server.finder {
            Finder::At(_) => wrong(
                Kind::WrongKind,
                "it is a replica, which takes no writes",
                "name the master, or let Sentinels say who that is: redis+sentinel://HOST,HOST/MASTER",
            ),
            Finder::Asking(_) => wrong(
                Kind::NotReady,
                "the Sentinels name it as master, and it is a replica",
                "wait for the failover to be done",
            ),
        },
        _ => Ok(()),
    }
}

async fn load_scripts(means: &Means, address: &Address, connection: &Connection) -> Result<(), ConnectError> {
    let mut pipeline = Pipeline::new();
    for script in means.scripts.iter().chain([&means.probe]) {
        pipeline.cmd("SCRIPT").arg("LOAD").arg(script.text);
    }
    let replies = connection.ask(&pipeline).await.map_err(|error| closed(address, &error))?;
    for reply in replies {
        judged(Some(reply)).map_err(|error| refused(address, &error))?;
    }
    Ok(())
}

/// Does what decisions do to one key. A server that was away has to do so as fast as decisions need it, else its breaker would
/// open and close all the time.
async fn try_out(server: &Server, address: &Address, connection: &Connection) -> Result<(), ConnectError> {
    let means = &*server.means;
    let tag = match &server.part {
        Part::Alone => "probe".to_owned(),
        Part::OfCluster { slot, .. } => tag_in(slot.load(Relaxed)),
    };
    let mut pipeline = Pipeline::new();
    pipeline.cmd("EVALSHA").arg(means.probe.sha()).arg(1).arg(format!("{}:1{{{tag}}}probe", means.namespace));
    if means.wait_replicas.is_some() {
        // For none: it is the right to do so that is tried.
        pipeline.cmd("WAIT").arg(0).arg(1);
    }
    let answer = async || {
        let replies = connection.ask(&pipeline).await.map_err(|error| closed(address, &error))?;
        replies.into_iter().try_for_each(|reply| can_be_used(address, reply))
    };
    if server.breaker.state() == BreakerState::Closed {
        return answer().await;
    }
    for _ in 0..PROMPT_TRIES {
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

fn can_be_used(address: &Address, reply: Value) -> Result<(), ConnectError> {
    match judged(Some(reply)) {
        Ok(_) => Ok(()),
        // The slot is elsewhere, or on its way: that is no fault of this server.
        Err(error) => match Reply::of(Value::ServerError(error.clone())) {
            Reply::Moved(_) | Reply::Ask(_) | Reply::TryAgain(_) => Ok(()),
            _ => Err(refused(address, &error)),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Patience::{AtStart, InBackground};

    #[test]
    fn who_may_take_long_to_answer_may_take_long_to_connect() {
        let ms = Duration::from_millis;
        // By default, and as long as it is soon.
        for decision in [1, 10, 30] {
            assert_eq!(
                (InBackground.whole(ms(decision)), InBackground.each(ms(decision))),
                (ms(500), ms(250))
            );
        }
        assert_eq!((InBackground.whole(ms(200)), InBackground.each(ms(200))), (ms(1600), ms(1600)));
        // Never longer than somebody waits at the start.
        for decision in [1_000, 60_000, u64::MAX / 1_000_000] {
            let decision = ms(decision);
            assert_eq!(InBackground.whole(decision), AtStart.whole(decision));
            assert_eq!(InBackground.each(decision), AtStart.each(decision));
        }
    }
}
