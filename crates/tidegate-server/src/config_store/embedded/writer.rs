//! The thread that writes. Calls that wait while it writes share the next commit.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tidegate::config::{CONFIG_WRITES_MAX, ConfigStoreError, ConfigWrite, WriteResult};
use tokio::sync::oneshot;

use super::database_file::DatabaseFile;
use super::error::io_error;
use super::transaction::{Finished, Tables};

const THREAD_NAME: &str = "config-writer";
/// The most calls that wait for a commit.
const CALLS_QUEUED_MAX: usize = 1_024;
/// No call is added to a commit that has this many writes.
const COMMIT_WRITES_MAX: usize = CONFIG_WRITES_MAX;
/// No call is added to a commit that has this many bytes of keys and values.
const COMMIT_BYTES_MAX: usize = 64 << 20;
/// How often a file that was closed after a disk error is opened again.
const REOPEN_INTERVAL: Duration = Duration::from_secs(1);
/// What has to be free on the disk for any commit that adds or changes entries. Deletions may use the rest.
const FREE_BYTES_MIN: u64 = 16 << 20;
/// What has to be free for each write besides its value: the pages on the way to it.
const FREE_BYTES_PER_WRITE: u64 = 16 << 10;

type WriteReply = Result<Vec<WriteResult>, ConfigStoreError>;

/// A call that waits for a commit.
struct Call {
    writes: Vec<ConfigWrite>,
    reply: oneshot::Sender<WriteReply>,
}

/// Sends calls to the thread. On drop, the thread does what is in its queue, and ends.
#[derive(Debug)]
pub(super) struct Writer {
    /// `None` only while it is dropped.
    calls: Option<SyncSender<Call>>,
    thread: Option<JoinHandle<()>>,
}

/// Whether to check the free space of the disk before a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FreeSpace {
    Checked,
    /// For tests with a disk that fails by itself.
    #[cfg(test)]
    Unchecked,
}

impl Writer {
    /// Starts the thread.
    pub(super) fn start(file: Arc<DatabaseFile>, free_space: FreeSpace) -> Result<Self, ConfigStoreError> {
        let (calls, queue) = sync_channel(CALLS_QUEUED_MAX);
        let path = file.path().to_owned();
        let worker = Worker { file, free_space };
        let thread = thread::Builder::new()
            .name(THREAD_NAME.to_owned())
            .spawn(move || worker.run(&queue))
            .map_err(|error| io_error(&path, &error))?;
        Ok(Self { calls: Some(calls), thread: Some(thread) })
    }

    /// Puts writes into the queue. The receiver gets the results after the commit.
    pub(super) fn send(
        &self,
        writes: Vec<ConfigWrite>,
    ) -> Result<oneshot::Receiver<WriteReply>, ConfigStoreError> {
        let (reply, receiver) = oneshot::channel();
        match self.calls.as_ref().map(|calls| calls.try_send(Call { writes, reply })) {
            Some(Ok(())) => Ok(receiver),
            Some(Err(TrySendError::Full(_))) => Err(ConfigStoreError::Unavailable(
                format!("{CALLS_QUEUED_MAX} calls wait for the disk already (hint: write with fewer calls at once)")
                    .into(),
            )),
            Some(Err(TrySendError::Disconnected(_))) | None => Err(stopped()),
        }
    }
}

/// The writer has ended, which it does only with the store.
#[cold]
pub(super) fn stopped() -> ConfigStoreError {
    ConfigStoreError::Unavailable(
        "the writer of the config store has stopped (hint: restart the server)".into(),
    )
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.calls.take());
        if let Some(thread) = self.thread.take() {
            // The file is closed after this. A panic was reported by its hook.
            let _ = thread.join();
        }
    }
}

struct Worker {
    file: Arc<DatabaseFile>,
    free_space: FreeSpace,
}

impl Worker {
    fn run(&self, queue: &Receiver<Call>) {
        loop {
            match queue.recv_timeout(REOPEN_INTERVAL) {
                Ok(first) => self.write(first, queue),
                // Callers get the error of their own call.
                Err(RecvTimeoutError::Timeout) => drop(self.file.open_if_closed()),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Writes the calls that wait in one commit.
    fn write(&self, first: Call, queue: &Receiver<Call>) {
        let mut size = CommitSize::default();
        size.add(&first.writes);
        let mut calls = vec![first];
        while size.writes < COMMIT_WRITES_MAX && size.bytes < COMMIT_BYTES_MAX {
            let Ok(call) = queue.try_recv() else { break };
            size.add(&call.writes);
            calls.push(call);
        }
        match self.commit(&calls, &size) {
            Ok(results) => {
                for (call, results) in calls.into_iter().zip(results) {
                    // The caller may be gone.
                    let _ = call.reply.send(Ok(results));
                }
            }
            Err(error) => {
                for call in calls {
                    let _ = call.reply.send(Err(error.clone()));
                }
            }
        }
    }

    fn commit(&self, calls: &[Call], size: &CommitSize) -> Result<Vec<Vec<WriteResult>>, ConfigStoreError> {
        self.file.open_if_closed()?;
        if size.puts > 0 && self.free_space == FreeSpace::Checked {
            check_free_space(self.file.path(), size)?;
        }
        let done = self.file.write(|writing| {
            let mut tables = Tables::open(&writing)?;
            let results: Vec<Vec<WriteResult>> = calls
                .iter()
                .map(|call| call.writes.iter().map(|write| tables.apply(write)).collect())
                .collect::<Result<_, redb::Error>>()?;
            match tables.finish()? {
                Finished::Unchanged => writing.abort()?,
                Finished::Changed => writing.commit()?,
            }
            Ok(results)
        });
        if let Err(error) = &done {
            let path = self.file.path().display();
            tracing::warn!("a write to `{path}` failed: {error}");
            if let Err(error) = self.file.open_if_closed() {
                tracing::warn!("cannot open `{path}` again: {error}");
            }
        }
        done
    }
}

/// What a commit has to write.
#[derive(Debug, Default)]
struct CommitSize {
    writes: usize,
    /// Writes that are not deletions.
    puts: usize,
    /// Keys and values.
    bytes: usize,
}

impl CommitSize {
    fn add(&mut self, writes: &[ConfigWrite]) {
        self.writes += writes.len();
        for write in writes {
            self.puts += usize::from(write.value.is_some());
            self.bytes += write.key.len() + write.value.as_ref().map_or(0, |value| value.len());
        }
    }
}

fn check_free_space(path: &Path, size: &CommitSize) -> Result<(), ConfigStoreError> {
    // Where the system does not say it, the write itself may fail.
    let Ok(disk) = rustix::fs::statvfs(path) else { return Ok(()) };
    let free_bytes = disk.f_bavail.saturating_mul(disk.f_frsize);
    let needed_bytes = FREE_BYTES_MIN + FREE_BYTES_PER_WRITE * size.writes as u64 + 2 * size.bytes as u64;
    if free_bytes >= needed_bytes {
        return Ok(());
    }
    let problem = format!(
        "the disk of `{}` has {} MiB free, and this write needs up to {} MiB (hint: free space on it, then try again)",
        path.display(),
        free_bytes >> 20,
        needed_bytes.div_ceil(1 << 20),
    );
    Err(ConfigStoreError::Full(problem.into()))
}
