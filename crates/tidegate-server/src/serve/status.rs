//! What is loaded, what failed, and since when: for `/healthz?verbose` and metrics.
//!
//! The tasks of `run/` write it, and listeners read it. It contains no secrets.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use tidegate::overrides::FeedError;
use tidegate::rules::{CompiledDomain, Report, Rule, Ruleset};
use tidegate::snapshot::{RestoreStatus, SnapshotError, SnapshotReport};
use tidegate::{Clock as _, ClockStats, SystemClock, Timestamp};

use super::Protocol;
use super::listen::{Address, TlsError};
use super::stored_rules::RulesFault;

/// What is loaded and what failed. There is one per process.
pub struct Status {
    clock: SystemClock,
    started_at: Timestamp,
    /// Clock steps before the start, which [`Status::uptime`] must not subtract.
    clock_steps_at_start: Duration,
    listeners: OnceLock<Vec<BoundAddress>>,
    rules: ArcSwap<RulesStatus>,
    snapshots: ArcSwapOption<SnapshotStatus>,
    certificate: ArcSwapOption<CertificateStatus>,
    config_store_failure: ArcSwapOption<OngoingFailure<String>>,
    stored_rules_failure: ArcSwapOption<OngoingFailure<String>>,
    ended_tasks: ArcSwap<Vec<EndedTask>>,
}

/// An address that a listener is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundAddress {
    /// The protocol of the listener.
    pub protocol: Protocol,
    /// The bound address, with the actual port.
    pub address: Address,
}

/// The active rules, and the result of the last reload.
#[derive(Clone, Debug, Default)]
pub struct RulesStatus {
    /// The files and directories of the rules. Empty: the built-in example.
    pub paths: Vec<PathBuf>,
    /// The names of the domains.
    pub domains: Vec<String>,
    /// The number of rules in all domains.
    pub rules: usize,
    /// When the rules became active.
    pub loaded_at: Timestamp,
    /// How often the rules were replaced since the start.
    pub replacements: u64,
    /// How often changed files were rejected since the start.
    pub rejections: u64,
    /// Why the current files are rejected, if they are. The previous rules stay active.
    pub failure: Option<OngoingFailure<Report>>,
}

/// The status of snapshots. Absent without a data directory.
#[derive(Clone, Debug)]
pub struct SnapshotStatus {
    /// The file that snapshots are written to.
    pub path: PathBuf,
    /// The interval between snapshots.
    pub every: Duration,
    /// The result of restoring at the start.
    pub restored: RestoreStatus,
    /// The last snapshot that was written.
    pub last: Option<SnapshotReport>,
    /// How many snapshots were written since the start.
    pub write_count: u64,
    /// How many attempts failed since the start.
    pub failure_count: u64,
    /// Why the last attempt failed, if it did.
    pub failure: Option<OngoingFailure<SnapshotError>>,
}

/// The status of the TLS certificate. Absent if no address uses TLS.
#[derive(Clone, Debug)]
pub struct CertificateStatus {
    /// The file of the certificate.
    pub path: PathBuf,
    /// When the certificate was loaded.
    pub loaded_at: Timestamp,
    /// How often the certificate was replaced since the start.
    pub replacements: u64,
    /// How often changed files were rejected since the start.
    pub rejections: u64,
    /// Why the current files are rejected, if they are. The previous certificate stays in use.
    pub failure: Option<OngoingFailure<TlsError>>,
}

/// A failure that lasts, and since when.
#[derive(Clone, Debug)]
pub struct OngoingFailure<E> {
    /// When the first of the consecutive failures occurred.
    pub since: Timestamp,
    /// The error of the last one.
    pub error: E,
}

/// A background task that ended while the server runs. This is a bug.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedTask {
    /// The name of the task.
    pub name: String,
    /// When it ended.
    pub at: Timestamp,
}

