//! The state that all listeners share: the engine, with metrics and logs around each of its decisions.

use std::sync::Arc;

use tidegate::engine::{ActiveRules, CheckedCharge, DecideFuture, DecideOptions, Explanation};
use tidegate::headers::HeaderDialect;
use tidegate::rules::{Answer, Domain, LoadOptions, MatchedLimits, OnStoreFailure, Request, RulesetError};
use tidegate::store::{NodeStore, Store as _};
use tidegate::{
    Clock as _, DecideOutput, Decision, Engine, EngineError, LeaseToken, MEMORY_BYTES_DEFAULT, MemoryStore,
    Nanos, Release, Renewal, SystemClock, Timestamp,
};
use tokio_util::task::TaskTracker;

use super::connections_memory::ConnectionsMemory;
use super::denial_log::DenialLog;
use super::failed_logins::FailedLogins;
use super::metrics::{DecisionTimes, DescriptorMetrics, Metrics};
use super::settings::NegativeHits;
use super::stored_rules::StoredRules;
use super::unknown_domains::UnknownDomains;
use super::{Drain, Fleet, LeaseStore, Protocol, ReloadHandle, SharedInstant, Status, fleet};

/// The reason label of a request that matches more limits than a plan can hold.
pub(super) const TOO_MANY_LIMITS: &str = "too_many_limits";

/// The engine of a server. The store is chosen at startup.
pub type ServerEngine = Engine<SystemClock, NodeStore>;

/// The state that all listeners share. There is one per process.
pub struct App {
    /// Decides requests.
    pub engine: ServerEngine,
    /// The counters for Prometheus.
    pub metrics: Metrics,
    /// Logs denied requests.
    pub denials: DenialLog,
    /// Whether the server is draining.
    pub drain: Drain,
    /// What is loaded, and what failed to load.
    pub status: Status,
    /// Requests a reload of the files.
    pub reloads: ReloadHandle,
    /// What a wrong password or token causes.
    pub failed_logins: FailedLogins,
    /// What negative hits of Envoy's rate limit service do.
    pub negative_hits: NegativeHits,
    /// The shared store of a fleet, if the engine uses one.
    pub fleet: Option<Fleet>,
    /// The store of leases, if the engine has one beside that of the counters.
    pub lease_store: Option<LeaseStore>,
    /// Which headers tell clients about their limits.
    pub ratelimit_headers: HeaderDialect,
    /// Warns about domains without rules.
    pub unknown_domains: UnknownDomains,
    /// The memory of connections.
    pub connections_memory: Arc<ConnectionsMemory>,
    /// How rules files are read.
    pub load_options: LoadOptions,
    /// The rules in the config store, if this node uses them.
    pub stored_rules: Option<StoredRules>,
    /// The edits of operators that are in progress.
    pub edits: TaskTracker,
}

/// A check whose decision comes later. [`App::finish_check`] waits for it.
#[must_use]
pub struct PendingCheck {
    /// The decision.
    pub future: DecideFuture,
    /// When it began, if it is timed.
    pub start: Option<Timestamp>,
}

impl App {
    /// Creates the state for an engine.
    pub fn new(engine: ServerEngine) -> Self {
        Self {
            engine,
            metrics: Metrics::default(),
            denials: DenialLog::default(),
            drain: Drain::new(),
            status: Status::new(),
            reloads: ReloadHandle::new(),
            failed_logins: FailedLogins::default(),
            negative_hits: NegativeHits::default(),
            fleet: None,
            lease_store: None,
            ratelimit_headers: HeaderDialect::default(),
            unknown_domains: UnknownDomains::default(),
            connections_memory: Arc::new(ConnectionsMemory::unbounded()),
            load_options: LoadOptions::default(),
            stored_rules: None,
            edits: TaskTracker::new(),
        }
    }

    /// Creates an engine with these rules over a memory store, and its state.
    pub fn in_memory(domains: Vec<Domain>) -> Result<Self, RulesetError> {
        let store = NodeStore::Local(Arc::new(MemoryStore::bounded(MEMORY_BYTES_DEFAULT)));
        Ok(Self::new(Engine::with_store(domains, store, SystemClock::new())?))
    }

    /// Adds the shared store of the engine, for metrics and health.
    #[must_use]
    pub fn with_fleet(self, fleet: Fleet) -> Self {
        Self { fleet: Some(fleet), ..self }
    }

    /// Sets what is counted by descriptor. Resets all counters.
    #[must_use]
    pub fn with_descriptor_metrics(self, descriptors: DescriptorMetrics) -> Self {
        Self { metrics: Metrics::new(descriptors), ..self }
    }

    /// Bounds the memory of connections and of the requests that wait.
    #[must_use]
    pub fn with_connections_memory(self, memory: ConnectionsMemory) -> Self {
        let engine = self.engine.with_waiters_max(memory.waiters_max());
        Self { engine, connections_memory: Arc::new(memory), ..self }
    }

