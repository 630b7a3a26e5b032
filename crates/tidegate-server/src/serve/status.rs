//! What is loaded, what failed, and since when: for `/healthz?verbose`, and for whoever looks at metrics.
//!
//! What runs the server writes it; listeners read it. Nothing in it is a secret.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use tidegate::rules::{CompiledDomain, Report, Rule, Ruleset};
use tidegate::snapshot::{RestoreStatus, SnapshotError, SnapshotReport};
use tidegate::{Clock as _, ClockStats, SystemClock, Timestamp};

use super::Protocol;
use super::listening::{Address, TlsError};

/// What is loaded and what failed. One for the process.
pub struct Status {
    clock: SystemClock,
    started_at: Timestamp,
    /// The steps of the clock before the start, which [`Status::up_for`] leaves out.
    clock_steps_at_start: Duration,
    listeners: OnceLock<Vec<BoundAddress>>,
    rules: ArcSwap<RulesStatus>,
    snapshots: ArcSwapOption<SnapshotStatus>,
    certificate: ArcSwapOption<CertificateStatus>,
    ended_tasks: ArcSwap<Vec<EndedTask>>,
}

/// An address that is listened on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundAddress {
    /// What is spoken there.
    pub protocol: Protocol,
    /// The address that was really bound.
    pub address: Address,
}

/// The rules in force, and what became of the last attempt to replace them.
#[derive(Clone, Debug, Default)]
pub struct RulesStatus {
    /// The files and directories they are from. None: the built-in example.
    pub paths: Vec<PathBuf>,
    /// The names of the domains.
    pub domains: Vec<String>,
    /// How many rules there are in all domains.
    pub rules: usize,
    /// When they were put into force.
    pub loaded_at: Timestamp,
    /// How often they were replaced since the start.
    pub replacements: u64,
    /// How often files were others and could not be used since the start.
    pub rejections: u64,
    /// Why the files as they are now cannot be used, if they cannot: the rules in force are those before.
    pub failure: Option<OngoingFailure<Report>>,
}

/// Snapshots. There is none of it without a directory for data.
#[derive(Clone, Debug)]
pub struct SnapshotStatus {
    /// Where they are written.
    pub path: PathBuf,
    /// How often.
    pub every: Duration,
    /// What was found at the start.
    pub found: RestoreStatus,
    /// The last that was written.
    pub last: Option<SnapshotReport>,
    /// How many were written since the start.
    pub write_count: u64,
    /// How many attempts failed since the start.
    pub failure_count: u64,
    /// Why the last attempt failed, if it did.
    pub failure: Option<OngoingFailure<SnapshotError>>,
}

/// The certificate. There is none of it if no address is encrypted.
#[derive(Clone, Debug)]
pub struct CertificateStatus {
    /// Its file.
    pub path: PathBuf,
    /// When it was put into use.
    pub loaded_at: Timestamp,
    /// How often it was replaced since the start.
    pub replacements: u64,
    /// How often files were others and could not be used since the start.
    pub rejections: u64,
    /// Why the files as they are now cannot be used, if they cannot: the certificate in use is the one before.
    pub failure: Option<OngoingFailure<TlsError>>,
}

/// What goes wrong, and since when.
#[derive(Clone, Debug)]
pub struct OngoingFailure<E> {
    /// When it began: of failures one after the other, the first.
    pub since: Timestamp,
    /// The last of them.
    pub error: E,
}

/// A part of the server that has ended while the rest goes on, which is a bug.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedTask {
    /// Which.
    pub name: String,
    /// When.
    pub at: Timestamp,
}

impl Status {
    /// Of a server that starts now, with nothing loaded yet.
    pub fn new() -> Self {
        let clock = SystemClock::new();
        let (started_at, stepped_before) = (clock.now(), clock.stats().stepped);
        Self {
            clock,
            started_at,
            clock_steps_at_start: stepped_before,
            listeners: OnceLock::new(),
            rules: ArcSwap::default(),
            snapshots: ArcSwapOption::empty(),
            certificate: ArcSwapOption::empty(),
            ended_tasks: ArcSwap::default(),
        }
    }

    /// The version of the server.
    pub const fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    /// When the server started.
    pub const fn started_at(&self) -> Timestamp {
        self.started_at
    }

