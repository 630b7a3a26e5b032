//! Loads certificates, rules and counters before the server accepts connections, and writes the last snapshot.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidegate::rules::{self, Domain, LoadedRules, Reloader, Source, SourceUpdate};
use tidegate::snapshot::{RestoreStatus, Restored, SnapshotReport, SnapshotWriter};
use tidegate::{Clock as _, Engine, MemoryStore, Nanos, SystemClock};
use tokio::runtime::Runtime;

use super::data_dir::DataDir;
use super::reload::WatchedFiles;
use super::{example, fleet_watch, lease_store, overrides};
use crate::check::is_unreadable;
use crate::json::set_request_bounds;
use crate::output::{self, CommandStatus, Failure};
use crate::serve::App;
use crate::serve::connections_memory::ConnectionsMemory;
use crate::serve::denial_log::DenialLog;
use crate::serve::listen::{Tls, TlsFiles};
use crate::serve::metrics::DescriptorMetrics;
use crate::serve::settings::{ServeArgs, Settings, UnknownDomain, unread_variables};
use crate::serve::status::{CertificateStatus, SnapshotStatus};
use crate::serve::stored_rules::StoredRules;

/// Time reserved to finish after the connections, including a first snapshot whose duration is unknown.
const FINISH_TIME: Duration = Duration::from_millis(200);
/// How many snapshot durations are reserved: a running snapshot must end before the last one starts, plus a margin.
const FINAL_SNAPSHOTS: u32 = 3;
/// Connections get at least one part in this many of the drain timeout.
const FINISH_SHARE_MAX: u32 = 2;

/// A server that has loaded everything.
pub struct RunningServer {
    pub app: Arc<App>,
    pub tls: Option<Arc<Tls>>,
    /// Writes snapshots, if there is a data directory.
    pub snapshots: Option<Arc<SnapshotWriter>>,
    /// The files that the reload task checks for changes.
    pub files: WatchedFiles,
    /// Events of the shared store to log, if there is one.
    pub store_events: Option<fleet_watch::StoreEvents>,
    _data_dir: Option<DataDir>,
}

