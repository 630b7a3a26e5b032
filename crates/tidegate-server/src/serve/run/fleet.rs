//! What becomes of the store that a fleet shares, while the server runs: a line in the log for each change.

use std::sync::Arc;
use std::time::Duration;

use tidegate::redis::{BreakerState, EventHook, RedisSettings, RedisStore, ServerStats, StoreEvent};
use tokio::sync::mpsc;

use crate::output::Failure;
use crate::serve::fleet::Fleet;
use crate::serve::{App, Status};

/// How often it is looked at whether decisions are made without the store.
const FLEET_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// After so many looks in a row at which none were, none are.
const QUIET_POLLS: u32 = 3;
/// Changes that wait to be logged. Those beyond have no line.
const EVENTS_MAX: usize = 256;

/// What changes with the servers of the store, as it comes in.
pub type StoreEvents = mpsc::Receiver<StoreEvent>;

/// Connects to the store, or says why that cannot be done. Nothing is tried twice.
pub async fn connect(settings: &RedisSettings) -> Result<(Fleet, StoreEvents), Failure> {
    let (tell, told) = mpsc::channel(EVENTS_MAX);
    let mut settings = settings.clone();
    settings.on_event = Some(EventHook::new(move |event| drop(tell.try_send(event))));
    let url = settings.url.to_string();
    let store = RedisStore::connect(settings).await.map_err(|error| Failure::usage(error.to_string()))?;
    Ok((Fleet::new(Arc::new(store), url), told))
}

/// Logs what changes, until the server drains.
pub async fn watch(app: Arc<App>, mut events: StoreEvents) {
    let Some(fleet) = &app.fleet else { return };
    let mut degraded = DegradedState::No;
    let (mut seen, mut answered) = (app.metrics.degraded_decisions(), 0);
    let mut looks = tokio::time::interval(FLEET_POLL_INTERVAL);
    loop {
        tokio::select! {
            () = app.drain.wait() => return,
            Some(event) = events.recv() => log(&event),
            _ = looks.tick() => {
                let decisions = app.metrics.degraded_decisions();
                let new = decisions - std::mem::replace(&mut seen, decisions);
                let stats = fleet.store.stats();
                let is_open = |server: &ServerStats| server.breaker == BreakerState::Open;
                let answers = stats.pipelines_answered > std::mem::replace(&mut answered, stats.pipelines_answered);
                let servers = match stats.servers.servers.iter().any(is_open) && !answers {
                    true => RedisHealth::Unreachable,
                    false => RedisHealth::Reachable,
                };
                degraded = degraded.update(&FleetSample { degraded_decisions: new, redis: servers }, fleet, &app.status);
            }
        }
    }
}

fn log(event: &StoreEvent) {
    match event {
        StoreEvent::BreakerClosed { .. } => tracing::info!("{event}"),
        _ => tracing::warn!("{event}"),
    }
}

/// Whether decisions are made without the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DegradedState {
    No,
    /// So many were, and none of them in so many looks.
    Yes {
        decisions: u64,
        quiet_looks: u32,
    },
}

/// What there was to see.
struct FleetSample {
    /// Decisions without the store since the last look.
    degraded_decisions: u64,
    redis: RedisHealth,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RedisHealth {
    /// One is away, and no other has answered anything.
    Unreachable,
    Reachable,
}

impl DegradedState {
    /// What it is after a look.
    fn update(self, look: &FleetSample, fleet: &Fleet, status: &Status) -> Self {
        match (self, look.degraded_decisions) {
            (Self::No, 0) => Self::No,
            (Self::No, decisions) => {
                fleet.set_degraded_since(Some(status.now()));
                tracing::warn!(
                    store = fleet.url,
                    live_nodes = fleet.store.stats().live_nodes,
                    "the shared store does not answer in time: requests are decided without it, as on_store_failure of \
                     their rules says"
                );
                Self::Yes { decisions, quiet_looks: 0 }
            }
            (Self::Yes { decisions, quiet_looks }, 0)
                if quiet_looks + 1 < QUIET_POLLS || look.redis == RedisHealth::Unreachable =>
            {
                Self::Yes { decisions, quiet_looks: (quiet_looks + 1).min(QUIET_POLLS) }
            }
            (Self::Yes { decisions, .. }, 0) => {
                fleet.set_degraded_since(None);
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