    /// How long ago that was. A wall clock that was set since then does not count.
    pub fn uptime(&self) -> Duration {
        let passed_ns = self.now().as_nanos().saturating_sub(self.started_at.as_nanos());
        let stepped = self.clock_stats().stepped.saturating_sub(self.clock_steps_at_start);
        Duration::from_nanos(passed_ns).saturating_sub(stepped)
    }

    /// How the clock has followed wall time.
    pub fn clock_stats(&self) -> ClockStats {
        self.clock.stats()
    }

    /// What is listened on; nothing until all of it is bound.
    pub fn listeners(&self) -> &[BoundAddress] {
        self.listeners.get().map_or(&[], Vec::as_slice)
    }

    /// The rules.
    pub fn rules(&self) -> Arc<RulesStatus> {
        self.rules.load_full()
    }

    /// The snapshots, if any are written.
    pub fn snapshots(&self) -> Option<Arc<SnapshotStatus>> {
        self.snapshots.load_full()
    }

    /// The certificate, if anything is encrypted.
    pub fn certificate(&self) -> Option<Arc<CertificateStatus>> {
        self.certificate.load_full()
    }

    /// The parts that have ended before their time. There are none unless there is a bug.
    pub fn ended_tasks(&self) -> Arc<Vec<EndedTask>> {
        self.ended_tasks.load_full()
    }

    /// The instant now, by the clock that all times here are of.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// All addresses are bound.
    pub fn set_listeners(&self, listeners: Vec<BoundAddress>) {
        // They are bound once.
        let _ = self.listeners.set(listeners);
    }

    /// The rules of the start are in force.
    pub fn rules_loaded(&self, paths: Vec<PathBuf>, rules: &Ruleset) {
        let status = RulesStatus { paths, loaded_at: self.now(), ..RulesStatus::default() };
        self.rules.store(Arc::new(status.with(rules)));
    }

    /// Other rules are in force.
    pub fn rules_reloaded(&self, rules: &Ruleset) {
        let old = RulesStatus::clone(&self.rules());
        let replaced = old.replacements + 1;
        let status = RulesStatus { loaded_at: self.now(), replacements: replaced, failure: None, ..old };
        self.rules.store(Arc::new(status.with(rules)));
    }

    /// The files cannot be used, and the rules in force stay.
    pub fn rules_rejected(&self, report: Report) {
        let old = RulesStatus::clone(&self.rules());
        let failure = Some(OngoingFailure::following(old.failure.as_ref(), self.now(), report));
        self.rules.store(Arc::new(RulesStatus { rejections: old.rejections + 1, failure, ..old }));
    }

    /// There are snapshots, or something became of them.
    pub fn set_snapshots(&self, status: SnapshotStatus) {
        self.snapshots.store(Some(Arc::new(status)));
    }

    /// There is a certificate, or something became of it.
    pub fn set_certificate(&self, status: CertificateStatus) {
        self.certificate.store(Some(Arc::new(status)));
    }

    /// A part of the server has ended before its time.
    pub fn task_ended(&self, part: &str) {
        let ended = EndedTask { name: part.to_owned(), at: self.now() };
        // There are a handful of parts, and each ends once.
        self.ended_tasks.rcu(|before| [before.as_slice(), std::slice::from_ref(&ended)].concat());
    }
}

impl<E> OngoingFailure<E> {
    /// A failure at this instant, after this one, if that has not ended.
    pub fn following(before: Option<&Self>, at: Timestamp, error: E) -> Self {
        Self { since: before.map_or(at, |before| before.since), error }
    }
}

impl Default for Status {
    fn default() -> Self {
        Self::new()
    }
}

impl RulesStatus {
    fn with(mut self, rules: &Ruleset) -> Self {
        self.domains = rules.domains().map(|domain| domain.name().to_owned()).collect();
        self.rules = rules.domains().map(|domain| limiting_rules(domain).count()).sum();
        self
    }
}

/// The rules of a domain, as operators count them: places in the levels of Envoy's files where nothing is limited are none.
pub fn limiting_rules(domain: &CompiledDomain) -> impl Iterator<Item = &Rule> {
    domain.rules().iter().filter(|rule| !rule.is_placeholder)
}
