//! What becomes of the store that a fleet shares, while the server runs: a line in the log for each change.

use std::sync::Arc;
use std::time::Duration;

use tidegate::redis::{BreakerState, EventHook, RedisSettings, RedisStore, ServerStats, StoreEvent};
use tokio::sync::mpsc;

use crate::output::Failure;
use crate::serve::fleet::Fleet;
use crate::serve::{App, Status};

/// How often it is looked at whether decisions are made without the store.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// After so many looks in a row at which none were, none are.
const QUIET_LOOKS: u32 = 3;
/// Changes that wait to be logged. Those beyond have no line.
const EVENTS_MAX: usize = 256;

/// What changes with the servers of the store, as it comes in.
pub type Events = mpsc::Receiver<StoreEvent>;

/// Connects to the store, or says why that cannot be done. Nothing is tried twice.
pub async fn connect(settings: &RedisSettings) -> Result<(Fleet, Events), Failure> {
    let (tell, told) = mpsc::channel(EVENTS_MAX);
    let mut settings = settings.clone();
    settings.on_event = Some(EventHook::new(move |event| drop(tell.try_send(event))));
    let url = settings.url.to_string();
    let store = RedisStore::connect(settings).await.map_err(|error| Failure::usage(error.to_string()))?;
    Ok((Fleet::new(Arc::new(store), url), told))
}

/// Logs what changes, until the server drains.
pub async fn watch(app: Arc<App>, mut events: Events) {
    let Some(fleet) = &app.fleet else { return };
    let mut degraded = Degraded::No;
    let (mut seen, mut answered) = (app.metrics.degraded_decisions(), 0);
    let mut looks = tokio::time::interval(LOOK_EVERY);
    loop {
        tokio::select! {
            () = app.drain.begun() => return,
            Some(event) = events.recv() => log(&event),
            _ = looks.tick() => {
                let decisions = app.metrics.degraded_decisions();
                let new = decisions - std::mem::replace(&mut seen, decisions);
                let stats = fleet.store.stats();
                let is_open = |server: &ServerStats| server.breaker == BreakerState::Open;
                let answers = stats.rounds_answered > std::mem::replace(&mut answered, stats.rounds_answered);
                let servers = match stats.servers.servers.iter().any(is_open) && !answers {
                    true => Servers::Away,
                    false => Servers::There,
                };
                degraded = degraded.after(&Look { new, servers }, fleet, &app.status);
            }
        }
    }
}

fn log(event: &StoreEvent) {
    match event {
        StoreEvent::Closed { .. } => tracing::info!("{event}"),
        _ => tracing::warn!("{event}"),
    }
}

/// Whether decisions are made without the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Degraded {
    No,
    /// So many were, and none of them in so many looks.
    Yes {
        decisions: u64,
        quiet_looks: u32,
    },
}

/// What there was to see.
struct Look {
    /// Decisions without the store since the last look.
    new: u64,
    servers: Servers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Servers {
    /// One is away, and no other has answered anything.
    Away,
    There,
}

impl Degraded {
    /// What it is after a look.
    fn after(self, look: &Look, fleet: &Fleet, status: &Status) -> Self {
        match (self, look.new) {
            (Self::No, 0) => Self::No,
            (Self::No, decisions) => {
                fleet.is_degraded(Some(status.now()));
                tracing::warn!(
                    store = fleet.url,
                    live_nodes = fleet.store.stats().live_nodes,
                    "the shared store does not answer in time: requests are decided without it, as on_store_failure of \
                     their rules says"
                );
                Self::Yes { decisions, quiet_looks: 0 }
            }
            (Self::Yes { decisions, quiet_looks }, 0)
                if quiet_looks + 1 < QUIET_LOOKS || look.servers == Servers::Away =>
            {
                Self::Yes { decisions, quiet_looks: (quiet_looks + 1).min(QUIET_LOOKS) }
            }
            (Self::Yes { decisions, .. }, 0) => {
                fleet.is_degraded(None);
                tracing::info!(
                    store = fleet.url,
                    decisions,
                    "requests are decided by the shared store again"
                );
                Self::No
            }
            (Self::Yes { decisions, .. }, new) => Self::Yes { decisions: decisions + new, quiet_looks: 0 },
        }
    }
}
