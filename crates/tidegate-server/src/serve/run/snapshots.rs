//! Watches the snapshot writer, and records and logs its results.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate::snapshot::{SnapshotError, SnapshotReport, SnapshotWriter};

use crate::serve::App;
use crate::serve::status::{OngoingFailure, SnapshotStatus};

/// The longest interval between two checks of the writer.
const SNAPSHOT_POLL_INTERVAL_MAX: Duration = Duration::from_secs(1);

/// Records the results of snapshots until the server drains. `start.rs` writes the last snapshot.
pub async fn watch(app: Arc<App>, writer: Weak<SnapshotWriter>) {
    let Some(every) = app.status.snapshots().map(|status| status.every.min(SNAPSHOT_POLL_INTERVAL_MAX))
    else {
        return;
    };
    let mut seen_attempts = 0;
    loop {
        tokio::select! {
            () = app.drain.wait() => return,
            () = tokio::time::sleep(every) => {}
        }
        let Some(writer) = writer.upgrade() else { return };
        let attempts_made = writer.attempts().count;
        let (Some(last), Some(status)) = (writer.last_result(), app.status.snapshots()) else { continue };
        // After a panic the writer makes no more attempts but reports an error.
        let is_new_error = last.as_ref().err() != status.failure.as_ref().map(|failure| &failure.error);
        if attempts_made > seen_attempts || is_new_error {
            let attempts = attempts_made - std::mem::replace(&mut seen_attempts, attempts_made);
            record(&app, &status, last, attempts);
        }
    }
}

/// Records the result of the last of `attempts`. There is rarely more than one between two checks.
fn record(app: &App, old: &SnapshotStatus, last: Result<SnapshotReport, SnapshotError>, attempts: u64) {
    let mut status = old.clone();
    match last {
        Ok(report) => {
            if status.failure.take().is_some() {
                tracing::info!(path = %status.path.display(), "snapshots are written again");
            }
            tracing::debug!(counters = report.entries, bytes = report.bytes, "wrote a snapshot");
            status.write_count += attempts;
            status.last = Some(report);
        }
        Err(error) => {
            // Do not log the same error every few seconds.
            if status.failure.as_ref().is_none_or(|failure| failure.error != error) {
                tracing::error!("{error}");
            }
            status.failure_count += attempts;
            status.failure =
                Some(OngoingFailure::following(status.failure.as_ref(), app.status.now(), error));
        }
    }
    app.status.set_snapshots(status);
}
