//! What there is before anybody can connect: certificates, rules, counters.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidegate::rules::{self, Domain, Loaded, Polled, Reloader, Source};
use tidegate::snapshot::{Found, Restored, SnapshotReport, SnapshotWriter};
use tidegate::store::NodeStore;
use tidegate::{Clock as _, Engine, MemoryStore, SystemClock};
use tokio::runtime::Runtime;

use super::data_dir::DataDir;
use super::reload::Files;
use super::{first_minute, fleet};
use crate::check::is_unread;
use crate::output::{self, Failure, Verdict};
use crate::serve::App;
use crate::serve::listening::{Tls, TlsFiles};
use crate::serve::logs::Denials;
use crate::serve::settings::{ServeArgs, Settings};
use crate::serve::status::{CertificateStatus, SnapshotStatus};

/// What the end takes once connections have finished, with a first snapshot that nobody has measured.
const END_TAKES: Duration = Duration::from_millis(200);
/// A snapshot that is being written has to end before the last one begins, and that may take a little longer.
const SNAPSHOTS_AT_END: u32 = 3;
/// Connections have one part in this many of the whole time, at least.
const END_SHARE_MAX: u32 = 2;

/// What was started.
pub struct Started {
    pub app: Arc<App>,
    pub tls: Option<Arc<Tls>>,
    /// Writes snapshots, if there is a directory for data.
    pub snapshots: Option<Arc<SnapshotWriter>>,
    /// The files that may change while it runs, for whoever looks at them.
    pub files: Files,
    /// What changes with the store that a fleet shares, if there is one, for whoever logs it.
    pub store_events: Option<fleet::Events>,
    _data_dir: Option<DataDir>,
}

impl Started {
    /// Starts by these settings. If there is something wrong with the rules, that is shown. What talks to a store does so
    /// in this runtime.
    pub fn by(settings: &Settings, runtime: &Runtime) -> Result<Result<Self, Verdict>, Failure> {
        let args = &settings.args;
        let tls = encryption(args)?;
        let (domains, source) = match rules_of(args) {
            Ok(rules) => rules,
            Err(verdict) => return Ok(Err(verdict)),
        };
        let fleet =
            settings.store.as_ref().map(|store| runtime.block_on(fleet::connect(store))).transpose()?;
        let (fleet, store_events) = fleet.unzip();
        let data_dir = data_dir(settings)?;
        let clock = SystemClock::new();
        let (store, found) = counters(args, data_dir.as_ref(), &clock);
        let node_store = match &fleet {
            Some(fleet) => NodeStore::shared(Arc::clone(&fleet.store) as _, Arc::clone(&store)),
            None => NodeStore::Local(Arc::clone(&store)),
        };
        let engine = Engine::over(domains, node_store, clock.clone())
            .map_err(|error| Failure::problem(error.to_string()))?
            .with_queue_max(args.queue_max.get());
        let denials = Denials::new(args.log_denials, args.log_keys);
        let app = App { fleet, ..App::new(engine).with_denials(denials) };
        let app = Arc::new(app);
        app.status.rules_loaded(args.rules.clone(), &app.engine.rules());
        if let Some(tls) = &tls {
            let path = tls.files().cert.clone();
            let loaded_at = app.status.now();
            let status = CertificateStatus { path, loaded_at, replaced: 0, refused: 0, failure: None };
            app.status.certificate_is(status);
        }
        let snapshots = match found {
            Some((path, found)) => Some(write_snapshots(args, &app, store, clock, path, found)?),
            None => None,
        };
        let reloader = source.map(|source| Reloader::new(app.engine.clone(), source));
        let files = Files { reloader, tls: tls.clone() };
        Ok(Ok(Self { app, tls, snapshots, files, store_events, _data_dir: data_dir }))
    }

    /// How long connections may take to finish, so that all of the end fits into the whole time.
    pub fn drain_max(&self, whole: Duration) -> Duration {
        let snapshot = self.snapshots.as_ref().map_or(Duration::ZERO, |writer| writer.attempts().last_took);
        let end = END_TAKES + snapshot.saturating_mul(SNAPSHOTS_AT_END);
        whole - end.min(whole / END_SHARE_MAX)
    }

    /// Writes the last snapshot. Nothing is decided any more.
    pub fn finish(self) -> Result<(), Failure> {
        let Some(writer) = self.snapshots else { return Ok(()) };
        let report = last_snapshot(writer).map_err(Failure::problem)?;
        tracing::info!(counters = report.entries, bytes = report.bytes, "the last snapshot is written");
        Ok(())
    }
}

