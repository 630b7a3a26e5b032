//! Looks after the connection of a server: makes another one when it broke, and tries now and then while the server is away.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::backoff::{Backoff, PROBE_PAUSE, RETRY_PAUSE};
use super::connect_error::ConnectError;
use super::finder::Finder;
use super::jitter::Between;
use super::probe::Patience;
use super::server::Server;
use super::stats::BreakerState;
use super::task::Task;

/// A connection that did not last so long was made in vain: the next may fare no better.
const LASTING: Duration = Duration::from_secs(1);

/// A server, and who looks after it for as long as this lives.
pub(super) struct Kept {
    pub server: Arc<Server>,
    _keeper: Task,
}

impl Kept {
    pub fn new(server: Arc<Server>) -> Self {
        Self { _keeper: Task::spawn(keep(server.clone())), server }
    }
}

/// Connects to all of them, each once. Some may be away, not all; what does not go away by itself is an error.
pub(super) async fn start(servers: Vec<Arc<Server>>) -> Result<Vec<Kept>, ConnectError> {
    let mut tries = tokio::task::JoinSet::new();
    for server in &servers {
        let server = server.clone();
        tries.spawn(async move {
            let outcome = server.connect(Patience::AtStart).await;
            (server, outcome)
        });
    }
    let mut away = Vec::new();
    while let Some(tried) = tries.join_next().await {
        match tried {
            Ok((_, Ok(()))) => {}
            Ok((server, Err(error))) if error.is_passing() => away.push((server, error)),
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
        server.open(&error);
    }
    Ok(servers.into_iter().map(Kept::new).collect())
}

async fn keep(server: Arc<Server>) {
    let mut lines = server.lines();
    let mut in_vain = InVain::Never;
    let mut backoff = Backoff::default();
    loop {
        let line = lines.borrow_and_update().clone();
        match line {
            Some(line) => {
                let made = Instant::now();
                tokio::select! {
                    () = line.connection.until_broken() => server.let_go(line.generation),
                    () = until_elsewhere(&server) => server.let_go(line.generation),
                    // It was let go of.
                    _ = lines.changed() => {}
                }
                drop(line);
                in_vain = if made.elapsed() < LASTING { in_vain.once_more() } else { InVain::Never };
                if let Some(pause) = pause_after_a_line(server.breaker.state(), in_vain) {
                    sleep(pause.draw()).await;
                }
            }
            None => match server.connect(Patience::InBackground).await {
                Ok(()) => backoff = Backoff::default(),
                Err(error) => {
                    server.could_not_connect(&error);
                    sleep(backoff.pause(server.breaker.state(), &error)).await;
                }
            },
        }
    }
}

/// How often in a row a connection was made that did not last.
#[derive(Clone, Copy)]
enum InVain {
    Never,
    Once,
    Often,
}

impl InVain {
    fn once_more(self) -> Self {
        if let Self::Never = self { Self::Once } else { Self::Often }
    }
}

/// Before another connection is made in place of one that is gone. Somebody may let everybody in and then hang up.
fn pause_after_a_line(breaker: BreakerState, in_vain: InVain) -> Option<Between> {
    match (breaker, in_vain) {
        (BreakerState::Closed, InVain::Never) => None,
        (BreakerState::Closed, InVain::Once) => Some(RETRY_PAUSE),
        // What failed so often is not asked again at once.
        (BreakerState::Closed, InVain::Often) | (BreakerState::Open, _) => Some(PROBE_PAUSE),
    }
}

/// Comes to be when the Sentinels name another master than the one that is connected. A master that they have given up may
/// still answer here.
async fn until_elsewhere(server: &Server) {
    let Finder::Asking(sentinels) = &server.finder else { return std::future::pending().await };
    let each = Patience::InBackground.each(server.means.timeout);
    loop {
        sentinels.check.notified().await;
        if let Ok(master) = sentinels.master(&server.means, each).await
            && master != server.address()
        {
            return;
        }
    }
}
