//! What all listeners share: the engine, and what is counted and logged around each of its decisions.

use std::sync::Arc;

use tidegate::engine::{CheckedCharge, DecideFuture, Explanation};
use tidegate::rules::{Domain, OnStoreFailure, Request, RulesetError};
use tidegate::store::{NodeStore, Store as _};
use tidegate::{
    Clock as _, DecideOutput, Decision, Engine, EngineError, LeaseToken, MEMORY_BYTES_DEFAULT, MemoryStore, Nanos,
    Release, Renewal, SystemClock, Timestamp,
};

use super::drain::Drain;
use super::logs::DenialLog;
use super::metrics::{Metrics, DecisionTimes};
use super::{Fleet, Protocol, ReloadHandle, Status, fleet};

/// Why requests are rejected that touch more limits than a plan has room for.
pub(super) const TOO_MANY_LIMITS: &str = "too_many_limits";

/// The engine of a server: its store is chosen when it starts.
pub type ServerEngine = Engine<SystemClock, NodeStore>;

/// What all listeners share. One for the process.
pub struct App {
    /// Decides.
    pub engine: ServerEngine,
    /// What is counted.
    pub metrics: Metrics,
    /// What is logged of requests.
    pub denials: DenialLog,
    /// Whether the server is about to stop.
    pub drain: Drain,
    /// What is loaded and what failed.
    pub status: Status,
    /// Asks for the rules to be read again.
    pub reloads: ReloadHandle,
    /// The store that a fleet shares, if the engine decides by one.
    pub fleet: Option<Fleet>,
}

impl App {
    /// Around this engine.
    pub fn new(engine: ServerEngine) -> Self {
        Self {
            engine,
            metrics: Metrics::default(),
            denials: DenialLog::default(),
            drain: Drain::new(),
            status: Status::new(),
            reloads: ReloadHandle::new(),
            fleet: None,
        }
    }

    /// Around an engine with these rules over a store in this process.
    pub fn in_memory(domains: Vec<Domain>) -> Result<Self, RulesetError> {
        let store = NodeStore::Local(Arc::new(MemoryStore::bounded(MEMORY_BYTES_DEFAULT)));
        Ok(Self::new(Engine::with_store(domains, store, SystemClock::new())?))
    }

    /// The same, with the store that its engine shares with others: for whoever looks at metrics and health.
    #[must_use]
    pub fn with_fleet(self, fleet: Fleet) -> Self {
        Self { fleet: Some(fleet), ..self }
    }

    /// The same, with denials logged as was set.
    #[must_use]
    pub fn with_denials(self, denials: DenialLog) -> Self {
        Self { denials, ..self }
    }

    /// Decides a request: at once, unless a rule with the action `delay` holds it or a shared store is asked.
    ///
    /// Most requests are decided by the first poll. Dropped while it waits, the request leaves its queue and has charged nothing,
    /// unless a shared store was asked: what that was asked for may be charged.
    ///
    /// What a concurrency limit gives to a check cannot be given back: it is held for the limit's ttl.
    pub async fn check(&self, by: Protocol, request: &Request<'_>) -> Result<DecideOutput, EngineError> {
        let asked_at = self.timing_start();
        self.finish(by, request, self.start_check(request, asked_at), asked_at).await
    }

    /// As [`check`](Self::check), with the [lease](Decided::lease) of what concurrency limits gave, for no longer than
    /// `ttl`.
    pub async fn acquire(
        &self,
        by: Protocol,
        request: &Request<'_>,
        ttl: Option<Nanos>,
    ) -> Result<DecideOutput, EngineError> {
        let asked_at = self.timing_start();
        let deciding = match asked_at {
            Some(_) => self.engine.lease_timed(request, ttl),
            None => self.engine.lease(request, ttl),
        };
        let decided = self.finish(by, request, deciding, asked_at).await?;
        self.metrics.count_operation("acquire", if decided.lease.is_some() { "held" } else { "nothing_held" });
        Ok(decided)
    }

    /// Starts to decide a request that was asked at [`asked_at`](Self::asked_at), which most often is done at once. The caller
    /// [notes](Self::note) the decision: most callers only have to [look](Deciding::as_now) at it.
    #[inline]
    pub fn start_check(&self, request: &Request<'_>, asked_at: Option<Timestamp>) -> DecideFuture {
        match asked_at {
            Some(_) => self.engine.decide_timed(request),
            None => self.engine.decide(request),
        }
    }

