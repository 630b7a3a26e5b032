//! The end: nobody new is let in, what was begun is finished, and what takes too long is cut off.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::task::TaskTracker;

use crate::output::Failure;
use crate::serve::App;

/// The signals that the server listens to.
pub struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
    /// Taken by whoever looks at files.
    hangup: Option<Signal>,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainResult {
    /// Every connection had come to its end.
    Finished,
    /// Some had not, and there was no time left.
    CutOff { connections: usize },
}

impl StopSignals {
    /// From now on they do not end the process by themselves.
    pub fn new() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| {
                Failure::usage(format!("cannot listen to signals: {error} (hint: start it again)"))
            })
        };
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hangup: Some(listen(SignalKind::hangup())?),
        })
    }

    /// Those that ask for files to be looked at again. The second time there are none.
    pub fn take_hangups(&mut self) -> Option<Signal> {
        self.hangup.take()
    }

    /// Comes to an end when the server is told to stop.
    pub async fn wait_for_stop(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Lets connections finish, for so long at most, or until the server is told to stop once more.
pub async fn drain(
    app: &App,
    connections: &TaskTracker,
    drain_max: Duration,
    signals: &mut StopSignals,
) -> DrainResult {
    tracing::info!(connections = connections.len(), "stopping: connections finish what they have begun");
    app.drain.begin();
    connections.close();
    tokio::select! {
        biased;
        () = wait_for_connections(app, connections) => {}
        () = tokio::time::sleep(drain_max) => {}
        () = signals.wait_for_stop() => {}
    }
    match connections.len() {
        0 => DrainResult::Finished,
        connections => DrainResult::CutOff { connections },
    }
}

/// Comes to an end when all connections have, and what they charged for nothing is back where others share it.
async fn wait_for_connections(app: &App, connections: &TaskTracker) {
    connections.wait().await;
    if let Some(fleet) = &app.fleet {
        fleet.store.wait_for_refunds(Duration::MAX).await;
    }
}
