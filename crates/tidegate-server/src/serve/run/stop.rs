//! Signals and the drain: new connections are refused, begun requests finish, and slow ones are cut off.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::task::TaskTracker;

use crate::output::Failure;
use crate::serve::App;

/// How often to look whether all quota leases were given back.
const LEASES_POLL_INTERVAL: Duration = Duration::from_millis(5);
/// How often leases are given back without an effect: a store that is away accepts nothing.
const RETURNS_IN_VAIN_MAX: usize = 3;
/// How long to give back leases after connections were cut off.
const LAST_RETURN_TIMEOUT: Duration = Duration::from_millis(200);

/// The signals that the server handles.
pub struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
    /// `None` after the reload task has taken it.
    hangup: Option<Signal>,
}

/// How the drain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainResult {
    /// All connections and edits finished.
    Finished,
    /// Some did not finish in time.
    CutOff { connections: usize, edits: usize },
}

impl StopSignals {
    /// Installs handlers, so that the signals do not kill the process.
    pub fn new() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| {
                Failure::usage(format!("cannot handle signals: {error} (hint: start the server again)"))
            })
        };
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hangup: Some(listen(SignalKind::hangup())?),
        })
    }

    /// Takes SIGHUP, for the reload task. `None` if it was taken before.
    pub fn take_hangups(&mut self) -> Option<Signal> {
        self.hangup.take()
    }

    /// Waits for SIGTERM or SIGINT.
    pub async fn wait_for_stop(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Waits for connections and edits to finish, at most `drain_max` or until a second signal.
pub async fn drain(
    app: &App,
    connections: &TaskTracker,
    drain_max: Duration,
    signals: &mut StopSignals,
) -> DrainResult {
    tracing::info!(connections = connections.len(), "stopping: waiting for connections to finish");
    app.drain.begin();
    connections.close();
    app.edits.close();
    tokio::select! {
        biased;
        () = wait_for_connections(app, connections) => {}
        () = tokio::time::sleep(drain_max) => {}
        () = signals.wait_for_stop() => {}
    }
    match (connections.len(), app.edits.len()) {
        (0, 0) => DrainResult::Finished,
        (connections, edits) => {
            // Ignore a timeout: what is not given back comes back with time.
            let _ = tokio::time::timeout(LAST_RETURN_TIMEOUT, return_leases(app)).await;
            DrainResult::CutOff { connections, edits }
        }
    }
}

/// Waits until all connections and edits have ended, and pending refunds and leases have reached the shared stores.
async fn wait_for_connections(app: &App, connections: &TaskTracker) {
    connections.wait().await;
    // Edits hold no units.
    tokio::join!(app.edits.wait(), give_back(app));
}

/// Waits until pending refunds and leases have reached the shared stores.
async fn give_back(app: &App) {
    return_leases(app).await;
    if let Some(fleet) = &app.fleet {
        fleet.store.wait_for_refunds(Duration::MAX).await;
    }
    if let Some(leases) = &app.lease_store {
        leases.store.wait_for_revocations(Duration::MAX).await;
    }
}

/// Gives back quota leases, and pushes shared counts.
async fn return_leases(app: &App) {
    let Some(fleet) = &app.fleet else { return };
    let (mut left_before, mut in_vain) = (u64::MAX, 0);
    while in_vain < RETURNS_IN_VAIN_MAX {
        fleet.modes.return_leases(app.status.now());
        while fleet.modes.stats().calls_under_way > 0 {
            tokio::time::sleep(LEASES_POLL_INTERVAL).await;
        }
        let stats = fleet.modes.stats();
        let left = stats.units_held.saturating_add(stats.units_pending);
        if left == 0 {
            return;
        }
        in_vain = if left < left_before { 0 } else { in_vain + 1 };
        left_before = left;
    }
}