impl RunningServer {
    /// Loads everything that the settings name. Prints errors in the rules. The connections to a shared store run in
    /// this runtime.
    pub fn start(settings: &Settings, runtime: &Runtime) -> Result<Result<Self, CommandStatus>, Failure> {
        let args = &settings.args;
        set_request_bounds(settings.request_bounds());
        let tls = load_tls(args)?;
        // Errors in files are found before anything else is started.
        let from_files = match args.has_stored_rules() {
            true => None,
            false => match load_rules(file_source(args), args) {
                Ok(rules) => Some(rules),
                Err(status) => return Ok(Err(status)),
            },
        };
        if args.global_shadow {
            tracing::warn!(
                "global_shadow is on: limits are counted and reported, and no request is denied or delayed (hint: \
                 remove the setting to enforce the rules)"
            );
        }
        let connect = |store| runtime.block_on(fleet_watch::connect(store, args));
        let fleet = settings.store.as_ref().map(connect).transpose()?;
        let (fleet, store_events) = fleet.unzip();
        let connect_leases = |etcd| runtime.block_on(lease_store::connect(etcd));
        let leases = settings.lease_store.as_ref().map(connect_leases).transpose()?;
        let data_dir = lock_data_dir(settings)?;
        let clock = SystemClock::new();
        let snapshot_dir = data_dir.as_ref().filter(|_| fleet.is_none());
        let (store, restored) = restore_counters(args, snapshot_dir, &clock);
        let overrides = overrides::start(
            runtime.handle(),
            &args.config_store,
            fleet.as_ref(),
            data_dir.as_ref(),
            overrides::OverrideBounds {
                cache_max: args.override_cache_max,
                filter_max: args.override_filter_max,
                timeout: args.override_timeout,
            },
        )?;
        let stored_rules = match args.has_stored_rules() {
            true => {
                let copy_path = data_dir.as_ref().map(DataDir::rules_copy_path);
                let start = StoredRules::start(Arc::clone(overrides.store()), copy_path, clock.now());
                Some(runtime.block_on(start)?)
            }
            false => None,
        };
        let (domains, source) = match from_files {
            Some(rules) => rules,
            None => match load_rules(stored_rules.as_ref().map(StoredRules::source), args) {
                Ok(rules) => rules,
                Err(status) => return Ok(Err(status)),
            },
        };
        if let Some(stored_rules) = &stored_rules {
            runtime.block_on(stored_rules.keep_copy());
        }
        if let Some(warning) = unread_variables(args, &domains) {
            tracing::warn!("{warning}");
        }
        let node_store = lease_store::node_store(fleet.as_ref(), leases.as_ref(), &store);
        let engine = Engine::with_store(domains, node_store, clock.clone())
            .map_err(|error| Failure::problem(error.to_string()))?
            .with_queue_max(args.queue_max.get())
            .with_unknown_domain(match args.unknown_domain {
                UnknownDomain::Allow => rules::UnknownDomain::Allow,
                UnknownDomain::Deny => rules::UnknownDomain::Deny,
            })
            .with_limits_max(args.limits_max.get())
            .with_overrides(Arc::new(overrides));
        let descriptors = DescriptorMetrics {
            descriptors_max: args.descriptor_metrics_max,
            near_limit_ratio: args.near_limit_ratio,
        };
        let denials = DenialLog::new(args.log_denials, args.log_keys).with_plain(args.log_plain.clone());
        let memory = ConnectionsMemory::new(args.connections_memory_max.bytes());
        let app = Arc::new(App {
            fleet,
            lease_store: leases,
            negative_hits: args.negative_hits,
            ratelimit_headers: args.ratelimit_headers.into(),
            load_options: args.load_options(),
            stored_rules,
            ..App::new(engine)
                .with_denials(denials)
                .with_descriptor_metrics(descriptors)
                .with_connections_memory(memory)
        });
        app.status.rules_loaded(args.rules.clone(), &app.engine.rules());
        if let Some(tls) = &tls {
            let path = tls.files().cert.clone();
            let loaded_at = app.status.now();
            let status = CertificateStatus { path, loaded_at, replacements: 0, rejections: 0, failure: None };
            app.status.set_certificate(status);
        }
        let snapshots = match restored {
            Some((path, restored)) => Some(start_snapshots(args, &app, store, clock, path, restored)?),
            None => None,
        };
        let reloader = source.map(|source| Reloader::new(app.engine.clone(), source));
        let files = WatchedFiles { reloader, tls: tls.clone() };
        Ok(Ok(Self { app, tls, snapshots, files, store_events, _data_dir: data_dir }))
    }

    /// How long connections may take to finish, so that the last snapshot also fits in the drain timeout.
    pub fn drain_max(&self, drain_timeout: Duration) -> Duration {
        let snapshot =
            self.snapshots.as_ref().map_or(Duration::ZERO, |writer| writer.attempts().last_duration);
        let end = FINISH_TIME + snapshot.saturating_mul(FINAL_SNAPSHOTS);
        drain_timeout - end.min(drain_timeout / FINISH_SHARE_MAX)
    }

    /// Writes the last snapshot, after the last decision.
    pub fn finish(self) -> Result<(), Failure> {
        let Some(writer) = self.snapshots else { return Ok(()) };
        let report = write_last_snapshot(writer).map_err(Failure::problem)?;
        tracing::info!(counters = report.entries, bytes = report.bytes, "wrote the last snapshot");
        Ok(())
    }
}

/// Writes the last snapshot, or returns why it was not written.
fn write_last_snapshot(writer: Arc<SnapshotWriter>) -> Result<SnapshotReport, String> {
    let path = writer.path().display().to_string();
    let Some(writer) = Arc::into_inner(writer) else {
        return Err(format!(
            "the last snapshot was not written to `{path}`: a task still uses the snapshot writer, which is a bug in \
             Tidegate, please report it (hint: the previous snapshot is still there)"
        ));
    };
    writer.stop().map_err(|error| error.to_string())
}

/// Locks the data directory. Counters of a shared store are never restored from snapshots, so such a node needs it only for
/// a copy of its rules.
fn lock_data_dir(settings: &Settings) -> Result<Option<DataDir>, Failure> {
    let Some(path) = &settings.args.data_dir else { return Ok(None) };
    if let Some(store) = &settings.store {
        tracing::info!(
            data_dir = %path.display(),
            "no snapshots are written, because counters are in the store at {}", store.url
        );
        if !settings.args.has_stored_rules() {
            return Ok(None);
        }
    }
    DataDir::lock(path).map(Some)
}

