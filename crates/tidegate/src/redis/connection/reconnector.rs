//! Keeps a server connected: replaces a broken connection, and retries while the server is down.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::backoff::{Backoff, PROBE_PAUSE, RETRY_PAUSE, probe_pause};
use super::connect_error::ConnectError;
use super::jitter::JitterRange;
use super::probe::ConnectTimeouts;
use super::server::Server;
use super::stats::BreakerState;
use crate::redis::runtime::AbortOnDrop;
use crate::redis::topology::address_source::AddressSource;

/// A connection that breaks earlier counts as short-lived: the next one may break too.
const STABLE_AFTER: Duration = Duration::from_secs(1);

/// A server with the task that keeps it connected. The task ends when this is dropped.
pub(crate) struct ManagedServer {
    pub server: Arc<Server>,
    _reconnector: AbortOnDrop,
}

impl ManagedServer {
    pub fn new(server: Arc<Server>) -> Self {
        Self { _reconnector: AbortOnDrop::spawn(reconnect_loop(server.clone())), server }
    }
}

/// Connects to all servers, with one attempt each. Some of them may be down, but not all. A lasting error
/// fails the start.
pub(crate) async fn connect_all(servers: Vec<Arc<Server>>) -> Result<Vec<ManagedServer>, ConnectError> {
    let mut attempts = tokio::task::JoinSet::new();
    for server in &servers {
        let server = server.clone();
        attempts.spawn(async move {
            let result = server.connect(ConnectTimeouts::Startup).await;
            (server, result)
        });
    }
    let mut down = Vec::new();
    while let Some(attempt) = attempts.join_next().await {
        match attempt {
            Ok((_, Ok(()))) => {}
            Ok((server, Err(error))) if error.is_transient() => down.push((server, error)),
            Ok((_, Err(error))) => return Err(error),
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        }
    }
    if down.len() == servers.len()
        && let Some((_, error)) = down.pop()
    {
        return Err(error);
    }
    for (server, error) in down {
        server.open_breaker(&error);
    }
    Ok(servers.into_iter().map(ManagedServer::new).collect())
}

async fn reconnect_loop(server: Arc<Server>) {
    let mut live_changes = server.subscribe_live();
    // Connections in a row that were short-lived.
    let mut short_lived = 0_u32;
    let mut backoff = Backoff::default();
    loop {
        let live = live_changes.borrow_and_update().clone();
        match live {
            Some(live) => {
                let opened_at = Instant::now();
                tokio::select! {
                    () = live.connection.until_broken() => server.drop_connection(live.generation),
                    () = until_master_moved(&server) => server.drop_connection(live.generation),
                    () = server.check_replicas() => {}
                    () = server.check_writes(&live.connection) => {}
                    // The connection was dropped.
                    _ = live_changes.changed() => {}
                }
                drop(live);
                short_lived =
                    if opened_at.elapsed() < STABLE_AFTER { short_lived.saturating_add(1) } else { 0 };
                if let Some(pause) = pause_after_disconnect(server.breaker.state(), short_lived) {
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

/// The pause before a lost connection is replaced, after this many short-lived connections in a row. Some
/// servers accept connections and then close them, or stop to reply.
fn pause_after_disconnect(breaker: BreakerState, short_lived: u32) -> Option<JitterRange> {
    match (breaker, short_lived) {
        (BreakerState::Closed, 0) => None,
        (BreakerState::Closed, 1) => Some(RETRY_PAUSE),
        (BreakerState::Closed, _) => Some(PROBE_PAUSE),
        // It grows in steps: a second stall within a second does not mean that the server is down.
        (BreakerState::Open, failures) => Some(probe_pause(failures)),
    }
}

/// Completes when the Sentinels report another master than the connected one. The old master may still reply.
async fn until_master_moved(server: &Server) {
    let AddressSource::Sentinels(sentinels) = &server.address_source else {
        return std::future::pending().await;
    };
    let timeout_each = ConnectTimeouts::Background.per_server(server.config.timeout);
    let check = async {
        loop {
            sentinels.master_check.notified().await;
            if let Ok(master) = sentinels.query_master(&server.config, timeout_each).await
                && master != server.address()
            {
                return;
            }
        }
    };
    tokio::select! {
        () = check => {}
        () = sentinels.watch_switches(&server.config, timeout_each) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{BreakerState, pause_after_disconnect};

    #[test]
    fn a_server_that_worked_is_probed_soon_and_one_that_keeps_failing_is_not() {
        let longest = |short_lived| {
            let pause = pause_after_disconnect(BreakerState::Open, short_lived).expect("a pause");
            pause.max
        };
        let longest: Vec<_> = (0..6).map(longest).collect();
        assert_eq!(longest, [50, 100, 200, 400, 900, 900].map(Duration::from_millis));
    }
}
