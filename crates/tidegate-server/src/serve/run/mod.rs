//! From settings to a server that runs, and to its end.
//!
//! ```text
//! start.rs       files and counters  ->  what listeners share; fleet.rs the store, where that is not in this process
//! open_files.rs  whether the system lets it have what it may need; memory.rs the same
//! listeners.rs   addresses  ->  sockets  ->  connections
//! announce.rs    says where it listens; first_minute.rs what to try
//! parts.rs       what else runs: reload.rs looks at rules and certificates again, snapshots.rs at what becomes of them,
//!                clock.rs at the wall clock
//! stop.rs        the end, by signals
//! ```

mod announce;
mod clock;
mod data_dir;
mod first_minute;
mod fleet;
mod listeners;
mod memory;
mod open_files;
mod parts;
mod reload;
mod snapshots;
mod start;
mod stop;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use super::logs;
use super::settings::{Settings, SettingsError, misspelled_variables};
use crate::output::{self, Failure, CommandStatus};
use listeners::BoundListeners;
use start::RunningServer;
use stop::{StopSignals, DrainResult};

/// How long what runs on threads of its own, such as a look at many files, may take when everything else has ended.
const RUNTIME_SHUTDOWN_MAX: Duration = Duration::from_millis(100);

/// Runs the server until it is told to stop. The arguments are those after `tidegate serve`.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let settings = match Settings::load(arguments) {
        Ok(settings) => settings,
        Err(SettingsError::Usage(error)) => return crate::report_usage_error(&error),
        Err(SettingsError::File(report)) => {
            output::print_report(&report);
            return output::exit(Ok(CommandStatus::UnusableInput));
        }
        Err(SettingsError::Problems(problems)) => return output::exit(Err(join_problems(&problems))),
    };
    output::exit(run(settings))
}

fn run(mut settings: Settings) -> Result<CommandStatus, Failure> {
    logs::init(settings.args.log_level, settings.args.log_format);
    for variable in misspelled_variables() {
        tracing::warn!("{variable}");
    }
    let runtime = runtime(&settings)?;
    let mut started = match RunningServer::start(&settings, &runtime)? {
        Ok(started) => started,
        Err(verdict) => return Ok(verdict),
    };
    settings.args.connections_max = open_files::raise_limit(&settings.args);
    memory::warn_if_too_large(settings.args.memory_max);
    let stopped = runtime.block_on(serve(&settings, &mut started))?;
    // Whatever is left is cut off here, so that nothing is decided that the last snapshot misses.
    runtime.shutdown_timeout(RUNTIME_SHUTDOWN_MAX);
    let finished = started.finish();
    match stopped {
        DrainResult::Finished => tracing::info!("stopped"),
        DrainResult::CutOff { connections } => tracing::warn!(connections, "stopped, with connections cut off"),
    }
    finished.map(|()| CommandStatus::Success)
}

async fn serve(settings: &Settings, started: &mut RunningServer) -> Result<DrainResult, Failure> {
    // From here on no signal ends the process unawares.
    let mut signals = StopSignals::new()?;
    let app = Arc::clone(&started.app);
    let bound = BoundListeners::bind(&settings.args).await.map_err(|problems| join_problems(&problems))?;
    app.status.set_listeners(bound.addresses());
    announce::announce(settings, &bound.addresses());
    let tasks = bound.run(settings, &app, started.tls.as_ref());
    let mut files = std::mem::take(&mut started.files);
    let (every, hangups) = (settings.args.reload_every, signals.take_hangups());
    parts::spawn(&app, "reloads", reload::watch(Arc::clone(&app), move || files.reload(), every, hangups));
    parts::spawn(&app, "clock", clock::watch(Arc::clone(&app)));
    if let Some(writer) = &started.snapshots {
        parts::spawn(&app, "snapshots", snapshots::watch(Arc::clone(&app), Arc::downgrade(writer)));
    }
    if let Some(events) = started.store_events.take() {
        parts::spawn(&app, "store", fleet::watch(Arc::clone(&app), events));
    }
    let store = app.fleet.as_ref().map_or("memory", |fleet| &*fleet.url);
    tracing::info!(version = app.status.version(), store, "ready");
    signals.wait_for_stop().await;
    let drain_max = started.drain_max(settings.args.drain_timeout);
    Ok(stop::drain(&app, &tasks, drain_max, &mut signals).await)
}

fn runtime(settings: &Settings) -> Result<Runtime, Failure> {
    let mut builder = Builder::new_multi_thread();
    if let Some(workers) = settings.args.workers {
        builder.worker_threads(workers.get());
    }
    builder.enable_all().build().map_err(|error| {
        Failure::usage(format!(
            "cannot start threads: {error} (hint: set fewer --workers, or let it have more)"
        ))
    })
}

/// Several problems as one failure, each on a line of its own.
fn join_problems(problems: &[String]) -> Failure {
    Failure::usage(problems.join("\nerror: "))
}
