//! Looks after the connection of a server: makes another one when it broke, and tries now and then while the server is away.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::backoff::{Backoff, PROBE_PAUSE, RETRY_PAUSE};
use super::connect_error::ConnectError;
use super::finder::AddressSource;
use super::jitter::JitterRange;
use super::probe::ConnectTimeouts;
use super::server::Server;
use super::stats::BreakerState;
use super::task::AbortOnDrop;

/// A connection that did not last so long was made in vain: the next may fare no better.
const STABLE_AFTER: Duration = Duration::from_secs(1);

/// A server, and who looks after it for as long as this lives.
pub(super) struct ManagedServer {
    pub server: Arc<Server>,
    _reconnector: AbortOnDrop,
}

impl ManagedServer {
    pub fn new(server: Arc<Server>) -> Self {
        Self { _reconnector: AbortOnDrop::spawn(reconnect_loop(server.clone())), server }
    }
}

/// Connects to all of them, each once. Some may be away, not all; what does not go away by itself is an error.
pub(super) async fn connect_all(servers: Vec<Arc<Server>>) -> Result<Vec<ManagedServer>, ConnectError> {
    let mut tries = tokio::task::JoinSet::new();
    for server in &servers {
        let server = server.clone();
        tries.spawn(async move {
            let outcome = server.connect(ConnectTimeouts::Startup).await;
            (server, outcome)
        });
    }
    let mut away = Vec::new();
    while let Some(tried) = tries.join_next().await {
        match tried {
            Ok((_, Ok(()))) => {}
            Ok((server, Err(error))) if error.is_transient() => away.push((server, error)),
            Ok((_, Err(error))) => return Err(error),
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        }
    }
    if away.len() == servers.len()
        && let Some((_, error)) = away.pop()
    {
        return Err(error);
    }
    for (server, error) in away {
        server.open_breaker(&error);
    }
    Ok(servers.into_iter().map(ManagedServer::new).collect())
}

async fn reconnect_loop(server: Arc<Server>) {
    let mut lines = server.subscribe_live();
    let mut in_vain = ShortLived::Never;
    let mut backoff = Backoff::default();
    loop {
        let line = lines.borrow_and_update().clone();
        match line {
            Some(line) => {
                let made = Instant::now();
                tokio::select! {
                    () = line.connection.until_broken() => server.drop_connection(line.generation),
                    () = until_master_moved(&server) => server.drop_connection(line.generation),
                    // It was let go of.
                    _ = lines.changed() => {}
                }
                drop(line);
                in_vain = if made.elapsed() < STABLE_AFTER { in_vain.increment() } else { ShortLived::Never };
                if let Some(pause) = pause_after_disconnect(server.breaker.state(), in_vain) {
                    sleep(pause.pick()).await;
                }
            }
            None => match server.connect(ConnectTimeouts::Background).await {
                Ok(()) => backoff = Backoff::default(),
                Err(error) => {
                    server.connect_failed(&error);
                    sleep(backoff.pause(server.breaker.state(), &error)).await;
                }
            },
        }
    }
}

/// How often in a row a connection was made that did not last.
#[derive(Clone, Copy)]
enum ShortLived {
    Never,
    Once,
    Repeatedly,
}

impl ShortLived {
    fn increment(self) -> Self {
        if let Self::Never = self { Self::Once } else { Self::Repeatedly }
    }
}

/// Before another connection is made in place of one that is gone. Somebody may let everybody in and then hang up.
fn pause_after_disconnect(breaker: BreakerState, in_vain: ShortLived) -> Option<JitterRange> {
    match (breaker, in_vain) {
        (BreakerState::Closed, ShortLived::Never) => None,
        (BreakerState::Closed, ShortLived::Once) => Some(RETRY_PAUSE),
        // What failed so often is not asked again at once.
        (BreakerState::Closed, ShortLived::Repeatedly) | (BreakerState::Open, _) => Some(PROBE_PAUSE),
    }
}

/// Comes to be when the Sentinels name another master than the one that is connected. A master that they have given up may
/// still answer here.
async fn until_master_moved(server: &Server) {
    let AddressSource::Sentinels(sentinels) = &server.address_source else { return std::future::pending().await };
    let each = ConnectTimeouts::Background.per_server(server.config.timeout);
    loop {
        sentinels.master_check.notified().await;
        if let Ok(master) = sentinels.query_master(&server.config, each).await
            && master != server.address()
        {
            return;
        }
    }
}
