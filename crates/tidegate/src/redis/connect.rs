//! Builds a store: connected before it is returned, or in the background.

use std::sync::Arc;

#[cfg(feature = "rules")]
use super::config_store::CONFIG_SCRIPTS;
use super::deadline::Deadlines;
use super::heartbeat::{HEARTBEAT_SCRIPT, Heartbeat};
use super::runtime::{TaskRuntime, thread_error};
use super::script::SCRIPT;
use super::topology::Servers;
use super::{ConnectError, RedisSettings, RedisStore};

/// Positions of the scripts in [`SCRIPTS`].
pub(super) const DECISION_SCRIPT_INDEX: usize = 0;
pub(super) const HEARTBEAT_SCRIPT_INDEX: usize = 1;
/// The first script of the config store.
#[cfg(feature = "rules")]
pub(super) const CONFIG_SCRIPT_INDEX: usize = 2;
#[cfg(feature = "rules")]
const SCRIPTS: [&str; 5] =
    [SCRIPT, HEARTBEAT_SCRIPT, CONFIG_SCRIPTS[0], CONFIG_SCRIPTS[1], CONFIG_SCRIPTS[2]];
#[cfg(not(feature = "rules"))]
const SCRIPTS: [&str; 2] = [SCRIPT, HEARTBEAT_SCRIPT];

/// The parts of a store.
pub(super) struct StoreParts {
    pub settings: RedisSettings,
    pub runtime: TaskRuntime,
    pub deadlines: Arc<Deadlines>,
    pub servers: Arc<Servers>,
    pub heartbeat: Arc<Heartbeat>,
}

impl RedisStore {
    /// Connects and probes the servers, and returns an error if that fails. Accepts [`RedisSettings`], a
    /// [`StoreUrl`](super::StoreUrl) or the text of a URL.
    ///
    /// ```no_run
    /// use tidegate::redis::RedisStore;
    ///
    /// # async fn connect() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = RedisStore::connect("redis://127.0.0.1:6379").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(
        settings: impl TryInto<RedisSettings, Error: Into<ConnectError>>,
    ) -> Result<Self, ConnectError> {
        let settings = settings.try_into().map_err(Into::into)?;
        let (runtime, deadlines) = start_threads(&settings)?;
        let connecting = {
            let settings = settings.clone();
            async move {
                let servers = Servers::connect(&settings, &SCRIPTS).await?;
                let heartbeat = Heartbeat::new(&settings.namespace);
                heartbeat.send(&servers).await;
                Ok((servers, heartbeat))
            }
        };
        let (servers, heartbeat) = runtime.run(connecting, &settings).await?;
        Ok(Self::from_parts(StoreParts { settings, runtime, deadlines, servers, heartbeat }))
    }

    /// Connects in the background, so a program can start while Redis is down. Accepts [`RedisSettings`], a
    /// [`StoreUrl`](super::StoreUrl) or the text of a URL.
    ///
    /// Returns an error if the URL is wrong, if TLS files cannot be read or if there is no tokio runtime.
    /// Everything that depends on Redis is tried in the background until it works. Until then, operations
    /// fail with [`BreakerOpen`](crate::StoreError::BreakerOpen) immediately. [`RedisSettings::on_event`] and
    /// [`stats`](Self::stats) report why it does not work yet.
    ///
    /// ```
    /// use tidegate::redis::RedisStore;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = RedisStore::connect_lazy("redis://127.0.0.1:6379")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn connect_lazy(
        settings: impl TryInto<RedisSettings, Error: Into<ConnectError>>,
    ) -> Result<Self, ConnectError> {
        let settings = settings.try_into().map_err(Into::into)?;
        let (runtime, deadlines) = start_threads(&settings)?;
        let (servers, heartbeat) = {
            let _entered = runtime.handle.enter();
            let servers = Servers::connect_lazy(&settings, &SCRIPTS)?;
            let heartbeat = Heartbeat::new(&settings.namespace);
            (servers, heartbeat)
        };
        Ok(Self::from_parts(StoreParts { settings, runtime, deadlines, servers, heartbeat }))
    }
}

fn start_threads(settings: &RedisSettings) -> Result<(TaskRuntime, Arc<Deadlines>), ConnectError> {
    let runtime = TaskRuntime::new(settings)?;
    let deadlines = Deadlines::start().map_err(|error| thread_error(settings, &error))?;
    Ok((runtime, Arc::new(deadlines)))
}
