//! What all listeners share: the engine, and what is counted and logged around each of its decisions.

use std::sync::Arc;
use std::time::Duration;

use tidegate::rules::{Answer, OnStoreFailure, Request};
use tidegate::{
    Asking, Charge, CheckedOne, Clock as _, Decided, Decision, Engine, Explanation, LeaseToken, Nanos,
    PlanFull, Release, Renewal, Timestamp, Unsettled,
};

use super::drain::Drain;
use super::logs::Denials;
use super::metrics::{Metrics, Took};
use super::{Fleet, Protocol, Reloads, Status, fleet};

/// Why requests are rejected that touch more limits than a plan has room for.
pub(super) const TOO_MANY_LIMITS: &str = "too_many_limits";

/// What all listeners share. One for the process.
pub struct App {
    /// Decides.
    pub engine: Arc<Engine>,
    /// What is counted.
    pub metrics: Metrics,
    /// What is logged of requests.
    pub denials: Denials,
    /// Whether the server is about to stop.
    pub drain: Drain,
    /// What is loaded and what failed.
    pub status: Status,
    /// Asks for the rules to be read again.
    pub reloads: Reloads,
    /// The store that a fleet shares, if the engine decides by one.
    pub fleet: Option<Fleet>,
}

impl App {
    /// Around this engine.
    pub fn new(engine: Arc<Engine>) -> Self {
        Self {
            engine,
            metrics: Metrics::default(),
            denials: Denials::default(),
            drain: Drain::new(),
            status: Status::new(),
            reloads: Reloads::new(),
            fleet: None,
        }
    }

    /// The same, with the store that its engine shares with others: for whoever looks at metrics and health.
    #[must_use]
    pub fn with_fleet(self, fleet: Fleet) -> Self {
        Self { fleet: Some(fleet), ..self }
    }

    /// The same, with denials logged as was set.
    #[must_use]
    pub fn with_denials(self, denials: Denials) -> Self {
        Self { denials, ..self }
    }