impl Status {
    /// The status of a server that starts now, with nothing loaded.
    pub fn new() -> Self {
        let clock = SystemClock::new();
        let (started_at, clock_steps_at_start) = (clock.now(), clock.stats().stepped);
        Self {
            clock,
            started_at,
            clock_steps_at_start,
            listeners: OnceLock::new(),
            rules: ArcSwap::default(),
            snapshots: ArcSwapOption::empty(),
            certificate: ArcSwapOption::empty(),
            config_store_failure: ArcSwapOption::empty(),
            stored_rules_failure: ArcSwapOption::empty(),
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

    /// The time since the start, without steps of the wall clock.
    pub fn uptime(&self) -> Duration {
        let passed_ns = self.now().as_nanos().saturating_sub(self.started_at.as_nanos());
        let stepped = self.clock_stats().stepped.saturating_sub(self.clock_steps_at_start);
        Duration::from_nanos(passed_ns).saturating_sub(stepped)
    }

    /// How the clock has followed wall time.
    pub fn clock_stats(&self) -> ClockStats {
        self.clock.stats()
    }

    /// The bound addresses. Empty until all are bound.
    pub fn listeners(&self) -> &[BoundAddress] {
        self.listeners.get().map_or(&[], Vec::as_slice)
    }

    /// The status of the rules.
    pub fn rules(&self) -> Arc<RulesStatus> {
        self.rules.load_full()
    }

    /// The status of snapshots, if any are written.
    pub fn snapshots(&self) -> Option<Arc<SnapshotStatus>> {
        self.snapshots.load_full()
    }

    /// The status of the certificate, if any address uses TLS.
    pub fn certificate(&self) -> Option<Arc<CertificateStatus>> {
        self.certificate.load_full()
    }

    /// Why the config store does not answer, if it does not.
    pub fn config_store_failure(&self) -> Option<Arc<OngoingFailure<String>>> {
        self.config_store_failure.load_full()
    }

    /// Why the rules in the config store cannot be read, if they cannot.
    pub fn stored_rules_failure(&self) -> Option<Arc<OngoingFailure<String>>> {
        self.stored_rules_failure.load_full()
    }

    /// The tasks that ended too early. Empty unless there is a bug.
    pub fn ended_tasks(&self) -> Arc<Vec<EndedTask>> {
        self.ended_tasks.load_full()
    }

    /// The current time, by the clock that all times of the status use.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Sets the addresses, once all are bound.
    pub fn set_listeners(&self, listeners: Vec<BoundAddress>) {
        // This is called once.
        let _ = self.listeners.set(listeners);
    }

    /// Sets the rules of the start.
    pub fn rules_loaded(&self, paths: Vec<PathBuf>, rules: &Ruleset) {
        let status = RulesStatus { paths, loaded_at: self.now(), ..RulesStatus::default() };
        self.rules.store(Arc::new(status.with(rules)));
    }

    /// Records that new rules are active.
    pub fn rules_reloaded(&self, rules: &Ruleset) {
        let old = RulesStatus::clone(&self.rules());
        let replacements = old.replacements + 1;
        let status = RulesStatus { loaded_at: self.now(), replacements, failure: None, ..old };
        self.rules.store(Arc::new(status.with(rules)));
    }

    /// Records that the files were rejected and the active rules stay.
    pub fn rules_rejected(&self, report: Report) {
        let old = RulesStatus::clone(&self.rules());
        let failure = Some(OngoingFailure::following(old.failure.as_ref(), self.now(), report));
        self.rules.store(Arc::new(RulesStatus { rejections: old.rejections + 1, failure, ..old }));
    }

    /// Sets the status of snapshots.
    pub fn set_snapshots(&self, status: SnapshotStatus) {
        self.snapshots.store(Some(Arc::new(status)));
    }

    /// Sets the status of the certificate.
    pub fn set_certificate(&self, status: CertificateStatus) {
        self.certificate.store(Some(Arc::new(status)));
    }

    /// Records that the config store does not answer, or that it answers.
    pub fn set_config_store_failure(&self, error: Option<&FeedError>) {
        self.set_failure(&self.config_store_failure, error);
    }

    /// Records that the rules in the config store cannot be read, or that they can.
    pub fn set_stored_rules_failure(&self, fault: Option<&RulesFault>) {
        self.set_failure(&self.stored_rules_failure, fault);
    }

    fn set_failure(&self, of: &ArcSwapOption<OngoingFailure<String>>, error: Option<&impl ToString>) {
        let before = of.load_full();
        if before.is_none() && error.is_none() {
            return;
        }
        let failure =
            error.map(|error| OngoingFailure::following(before.as_deref(), self.now(), error.to_string()));
        of.store(failure.map(Arc::new));
    }

    /// Records a task that ended too early.
    pub fn task_ended(&self, name: &str) {
        let ended = EndedTask { name: name.to_owned(), at: self.now() };
        // The list stays short: there are a few tasks, and each ends once.
        self.ended_tasks.rcu(|before| [before.as_slice(), std::slice::from_ref(&ended)].concat());
    }
}

impl<E> OngoingFailure<E> {
    /// A failure at this instant. If the one before still lasts, its start time is kept.
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

/// The rules of a domain as operators count them: without the placeholders for descriptors of Envoy's files that have
/// no limit.
pub fn limiting_rules(domain: &CompiledDomain) -> impl Iterator<Item = &Rule> {
    domain.rules().iter().filter(|rule| !rule.is_placeholder)
}