    /// Replaces the denial log.
    #[must_use]
    pub fn with_denials(self, denials: DenialLog) -> Self {
        Self { denials, ..self }
    }

    /// Decides a request. It waits only if a rule with the action `delay` delays it or a shared store is asked.
    ///
    /// The first poll decides most requests. If the future is dropped while it waits, the request leaves its queue and
    /// has charged nothing. But if a shared store was asked, the charge may have been made.
    ///
    /// The units that a check takes from a concurrency limit cannot be released. They are held for the limit's ttl.
    pub async fn check(
        &self,
        protocol: Protocol,
        request: &Request<'_>,
    ) -> Result<DecideOutput, EngineError> {
        self.check_at(protocol, request, None).await
    }

    /// As [`check`](Self::check), at the instant of a [`SharedInstant`], if that is possible.
    pub async fn check_at(
        &self,
        protocol: Protocol,
        request: &Request<'_>,
        at: Option<Timestamp>,
    ) -> Result<DecideOutput, EngineError> {
        let start = self.timing_start();
        let future = self.engine.decide_by(request, DecideOptions { at, is_timed: start.is_some() });
        self.finish(protocol, request, future, start).await
    }

    /// Like [`check`](Self::check), but returns a [lease](DecideOutput::lease) on the units of concurrency limits, for
    /// at most `ttl`.
    pub async fn acquire(
        &self,
        protocol: Protocol,
        request: &Request<'_>,
        ttl: Option<Nanos>,
    ) -> Result<DecideOutput, EngineError> {
        let start = self.timing_start();
        let future = match start {
            Some(_) => self.engine.lease_timed(request, ttl),
            None => self.engine.lease(request, ttl),
        };
        let output = self.finish(protocol, request, future, start).await?;
        self.metrics.count_operation("acquire", if output.lease.is_some() { "held" } else { "nothing_held" });
        Ok(output)
    }

    /// As [`check`](Self::check), but passes a decision that is made immediately, as most are, to `then`. It is passed by
    /// reference because it is large. Otherwise returns the decision for [`finish_check`](Self::finish_check).
    #[inline]
    #[allow(clippy::result_large_err, reason = "a box would be an allocation for each request that waits")]
    pub fn check_with<R>(
        &self,
        protocol: Protocol,
        request: &Request<'_>,
        instant: &mut SharedInstant,
        then: impl FnOnce(Result<&DecideOutput, &EngineError>) -> R,
    ) -> Result<R, PendingCheck> {
        let start = self.timing_start();
        let options = DecideOptions { at: instant.get(self), is_timed: start.is_some() };
        let decided = self.engine.decide_with(request, options, |output| {
            self.record(protocol, request, output, start);
            then(output)
        });
        decided.map_err(|future| PendingCheck { future, start })
    }

    /// As [`check_with`](Self::check_with), for a request that memory can decide at once. None if the request may have to
    /// wait, or a shared store decides it: nothing was charged then.
    #[inline]
    pub fn check_at_once<R>(
        &self,
        protocol: Protocol,
        request: &Request<'_>,
        at: Timestamp,
        then: impl FnOnce(Result<&DecideOutput, &EngineError>) -> R,
    ) -> Option<R> {
        let start = self.timing_start();
        let options = DecideOptions { at: Some(at), is_timed: start.is_some() };
        self.engine.decide_at_once(request, options, |output| {
            self.record(protocol, request, output, start);
            then(output)
        })
    }

    /// Waits for a decision, and counts and logs it.
    pub async fn finish_check(
        &self,
        protocol: Protocol,
        request: &Request<'_>,
        pending: PendingCheck,
    ) -> Result<DecideOutput, EngineError> {
        let PendingCheck { future, start } = pending;
        self.finish(protocol, request, future, start).await
    }

    async fn finish(
        &self,
        protocol: Protocol,
        request: &Request<'_>,
        future: DecideFuture,
        start: Option<Timestamp>,
    ) -> Result<DecideOutput, EngineError> {
        let output = match future.try_now() {
            Ok(output) => output,
            Err(future) => future.await,
        };
        self.record(protocol, request, output.as_ref(), start);
        output
    }

    /// Whether counters are in a shared store, which answers later.
    #[inline]
    pub fn has_shared_store(&self) -> bool {
        !self.engine.store().is_local()
    }

    /// Counts a decision that was made without rules (`CL.THROTTLE`).
    #[inline]
    pub fn record_single(&self, checked: CheckedCharge) -> Decision {
        if checked.degraded {
            self.metrics.count_degraded(OnStoreFailure::Local, checked.unreadable_key);
        }
        checked.decision
    }