    /// Decides a request and hands the answer to `answered`: at once, unless a rule with the action `delay` holds it.
    ///
    /// Most requests are decided by the first poll. Dropped while it is held, the request leaves its line and has
    /// charged nothing, unless a store was asked that is not in this process: what that was asked for may be charged.
    ///
    /// What a concurrency limit gives to a check nobody can give back: it is held for the limit's ttl.
    pub async fn check<R>(
        &self,
        by: Protocol,
        request: &Request<'_>,
        answered: impl FnOnce(&Decided<'_>) -> R,
    ) -> Result<R, PlanFull> {
        let asked_at = self.asked_at();
        let deciding = self.engine.decide(request, |decided| {
            self.note(by, request, &decided, asked_at);
            answered(&decided)
        });
        let deciding = if asked_at.is_some() { deciding.timed() } else { deciding };
        deciding.await.inspect_err(|_| self.metrics.rejected(by, TOO_MANY_LIMITS))
    }

    /// As [`check`](Self::check), with the [lease](Decided::lease) of what concurrency limits gave, for no longer than
    /// `ttl`.
    pub async fn acquire<R>(
        &self,
        by: Protocol,
        request: &Request<'_>,
        ttl: Option<Nanos>,
        answered: impl FnOnce(&Decided<'_>) -> R,
    ) -> Result<R, PlanFull> {
        let asked_at = self.asked_at();
        let deciding = self.engine.acquire(request, ttl, |decided| {
            self.note(by, request, &decided, asked_at);
            let held = if decided.lease.is_some() { "held" } else { "nothing_held" };
            self.metrics.operated("acquire", held);
            answered(&decided)
        });
        let deciding = if asked_at.is_some() { deciding.timed() } else { deciding };
        deciding.await.inspect_err(|_| self.metrics.rejected(by, TOO_MANY_LIMITS))
    }

    /// Whether counters are in a store that others share, which answers later.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.engine.shared().is_some()
    }

    /// Decides a charge that no rule is about, by the share of this process while the store does not answer.
    pub async fn check_one(&self, charge: &Charge<'_>) -> Decision {
        let CheckedOne { decision, degraded } = self.engine.check_one(charge, Asking::Charge).await;
        if degraded {
            self.metrics.degraded(OnStoreFailure::Local);
        }
        decision
    }

    /// Answers as [`check`](Self::check) would that does not wait, and charges nothing. It is no decision, and is not
    /// counted as one.
    pub async fn peek<R>(
        &self,
        request: &Request<'_>,
        answered: impl FnOnce(&Answer<'_>) -> R,
    ) -> Result<R, Unsettled> {
        self.operated("peek", self.engine.peek(request, answered).await)
    }

    /// Lets a lease that the request acquired last longer.
    pub async fn renew(
        &self,
        request: &Request<'_>,
        token: &LeaseToken,
        ttl: Option<Nanos>,
    ) -> Result<Renewal, Unsettled> {
        let renewal = self.engine.renew(request, token, ttl).await;
        let result = match &renewal {
            Ok(renewal) => renewal.as_str(),
            Err(unsettled) => why(unsettled),
        };
        self.metrics.operated("renew", result);
        renewal
    }

    /// Gives back what a lease holds that the request acquired.
    pub async fn release(&self, request: &Request<'_>, token: &LeaseToken) -> Result<Release, Unsettled> {
        let release = self.engine.release(request, token).await;
        let result = match &release {
            Ok(release) => release.as_str(),
            Err(unsettled) => why(unsettled),
        };
        self.metrics.operated("release", result);
        release
    }

    /// Gives back what a request was charged and did not use.
    pub async fn refund(&self, request: &Request<'_>) -> Result<(), Unsettled> {
        self.refund_having_spent(Duration::ZERO, request).await
    }

    /// The same for a request that was asked about before, and has spent so much of the time that the store has for it.
    pub async fn refund_having_spent(&self, spent: Duration, request: &Request<'_>) -> Result<(), Unsettled> {
        self.operated("refund", self.engine.refund_having_spent(spent, request).await)
    }

    /// Forgets all that the keys of a request used.
    pub async fn reset(&self, request: &Request<'_>) -> Result<(), Unsettled> {
        self.operated("reset", self.engine.reset(request).await)
    }

    /// Explains what [`check`](Self::check) would answer that does not wait.
    pub async fn explain<R>(
        &self,
        request: &Request<'_>,
        explained: impl FnOnce(&Explanation<'_>) -> R,
    ) -> Result<R, Unsettled> {
        self.operated("explain", self.engine.explain(request, explained).await)
    }

    /// All metrics, as Prometheus reads them; of the type
    /// [`metrics::CONTENT_TYPE`](super::metrics::CONTENT_TYPE).
    pub fn metrics_page(&self) -> String {
        self.metrics.page(self)
    }

    /// When this request was asked, if its time is to be taken.
    fn asked_at(&self) -> Option<Timestamp> {
        self.metrics.is_timed().then(|| self.engine.clock().now())
    }

    /// Counts and logs a decision.
    fn note(&self, by: Protocol, request: &Request<'_>, decided: &Decided<'_>, asked_at: Option<Timestamp>) {
        let now = || self.engine.clock().now();
        let has_rules = || self.engine.in_force().ruleset().domain(request.domain).is_some();
        self.metrics.decided(by, request.domain, &decided.answer, has_rules);
        if decided.answer.degraded {
            self.metrics.degraded(fleet::policy_of(&decided.answer));
        }
        if let (Some(asked_at), Some(stages)) = (asked_at, decided.stages) {
            let waited_ns = u64::try_from(decided.waited.get()).unwrap_or(u64::MAX);
            let took_ns = now().as_nanos().saturating_sub(asked_at.as_nanos());
            self.metrics.took(by, Took { decision_ns: took_ns.saturating_sub(waited_ns), stages });
        }
        self.denials.note(by, request, &decided.answer, now);
    }

    fn operated<T>(&self, operation: &'static str, result: Result<T, Unsettled>) -> Result<T, Unsettled> {
        self.metrics.operated(operation, result.as_ref().err().map_or("done", why));
        result
    }
}

/// Why something was not done, in a word or two.
fn why(unsettled: &Unsettled) -> &'static str {
    match unsettled {
        Unsettled::PlanFull => TOO_MANY_LIMITS,
        Unsettled::Store(failure) => failure.as_str(),
    }
}
