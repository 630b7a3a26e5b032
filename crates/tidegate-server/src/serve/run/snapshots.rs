//! What becomes of snapshots while the server runs.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate::snapshot::{SnapshotError, SnapshotReport, SnapshotWriter};

use crate::serve::App;
use crate::serve::status::{OngoingFailure, SnapshotStatus};

/// How often it is looked at, at most.
const SNAPSHOT_POLL_INTERVAL_MAX: Duration = Duration::from_secs(1);

/// Takes note of what becomes of snapshots, until the server drains. The last one is somebody else's.
pub async fn watch(app: Arc<App>, writer: Weak<SnapshotWriter>) {
    let Some(every) = app.status.snapshots().map(|status| status.every.min(SNAPSHOT_POLL_INTERVAL_MAX)) else { return };
    let mut known = 0;
    loop {
        tokio::select! {
            () = app.drain.wait() => return,
            () = tokio::time::sleep(every) => {}
        }
        let Some(writer) = writer.upgrade() else { return };
        let made = writer.attempts().count;
        let (Some(last), Some(status)) = (writer.last_result(), app.status.snapshots()) else { continue };
        // A writer that panicked makes no more attempts.
        let is_other = last.as_ref().err() != status.failure.as_ref().map(|failed| &failed.error);
        if made > known || is_other {
            let attempts = made - std::mem::replace(&mut known, made);
            record(&app, &status, last, attempts);
        }
    }
}

/// Takes note of the last of so many attempts; of those between two looks there is seldom more than one.
fn record(app: &App, old: &SnapshotStatus, last: Result<SnapshotReport, SnapshotError>, attempts: u64) {
    let mut status = old.clone();
    match last {
        Ok(report) => {
            if status.failure.take().is_some() {
                tracing::info!(path = %status.path.display(), "snapshots are written again");
            }
            tracing::debug!(counters = report.entries, bytes = report.bytes, "a snapshot is written");
            status.write_count += attempts;
            status.last = Some(report);
        }
        Err(error) => {
            // The same every few seconds is no news.
            if status.failure.as_ref().is_none_or(|failed| failed.error != error) {
                tracing::error!("{error}");
            }
            status.failure_count += attempts;
            status.failure = Some(OngoingFailure::following(status.failure.as_ref(), app.status.now(), error));
        }
    }
    app.status.set_snapshots(status);
}