    /// Answers as [`check`](Self::check) would answer now, but never waits and charges nothing. A peek is not counted
    /// as a decision.
    pub async fn peek(&self, request: &Request<'_>) -> Result<DecideOutput, EngineError> {
        let output = self.engine.peek(request).await;
        self.record_peek(&output);
        output
    }

    /// Counts a peek.
    pub fn record_peek(&self, output: &Result<DecideOutput, EngineError>) {
        self.metrics.count_operation("peek", output.as_ref().err().map_or("done", error_label));
    }

    /// Extends a lease that the request acquired. Without a ttl, the lease keeps its own.
    pub async fn renew(
        &self,
        request: &Request<'_>,
        token: &LeaseToken,
        ttl: Option<Nanos>,
    ) -> Result<Renewal, EngineError> {
        let renewal = self.engine.renew(request, token, ttl).await;
        let result = match &renewal {
            Ok(renewal) => renewal.as_str(),
            Err(error) => error_label(error),
        };
        self.metrics.count_operation("renew", result);
        renewal
    }

    /// Releases a lease that the request acquired.
    pub async fn release(&self, request: &Request<'_>, token: &LeaseToken) -> Result<Release, EngineError> {
        let release = self.engine.release(request, token).await;
        let result = match &release {
            Ok(release) => release.as_str(),
            Err(error) => error_label(error),
        };
        self.metrics.count_operation("release", result);
        release
    }

    /// Refunds units that a request was charged but did not use.
    pub async fn refund(&self, request: &Request<'_>) -> Result<(), EngineError> {
        self.refund_by(request, None).await
    }

    /// Like [`refund`](Self::refund), with the deadline of the decision that it belongs to.
    pub async fn refund_by(
        &self,
        request: &Request<'_>,
        deadline: Option<Timestamp>,
    ) -> Result<(), EngineError> {
        self.record_operation("refund", self.engine.refund_with_deadline(request, None, deadline).await)
    }

    /// Resets the counters of these limits, which must be of these rules.
    pub async fn reset(&self, rules: ActiveRules, limits: MatchedLimits) -> Result<(), EngineError> {
        self.record_operation("reset", self.engine.reset_limits(rules, limits).await)
    }

    /// Explains what [`check`](Self::check) would answer now, without waiting.
    pub async fn explain(&self, request: &Request<'_>) -> Result<Explanation, EngineError> {
        self.record_operation("explain", self.engine.explain(request).await)
    }

    /// All metrics in Prometheus' text format. The content type is
    /// [`metrics::CONTENT_TYPE`](super::metrics::CONTENT_TYPE).
    pub fn metrics_page(&self) -> String {
        self.metrics.page(self)
    }

    /// The start time of this request if it is one of the sampled ones, see [`Metrics::is_timed`].
    #[inline]
    fn timing_start(&self) -> Option<Timestamp> {
        self.metrics.is_timed().then(|| self.engine.clock().now())
    }

    /// Counts and logs a decision.
    #[inline]
    pub fn record(
        &self,
        protocol: Protocol,
        request: &Request<'_>,
        output: Result<&DecideOutput, &EngineError>,
        start: Option<Timestamp>,
    ) {
        let output = match output {
            Ok(output) => output,
            Err(error) => return self.metrics.count_rejected_request(protocol, error_label(error)),
        };
        let now = || self.engine.clock().now();
        let has_rules = || output.answer.is_domain_known;
        self.metrics.count_decision(protocol, request.domain, &output.answer, has_rules);
        self.metrics.count_descriptors(request, &output.answer);
        if !output.answer.is_domain_known {
            self.record_unknown_domain(protocol, request.domain, &output.answer);
        }
        if output.answer.degraded {
            let answer = &output.answer;
            self.metrics.count_degraded(fleet::failure_policy(answer), answer.unreadable_key);
        }
        if let (Some(start), Some(stages)) = (start, output.stages) {
            let waited_ns = u64::try_from(output.waited.get()).unwrap_or(u64::MAX);
            let took_ns = now().as_nanos().saturating_sub(start.as_nanos());
            self.metrics.observe_times(
                protocol,
                DecisionTimes { decision_ns: took_ns.saturating_sub(waited_ns), stages },
            );
        }
        self.denials.log(protocol, request, &output.answer, now);
    }

    #[cold]
    fn record_unknown_domain(&self, protocol: Protocol, domain: &str, answer: &Answer) {
        self.metrics.count_unknown_domain(protocol);
        let what = if answer.kind.passes() { "are not limited" } else { "are denied" };
        self.unknown_domains.warn(domain, answer.rules(), what);
    }

    fn record_operation<T>(
        &self,
        operation: &'static str,
        result: Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        self.metrics.count_operation(operation, result.as_ref().err().map_or("done", error_label));
        result
    }
}

/// The label of an error in metrics.
fn error_label(error: &EngineError) -> &'static str {
    match error {
        EngineError::Store(failure) => failure.as_str(),
        _ => TOO_MANY_LIMITS,
    }
}