    /// Waits for a decision, and counts and logs it.
    pub async fn finish(
        &self,
        by: Protocol,
        request: &Request<'_>,
        deciding: DecideFuture,
        asked_at: Option<Timestamp>,
    ) -> Result<DecideOutput, EngineError> {
        let decided = match deciding.try_now() {
            Ok(decided) => decided,
            Err(deciding) => deciding.await,
        };
        self.record(by, request, &decided, asked_at);
        decided
    }

    /// Whether counters are in a store that others share, which answers later.
    #[inline]
    pub fn has_shared_store(&self) -> bool {
        !self.engine.store().is_local()
    }

    /// Counts a decision of a limit that no rule is about.
    #[inline]
    pub fn record_single(&self, checked: CheckedCharge) -> Decision {
        if checked.degraded {
            self.metrics.count_degraded(OnStoreFailure::Local);
        }
        checked.decision
    }

    /// Answers as [`check`](Self::check) would that does not wait, and charges nothing. It is no decision, and is not
    /// counted as one.
    pub async fn peek(&self, request: &Request<'_>) -> Result<DecideOutput, EngineError> {
        let peeked = self.engine.peek(request).await;
        self.record_peek(&peeked);
        peeked
    }

    /// Counts a peek.
    pub fn record_peek(&self, peeked: &Result<DecideOutput, EngineError>) {
        self.metrics.count_operation("peek", peeked.as_ref().err().map_or("done", error_label));
    }

    /// Lets a lease that the request acquired last longer.
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

    /// Gives back what a lease holds that the request acquired.
    pub async fn release(&self, request: &Request<'_>, token: &LeaseToken) -> Result<Release, EngineError> {
        let release = self.engine.release(request, token).await;
        let result = match &release {
            Ok(release) => release.as_str(),
            Err(error) => error_label(error),
        };
        self.metrics.count_operation("release", result);
        release
    }

    /// Gives back what a request was charged and did not use.
    pub async fn refund(&self, request: &Request<'_>) -> Result<(), EngineError> {
        self.refund_by(request, None).await
    }

    /// The same, until a deadline: that of a decision which this goes with.
    pub async fn refund_by(
        &self,
        request: &Request<'_>,
        deadline: Option<Timestamp>,
    ) -> Result<(), EngineError> {
        self.record_operation("refund", self.engine.refund_with_deadline(request, None, deadline).await)
    }

    /// Forgets all that the keys of a request used.
    pub async fn reset(&self, request: &Request<'_>) -> Result<(), EngineError> {
        self.record_operation("reset", self.engine.reset(request).await)
    }

    /// Explains what [`check`](Self::check) would answer that does not wait.
    pub async fn explain(&self, request: &Request<'_>) -> Result<Explanation, EngineError> {
        self.record_operation("explain", self.engine.explain(request).await)
    }

    /// All metrics, as Prometheus reads them; of the type
    /// [`metrics::CONTENT_TYPE`](super::metrics::CONTENT_TYPE).
    pub fn metrics_page(&self) -> String {
        self.metrics.page(self)
    }

    /// When this request was asked, if its time is to be taken.
    #[inline]
    pub fn timing_start(&self) -> Option<Timestamp> {
        self.metrics.is_timed().then(|| self.engine.clock().now())
    }

    /// Counts and logs a decision.
    #[inline]
    pub fn record(
        &self,
        by: Protocol,
        request: &Request<'_>,
        decided: &Result<DecideOutput, EngineError>,
        asked_at: Option<Timestamp>,
    ) {
        let decided = match decided {
            Ok(decided) => decided,
            Err(error) => return self.metrics.count_rejected_request(by, error_label(error)),
        };
        let now = || self.engine.clock().now();
        let has_rules = || decided.answer.rules().domain(request.domain).is_some();
        self.metrics.count_decision(by, request.domain, &decided.answer, has_rules);
        if decided.answer.degraded {
            self.metrics.count_degraded(fleet::failure_policy(&decided.answer));
        }
        if let (Some(asked_at), Some(stages)) = (asked_at, decided.stages) {
            let waited_ns = u64::try_from(decided.waited.get()).unwrap_or(u64::MAX);
            let took_ns = now().as_nanos().saturating_sub(asked_at.as_nanos());
            self.metrics.observe_times(by, DecisionTimes { decision_ns: took_ns.saturating_sub(waited_ns), stages });
        }
        self.denials.log(by, request, &decided.answer, now);
    }

    fn record_operation<T>(&self, operation: &'static str, result: Result<T, EngineError>) -> Result<T, EngineError> {
        self.metrics.count_operation(operation, result.as_ref().err().map_or("done", error_label));
        result
    }
}

/// Why something was not done, in a word or two.
fn error_label(error: &EngineError) -> &'static str {
    match error {
        EngineError::Store(failure) => failure.as_str(),
        _ => TOO_MANY_LIMITS,
    }
}
