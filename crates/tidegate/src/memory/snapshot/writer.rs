//! A thread that writes a snapshot periodically, and a last one when it is stopped.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tidegate_core::Timestamp;

use super::error::{SnapshotError, SnapshotProblem};
use super::write::SnapshotReport;
use crate::Clock;
use crate::memory::MemoryStore;

/// The shortest time between two snapshots. A shorter interval is raised to this.
pub const SNAPSHOT_EVERY_MIN: Duration = Duration::from_millis(100);

/// Writes snapshots of a store in the background, until it is stopped or dropped.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tidegate::snapshot::SnapshotWriter;
/// use tidegate::{Clock, MemoryStore, SystemClock};
///
/// # let directory = std::env::temp_dir().join(format!("tidegate-doc-writer-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// let path = directory.join("limits.snapshot");
/// let clock = SystemClock::new();
/// let restored = MemoryStore::restore(&path, 64 << 20, clock.now());
/// println!("{}", restored.status);
/// let store = Arc::new(restored.store);
/// let writer = SnapshotWriter::start(Arc::clone(&store), clock, &path, Duration::from_secs(10))?;
/// // ... decisions ...
/// println!("{} bytes", writer.stop()?.bytes);
/// # std::fs::remove_dir_all(&directory)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "the writer stops when it is dropped"]
pub struct SnapshotWriter {
    shared: Arc<WriterShared>,
    path: PathBuf,
    thread: Option<JoinHandle<()>>,
}

/// What the thread and its owner share.
#[derive(Debug, Default)]
struct WriterShared {
    state: Mutex<WriterState>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct WriterState {
    phase: WriterPhase,
    attempts: SnapshotAttempts,
    last_result: Option<Result<SnapshotReport, SnapshotError>>,
}

/// How often a [`SnapshotWriter`] has tried, and how long the last attempt took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnapshotAttempts {
    /// Attempts that have ended, successful or not.
    pub count: u64,
    /// How long the last of them took. The last one before a program ends will take about as long.
    pub last_duration: Duration,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum WriterPhase {
    #[default]
    Running,
    Stopping,
}

impl SnapshotWriter {
    /// Starts a thread that writes a snapshot of `store` to `path` every `every`. The first one is written after the
    /// first interval.
    pub fn start<C: Clock + Send + Sync + 'static>(
        store: Arc<MemoryStore>,
        clock: C,
        path: impl Into<PathBuf>,
        every: Duration,
    ) -> Result<Self, SnapshotError> {
        let (path, every) = (path.into(), every.max(SNAPSHOT_EVERY_MIN));
        let shared = Arc::new(WriterShared::default());
        let work = {
            let (shared, path) = (Arc::clone(&shared), path.clone());
            move || shared.write_until_stopped(every, &clock, |now| store.snapshot(&path, now))
        };
        match thread::Builder::new().name("tidegate-snapshot".to_owned()).spawn(work) {
            Ok(thread) => Ok(Self { shared, path, thread: Some(thread) }),
            Err(error) => Err(SnapshotError::new(&path, SnapshotProblem::NoThread(error.to_string()))),
        }
    }

    /// The result of the last attempt. None before the first. After an error the writer continues with the next
    /// attempt, and the last good snapshot is still there. If the thread panicked, that is the result, and there are no
    /// more attempts.
    pub fn last_result(&self) -> Option<Result<SnapshotReport, SnapshotError>> {
        // Before it is joined, only a panic ends the thread.
        if self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            return Some(Err(SnapshotError::new(&self.path, SnapshotProblem::Panicked)));
        }
        self.shared.lock().last_result.clone()
    }

    /// How often the writer has tried, and how long the last attempt took.
    pub fn attempts(&self) -> SnapshotAttempts {
        self.shared.lock().attempts
    }

    /// Where the snapshots are written.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a last snapshot, ends the thread and returns the result.
    pub fn stop(mut self) -> Result<SnapshotReport, SnapshotError> {
        self.stop_thread();
        self.last_result().unwrap_or_else(|| Err(SnapshotError::new(&self.path, SnapshotProblem::Panicked)))
    }

    fn stop_thread(&mut self) {
        self.shared.lock().phase = WriterPhase::Stopping;
        self.shared.wake.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            self.shared.lock().last_result =
                Some(Err(SnapshotError::new(&self.path, SnapshotProblem::Panicked)));
        }
    }
}

/// As [`stop`](SnapshotWriter::stop), but ignores the result.
impl Drop for SnapshotWriter {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.stop_thread();
        }
    }
}

impl WriterShared {
    fn write_until_stopped(
        &self,
        every: Duration,
        clock: &impl Clock,
        write: impl Fn(Timestamp) -> Result<SnapshotReport, SnapshotError>,
    ) {
        let mut phase = WriterPhase::Running;
        while phase == WriterPhase::Running {
            let waited =
                self.wake.wait_timeout_while(self.lock(), every, |state| state.phase == WriterPhase::Running);
            phase = waited.unwrap_or_else(PoisonError::into_inner).0.phase;
            let began = clock.now();
            let last = write(began);
            let took_ns = clock.now().as_nanos().saturating_sub(began.as_nanos());
            let mut state = self.lock();
            state.last_result = Some(last);
            state.attempts.count += 1;
            state.attempts.last_duration = Duration::from_nanos(took_ns);
        }
    }

    fn lock(&self) -> MutexGuard<'_, WriterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
