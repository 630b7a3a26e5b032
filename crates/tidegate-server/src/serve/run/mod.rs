//! Starts the server from its settings, runs its background tasks and stops it.
//!
//! ```text
//! start.rs       rules, certificates and counters  ->  App; fleet_watch.rs connects to a shared store
//! open_files.rs  raises the limit of open files; memory_limit.rs warns if memory is too small
//! listeners.rs   addresses  ->  sockets  ->  connections
//! announce.rs    prints the bound addresses; example.rs prints commands to try
//! tasks.rs       background tasks: reload.rs, snapshots.rs, clock.rs, fleet_watch.rs, overrides.rs, stored_rules.rs,
//!                freed_memory.rs
//! stop.rs        signals and the drain
//! ```
//!
//! The runtime has one thread per processor, unless `--workers` is set.
//!
//! Reload: rules and certificates are compared by content, not by time stamps. Reading files and compiling rules block,
//! so they run on a separate thread. Files with errors change nothing: the previous rules and certificate stay in use.
//!
//! Drain: a signal stops the listeners, connections finish the requests that they have begun, and edits of operators end. A connection waits
//! for the drain with a waker, because checking a shared lock for each request would be most of its cost. The last
//! snapshot is written after the remaining connections are cut off, so it misses no decision. It must fit in
//! `--drain-timeout` too, so the time for connections is shortened by an estimate from the previous snapshot.
//!
//! Snapshots: the library writes them on its own thread. `snapshots.rs` records and logs the results.
//!
//! Shared store: `fleet_watch.rs` logs when the node begins to decide without the store, and when that ends.

mod announce;
mod clock;
mod data_dir;
mod example;
mod fleet_watch;
mod freed_memory;
mod lease_store;
mod listeners;
mod memory_limit;
mod open_files;
mod overrides;
mod reload;
mod snapshots;
mod start;
mod startup_warnings;
mod stop;
mod stored_rules;
mod tasks;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use super::settings::{Settings, SettingsError, misspelled_variables};
use super::{failed_logins, log};
use crate::cli;
use crate::output::{self, CommandStatus, Failure};
use listeners::BoundListeners;
use start::RunningServer;
use startup_warnings::StartupWarning;
use stop::{DrainResult, StopSignals};

/// How long blocking work, such as a reload of many files, may take after everything else has ended.
const RUNTIME_SHUTDOWN_MAX: Duration = Duration::from_millis(100);

/// Runs the server until a signal stops it. The arguments are those after `tidegate serve`.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let settings = match Settings::load(arguments) {
        Ok(settings) => settings,
        Err(SettingsError::Usage(error)) => return cli::report_usage_error(&error),
        Err(SettingsError::File(report)) => {
            output::print_report(&report);
            return output::exit(Ok(CommandStatus::UnusableInput));
        }
        Err(SettingsError::Problems(problems)) => return output::exit(Err(join_problems(&problems))),
    };
    output::exit(run(settings))
}

fn run(mut settings: Settings) -> Result<CommandStatus, Failure> {
    log::init(settings.args.log_level, settings.args.log_format);
    for warning in misspelled_variables().iter().chain(&settings.warnings) {
        tracing::warn!("{warning}");
    }
    StartupWarning::find(&settings).iter().for_each(StartupWarning::log);
    let runtime = runtime(&settings)?;
    let mut server = match RunningServer::start(&settings, &runtime)? {
        Ok(server) => server,
        Err(status) => return Ok(status),
    };
    StartupWarning::log_mode_without_store(&server.app);
    StartupWarning::log_forward_auth_concurrency(&server.app, &settings);
    settings.args.connections_max = open_files::raise_limit(&settings.args);
    memory_limit::warn_if_too_large(memory_limit::MemoryBounds {
        counters: settings.args.memory_max,
        connections: settings.args.connections_memory_max,
    });
    let drain_result = runtime.block_on(serve(&settings, &mut server))?;
    // This cuts off the remaining connections, so that the last snapshot misses no decision.
    runtime.shutdown_timeout(RUNTIME_SHUTDOWN_MAX);
    let finished = server.finish();
    match drain_result {
        DrainResult::Finished => tracing::info!("stopped"),
        DrainResult::CutOff { connections, edits: 0 } => {
            tracing::warn!(connections, "stopped, with connections cut off");
        }
        DrainResult::CutOff { connections, edits } => {
            tracing::warn!(connections, edits, "stopped, with connections and changes of operators cut off");
        }
    }
    finished.map(|()| CommandStatus::Success)
}

async fn serve(settings: &Settings, server: &mut RunningServer) -> Result<DrainResult, Failure> {
    // From here on, signals do not kill the process.
    let mut signals = StopSignals::new()?;
    let app = Arc::clone(&server.app);
    let listeners =
        BoundListeners::bind(&settings.args).await.map_err(|problems| join_problems(&problems))?;
    app.status.set_listeners(listeners.addresses());
    overrides::read_first(&app).await;
    announce::announce(settings, &listeners.addresses());
    let connections = listeners.run(settings, &app, server.tls.as_ref());
    let mut files = std::mem::take(&mut server.files);
    let (every, hangups) = (settings.args.reload_every, signals.take_hangups());
    tasks::spawn(&app, "reloads", reload::watch(Arc::clone(&app), move || files.reload(), every, hangups));
    tasks::spawn(&app, "clock", clock::watch(Arc::clone(&app)));
    tasks::spawn(&app, "overrides", overrides::watch(Arc::clone(&app)));
    tasks::spawn(&app, "purge of overrides", overrides::purge(Arc::clone(&app)));
    if app.stored_rules.is_some() {
        tasks::spawn(&app, "stored rules", stored_rules::watch(Arc::clone(&app)));
    }
    if let Some(keys) = settings.token_keys.clone() {
        tasks::spawn(&app, "token keys", keys.watch(Arc::clone(&app)));
    }
    tasks::spawn(&app, "freed memory", freed_memory::watch(Arc::clone(&app)));
    tasks::spawn(&app, "failed logins", failed_logins::report_suppressed(Arc::clone(&app)));
    if let Some(writer) = &server.snapshots {
        tasks::spawn(&app, "snapshots", snapshots::watch(Arc::clone(&app), Arc::downgrade(writer)));
    }
    if let Some(events) = server.store_events.take() {
        tasks::spawn(&app, "store", fleet_watch::watch(Arc::clone(&app), events));
    }
    let store = app.fleet.as_ref().map_or("memory", |fleet| &*fleet.url);
    let lease_store = app.lease_store.as_ref().map_or("auto", |leases| &*leases.url);
    tracing::info!(version = app.status.version(), store, lease_store, "ready");
    signals.wait_for_stop().await;
    let drain_max = server.drain_max(settings.args.drain_timeout);
    Ok(stop::drain(&app, &connections, drain_max, &mut signals).await)
}

fn runtime(settings: &Settings) -> Result<Runtime, Failure> {
    let mut builder = Builder::new_multi_thread();
    if let Some(workers) = settings.args.workers {
        builder.worker_threads(workers.get());
    }
    builder.enable_all().build().map_err(|error| {
        Failure::usage(format!(
            "cannot start threads: {error} (hint: lower --workers, or allow the process more threads)"
        ))
    })
}

/// Joins several problems to one failure, one per line.
fn join_problems(problems: &[String]) -> Failure {
    Failure::usage(problems.join("\nerror: "))
}
