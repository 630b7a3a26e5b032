//! Connects to the shared store of a fleet, and logs when it becomes unavailable and available.

use std::sync::Arc;
use std::time::Duration;

use tidegate::redis::{BreakerState, EventHook, RedisSettings, RedisStore, ServerStats, StoreEvent};
use tokio::sync::mpsc;

use crate::output::Failure;
use crate::serve::fleet::{Fleet, StoreReadiness};
use crate::serve::settings::ServeArgs;
use crate::serve::{App, Status};

/// How often to check whether decisions are made without the store.
const FLEET_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The degraded state ends after this many checks in a row without a degraded decision.
const QUIET_POLLS: u32 = 3;
/// The maximum of events that wait to be logged. More are dropped.
const EVENTS_MAX: usize = 256;

/// Events of the store's Redis servers, as they arrive.
pub type StoreEvents = mpsc::Receiver<StoreEvent>;

/// Connects to the store. If it cannot be reached now, the node decides without it until it can, unless the store is
/// required. A store that can never be used is an error.
pub async fn connect(settings: &RedisSettings, args: &ServeArgs) -> Result<(Fleet, StoreEvents), Failure> {
    let (sender, receiver) = mpsc::channel(EVENTS_MAX);
    let mut settings = settings.clone();
    settings.on_event = Some(EventHook::new(move |event| drop(sender.try_send(event))));
    let url = settings.url.to_string();
    let store = match RedisStore::connect(settings.clone()).await {
        Err(error) if error.is_transient() && !args.store_required => {
            tracing::warn!(
                "{error}; the node starts without it: requests are decided by on_store_failure of their rules, and the \
                 node connects as soon as the store can be reached (hint: --store-required exits instead)"
            );
            RedisStore::connect_lazy(settings)
        }
        connected => connected,
    };
    let store = store.map_err(|error| Failure::usage(error.to_string()))?;
    let fleet = Fleet::new(Arc::new(store), url);
    let readiness = if args.store_before_ready { StoreReadiness::Required } else { StoreReadiness::Ignored };
    Ok((fleet.with_readiness(readiness), receiver))
}

/// Logs changes until the server drains.
pub async fn watch(app: Arc<App>, mut events: StoreEvents) {
    let Some(fleet) = &app.fleet else { return };
    let mut degraded = DegradedState::No;
    let (mut last_decisions, mut last_answered) = (app.metrics.degraded_decisions(), 0);
    let mut interval = tokio::time::interval(FLEET_POLL_INTERVAL);
    loop {
        tokio::select! {
            () = app.drain.wait() => return,
            Some(event) = events.recv() => log(&event),
            _ = interval.tick() => {
                let decisions = app.metrics.degraded_decisions();
                let degraded_decisions = decisions - std::mem::replace(&mut last_decisions, decisions);
                let stats = fleet.store.stats();
                let is_open = |server: &ServerStats| server.breaker == BreakerState::Open;
                let answered = stats.pipelines_answered;
                let has_answered = answered > std::mem::replace(&mut last_answered, answered);
                let redis = match stats.servers.servers.iter().any(is_open) && !has_answered {
                    true => RedisHealth::Unreachable,
                    false => RedisHealth::Reachable,
                };
                degraded = degraded.update(&FleetSample { degraded_decisions, redis }, fleet, &app.status);
            }
        }
    }
}

fn log(event: &StoreEvent) {
    match event {
        StoreEvent::BreakerClosed { .. }
        | StoreEvent::ReplicasBack { .. }
        | StoreEvent::WritesAccepted { .. } => tracing::info!("{event}"),
        _ => tracing::warn!("{event}"),
    }
}

/// Whether decisions are made without the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DegradedState {
    No,
    /// `decisions` were made without the store, none of them in the last `quiet_polls` checks.
    Yes {
        decisions: u64,
        quiet_polls: u32,
    },
}

/// The result of one check.
struct FleetSample {
    /// Decisions without the store since the last check.
    degraded_decisions: u64,
    redis: RedisHealth,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RedisHealth {
    /// A server is unreachable, and no other server has answered since the last check.
    Unreachable,
    Reachable,
}

impl DegradedState {
    /// The state after a check.
    fn update(self, sample: &FleetSample, fleet: &Fleet, status: &Status) -> Self {
        match (self, sample.degraded_decisions) {
            (Self::No, 0) => Self::No,
            (Self::No, decisions) => {
                fleet.set_degraded_since(Some(status.now()));
                tracing::warn!(
                    store = fleet.url,
                    live_nodes = fleet.store.stats().live_nodes,
                    "requests are decided without the shared store, by on_store_failure of their rules"
                );
                Self::Yes { decisions, quiet_polls: 0 }
            }
            (Self::Yes { decisions, quiet_polls }, 0)
                if quiet_polls + 1 < QUIET_POLLS || sample.redis == RedisHealth::Unreachable =>
            {
                Self::Yes { decisions, quiet_polls: (quiet_polls + 1).min(QUIET_POLLS) }
            }
            (Self::Yes { decisions, .. }, 0) => {
                fleet.set_degraded_since(None);
                tracing::info!(store = fleet.url, decisions, "the shared store decides requests again");
                Self::No
            }
            (Self::Yes { decisions, .. }, new) => Self::Yes { decisions: decisions + new, quiet_polls: 0 },
        }
    }
}