/// Writes the last snapshot, or says why there is none.
fn last_snapshot(writer: Arc<SnapshotWriter>) -> Result<SnapshotReport, String> {
    let path = writer.path().display().to_string();
    let Some(writer) = Arc::into_inner(writer) else {
        return Err(format!(
            "the last snapshot was not written to `{path}`: something still looks at what becomes of snapshots, which is \
             a bug in Tidegate, please report it (hint: the snapshot before it is there)"
        ));
    };
    writer.stop().map_err(|error| error.to_string())
}

/// The directory for snapshots, if there are to be any. Counters that others share are not this server's to restore.
fn data_dir(settings: &Settings) -> Result<Option<DataDir>, Failure> {
    match (&settings.args.data_dir, &settings.store) {
        (Some(path), None) => DataDir::take(path).map(Some),
        (Some(path), Some(store)) => {
            tracing::info!(
                data_dir = %path.display(),
                "no snapshots are written, for counters are in the store at {}", store.url
            );
            Ok(None)
        }
        (None, _) => Ok(None),
    }
}

fn encryption(args: &ServeArgs) -> Result<Option<Arc<Tls>>, Failure> {
    let (Some(cert), Some(key)) = (args.tls_cert.clone(), args.tls_key.clone()) else { return Ok(None) };
    let files = TlsFiles { cert, key, client_ca: args.tls_client_ca.clone() };
    let loaded = Tls::load(files).map_err(|error| Failure::usage(error.to_string()))?;
    Ok(Some(Arc::new(loaded)))
}

/// The rules, and where they are from unless that is the example. What is wrong with them is shown.
fn rules_of(args: &ServeArgs) -> Result<(Vec<Domain>, Option<Source>), Verdict> {
    let mut source = (!args.rules.is_empty()).then(|| Source::new(args.rules.iter().cloned()));
    let loaded = match source.as_mut().map(Source::poll) {
        Some(Polled::Changed(loaded)) => Ok(loaded),
        Some(Polled::Broken(report)) => Err(report),
        // Which it cannot be the first time.
        Some(Polled::Unchanged) => rules::load(&args.rules),
        None => rules::parse(first_minute::EXAMPLE_NAME, first_minute::EXAMPLE),
    };
    match loaded {
        Ok(Loaded { domains, report, .. }) => {
            if report.warnings() > 0 {
                tracing::warn!("the rules have warnings:\n{report}");
            }
            Ok((domains, source))
        }
        Err(report) => {
            output::show(&report);
            Err(if is_unread(&report) { Verdict::Unusable } else { Verdict::Problems })
        }
    }
}

/// The store as the last snapshot has it, and where that was looked for.
fn counters(
    args: &ServeArgs,
    data_dir: Option<&DataDir>,
    clock: &SystemClock,
) -> (Arc<MemoryStore>, Option<(PathBuf, Found)>) {
    let memory_max = args.memory_max.bytes();
    let Some(data_dir) = data_dir else { return (Arc::new(MemoryStore::bounded(memory_max)), None) };
    let path = data_dir.snapshot();
    let Restored { store, found, .. } = MemoryStore::restore(&path, memory_max, clock.now());
    match &found {
        Found::Refused(error) => tracing::error!("{error}"),
        Found::Snapshot { given_up: 1.., .. } => tracing::warn!("{found}"),
        _ => tracing::info!("{found}"),
    }
    (Arc::new(store), Some((path, found)))
}

fn write_snapshots(
    args: &ServeArgs,
    app: &App,
    store: Arc<MemoryStore>,
    clock: SystemClock,
    path: PathBuf,
    found: Found,
) -> Result<Arc<SnapshotWriter>, Failure> {
    let writer = SnapshotWriter::start(store, clock, &path, args.snapshot_every)
        .map_err(|error| Failure::usage(error.to_string()))?;
    let every = args.snapshot_every;
    app.status.snapshots_are(SnapshotStatus {
        path,
        every,
        found,
        last: None,
        written: 0,
        failed: 0,
        failure: None,
    });
    Ok(Arc::new(writer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_last_snapshot_that_is_not_written_is_no_success() {
        let path = std::env::temp_dir().join(format!("tidegate-last-{}.snapshot", std::process::id()));
        let start = || {
            let store = Arc::new(MemoryStore::bounded(1 << 20));
            let every = Duration::from_secs(3_600);
            Arc::new(SnapshotWriter::start(store, SystemClock::new(), &path, every).unwrap())
        };
        assert!(last_snapshot(start()).is_ok());
        let held = start();
        let error = last_snapshot(Arc::clone(&held)).unwrap_err();
        assert!(error.contains("was not written") && error.contains("(hint: "), "{error}");
        drop(held);
        std::fs::remove_file(path).unwrap();
    }
}