fn load_tls(args: &ServeArgs) -> Result<Option<Arc<Tls>>, Failure> {
    let (Some(cert), Some(key)) = (args.tls_cert.clone(), args.tls_key.clone()) else { return Ok(None) };
    let files = TlsFiles { cert, key, client_ca: args.tls_client_ca.clone() };
    let tls = Tls::load(files).map_err(|error| Failure::usage(error.to_string()))?;
    Ok(Some(Arc::new(tls)))
}

/// The rules files, unless the rules are the example.
fn file_source(args: &ServeArgs) -> Option<Source> {
    (!args.rules.is_empty()).then(|| Source::new(args.rules.iter().cloned()))
}

/// Loads the rules of a source, or the example. Prints errors.
fn load_rules(
    source: Option<Source>,
    args: &ServeArgs,
) -> Result<(Vec<Domain>, Option<Source>), CommandStatus> {
    let options = args.load_options();
    let mut source = source.map(|source| source.with_options(options));
    let loaded = match source.as_mut().map(Source::poll) {
        Some(SourceUpdate::Changed(loaded)) => Ok(loaded),
        Some(SourceUpdate::Invalid(report)) => Err(report),
        // Not possible on the first poll.
        Some(SourceUpdate::Unchanged) => rules::load_with(&args.rules, options),
        None => rules::parse_with(example::EXAMPLE_NAME, example::EXAMPLE, options),
    };
    match loaded {
        Ok(LoadedRules { domains, report, .. }) => {
            if report.warnings() > 0 {
                tracing::warn!("the rules have warnings:\n{report}");
            } else if report.skipped_count() > 0 {
                tracing::warn!("some files of the rules directories are not loaded:\n{report}");
            }
            Ok((domains, source))
        }
        Err(report) => {
            output::print_report(&report);
            Err(if is_unreadable(&report) {
                CommandStatus::UnusableInput
            } else {
                CommandStatus::ProblemsFound
            })
        }
    }
}

/// Restores the store from the last snapshot. Also returns the path and result of that.
fn restore_counters(
    args: &ServeArgs,
    data_dir: Option<&DataDir>,
    clock: &SystemClock,
) -> (Arc<MemoryStore>, Option<(PathBuf, RestoreStatus)>) {
    let memory_max = args.memory_max.bytes();
    let Some(data_dir) = data_dir else { return (Arc::new(MemoryStore::bounded(memory_max)), None) };
    let path = data_dir.snapshot_path();
    let Restored { store, status: restored, .. } = MemoryStore::restore(&path, memory_max, clock.now());
    match &restored {
        RestoreStatus::Refused(error) => tracing::error!("{error}"),
        RestoreStatus::Restored { evicted, moved_back, .. } if *evicted > 0 || *moved_back > Nanos::ZERO => {
            tracing::warn!("{restored}");
        }
        _ => tracing::info!("{restored}"),
    }
    (Arc::new(store), Some((path, restored)))
}

fn start_snapshots(
    args: &ServeArgs,
    app: &App,
    store: Arc<MemoryStore>,
    clock: SystemClock,
    path: PathBuf,
    restored: RestoreStatus,
) -> Result<Arc<SnapshotWriter>, Failure> {
    let writer = SnapshotWriter::start(store, clock, &path, args.snapshot_every)
        .map_err(|error| Failure::usage(error.to_string()))?;
    let every = args.snapshot_every;
    app.status.set_snapshots(SnapshotStatus {
        path,
        every,
        restored,
        last: None,
        write_count: 0,
        failure_count: 0,
        failure: None,
    });
    Ok(Arc::new(writer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_last_snapshot_is_an_error() {
        let path = std::env::temp_dir().join(format!("tidegate-last-{}.snapshot", std::process::id()));
        let start = || {
            let store = Arc::new(MemoryStore::bounded(1 << 20));
            let every = Duration::from_secs(3_600);
            Arc::new(SnapshotWriter::start(store, SystemClock::new(), &path, every).unwrap())
        };
        assert!(write_last_snapshot(start()).is_ok());
        let writer = start();
        let error = write_last_snapshot(Arc::clone(&writer)).unwrap_err();
        assert!(error.contains("was not written") && error.contains("(hint: "), "{error}");
        drop(writer);
        std::fs::remove_file(path).unwrap();
    }
}
