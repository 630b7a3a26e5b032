//! The tokio runtime that the tasks of a store run on.

use std::{io, thread};

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::{ConnectError, ConnectErrorKind, RedisSettings};

/// The name of the thread of a store's own runtime. Linux shows 15 bytes of it.
const THREAD_NAME: &str = "tidegate-redis";

/// Which tokio runtime the tasks of a store run on: connections, batches, heartbeats.
///
/// In both cases callers can wait for a reply on any thread, and it comes by its deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreRuntime {
    /// The runtime on which the store is connected. It needs its I/O and time drivers (`enable_all`). Redis
    /// is called only while that runtime is driven: a `current_thread` runtime runs only within `block_on`.
    #[default]
    Current,
    /// The store's own runtime, on one thread that ends with the last clone of the store. Use it in programs
    /// without tokio, or if the program's runtime is not always driven. Each call then wakes another thread,
    /// which costs some microseconds.
    Own,
}

/// The runtime in use.
pub(super) struct TaskRuntime {
    pub handle: Handle,
    /// Ends the store's own runtime when it is dropped.
    pub own: Option<OwnRuntime>,
}

/// The store's own runtime. Its thread ends when this is dropped.
pub(super) struct OwnRuntime {
    _stop_on_drop: oneshot::Sender<()>,
}

impl TaskRuntime {
    pub(super) fn new(settings: &RedisSettings) -> Result<Self, ConnectError> {
        match settings.runtime {
            StoreRuntime::Current => match Handle::try_current() {
                Ok(handle) => Ok(Self { handle, own: None }),
                Err(_) => Err(runtime_error(settings, "there is no tokio runtime on this thread")),
            },
            StoreRuntime::Own => {
                let (handle, own) = OwnRuntime::start().map_err(|error| {
                    runtime_error(settings, &format!("cannot start the store's own runtime ({error})"))
                })?;
                Ok(Self { handle, own: Some(own) })
            }
        }
    }

    /// Runs a future on this runtime. Dropping the returned future drops it too.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T, ConnectError>> + Send + 'static,
        settings: &RedisSettings,
    ) -> Result<T, ConnectError> {
        if self.own.is_none() {
            return future.await;
        }
        let task = self.handle.spawn(future);
        task.await.unwrap_or_else(|_| Err(runtime_error(settings, "the runtime has ended")))
    }
}

impl OwnRuntime {
    fn start() -> io::Result<(Handle, Self)> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (sender, receiver) = oneshot::channel::<()>();
        thread::Builder::new().name(THREAD_NAME.to_owned()).spawn(move || {
            // Nothing is ever sent: this ends when the sender is dropped.
            let _ = runtime.block_on(receiver);
        })?;
        Ok((handle, Self { _stop_on_drop: sender }))
    }
}

/// A thread of the store could not be started.
pub(super) fn thread_error(settings: &RedisSettings, error: &io::Error) -> ConnectError {
    let message = format!("cannot start a thread ({error})");
    let hint = "the system limits the number of threads: see `ulimit -u`";
    ConnectError::new(ConnectErrorKind::NoRuntime, &settings.url, message, hint)
}

fn runtime_error(settings: &RedisSettings, message: &str) -> ConnectError {
    let hint = "connect within `#[tokio::main]`, `Runtime::block_on` or after `Handle::enter`; or give the store its own \
                runtime: `settings.runtime = StoreRuntime::Own`";
    ConnectError::new(ConnectErrorKind::NoRuntime, &settings.url, message, hint)
}

/// A task that is aborted when this is dropped.
pub(crate) struct AbortOnDrop(JoinHandle<()>);

impl AbortOnDrop {
    pub fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(work))
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
