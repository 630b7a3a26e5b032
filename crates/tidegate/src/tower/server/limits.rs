//! Decides requests by the limits of a limiter.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::headers::{HeaderDialect, PolicyName};
use tidegate_core::problem::ProblemKind;
use tidegate_core::rules::OnMissingKey;
use tidegate_core::{AnswerKind, Decision, Limit, Timestamp, Wait};

use super::answer::{Decide, Decided, Deciding, FixedValues, HeaderLines, RequestAnswer};
use super::self_check::SelfCheckHook;
use super::slots::{LeaseGuard, Renewing, SlotKeeper};
use super::{KeyExtractor, RequestHead};
use crate::limiter::{AcquireParams, Admitted, LimiterCall, LimiterRef, wait_until_admitted};
use crate::memory::{Lease, MemoryStore};
use crate::store::Store;
use crate::{Limiter, Refused, SystemClock, Timer};

/// Requests without a key share this one, with [`OnMissingKey::Shared`].
const SHARED_KEY: &[u8] = b"\0missing";

/// Decides requests by limits: one [`Limiter`], and a [key](KeyExtractor) for each request.
pub struct ByLimits<K, C = SystemClock, S = Arc<MemoryStore>>
where
    C: Timer + Clone + Send + Sync + 'static,
    S: Store + 'static,
{
    limiter: Arc<Limiter<C, S>>,
    key: K,
    slots: Arc<SlotKeeper<Admitted<'static, C, S>, C>>,
    pub(super) on_missing: OnMissingKey,
    pub(super) max_wait: Option<Duration>,
    headers: Arc<HeaderSettings>,
    pub(super) self_check: Option<SelfCheckHook>,
}

/// How the headers of decisions are written.
#[derive(Debug)]
struct HeaderSettings {
    dialect: HeaderDialect,
    /// For each limit. None if limits expire, because their number is then not fixed either.
    fixed: Vec<Arc<FixedValues>>,
}

impl<K, C, S> ByLimits<K, C, S>
where
    C: Timer + Clone + Send + Sync + 'static,
    S: Store + 'static,
{
    pub(super) fn new(limiter: Arc<Limiter<C, S>>, key: K) -> Self {
        let slots = SlotKeeper::new(limiter.clock().clone());
        let headers = Arc::new(HeaderSettings::new(&limiter, HeaderDialect::default()));
        let on_missing = OnMissingKey::Deny;
        Self { limiter, key, slots, on_missing, max_wait: None, headers, self_check: None }
    }

    pub(super) fn set_dialect(&mut self, dialect: HeaderDialect) {
        self.headers = Arc::new(HeaderSettings::new(&self.limiter, dialect));
    }

    /// A decision that waits, or that a shared store makes.
    #[inline(never)]
    fn decide_later(&self, key: &[u8], now: Timestamp) -> Deciding {
        let (limiter, slots) = (Arc::clone(&self.limiter), Arc::clone(&self.slots));
        let headers = Arc::clone(&self.headers);
        let owned = LimiterRef::Owned(Arc::clone(&limiter));
        let max_wait = self.max_wait;
        let call = max_wait
            .is_none()
            .then(|| LimiterCall::acquire(LimiterRef::Owned(Arc::clone(&limiter)), key, 1, None));
        let params = AcquireParams::new(key, 1);
        Deciding::Later(Box::pin(async move {
            let acquired = match (call, max_wait) {
                (Some(call), _) => call.await,
                (None, Some(max_wait)) => wait_until_admitted(owned, params.with_max_wait(max_wait)).await,
                (None, None) => unreachable!("without a wait there is a call"),
            };
            let admitted = match acquired {
                Ok(admitted) => admitted,
                Err(refused) => return refused_decision(&limiter, &headers, &refused),
            };
            let mut decided = decided(&limiter, &headers, admitted.decision(), now);
            decided.set_waited(admitted.waited().into());
            let delay = admitted.decision().delay;
            decided.slot = slots.hold(admitted);
            // A request that waited in the queue has already been held for its delay.
            if max_wait.is_none() && delay.get() > 0 {
                limiter.clock().sleep_until(now.saturating_add(delay)).await;
                decided.set_waited(delay);
            }
            decided
        }))
    }
}

impl<K, C, S> Decide for ByLimits<K, C, S>
where
    K: KeyExtractor,
    C: Timer + Clone + Send + Sync + 'static,
    S: Store + 'static,
{
    #[inline(always)]
    fn decide(&self, request: &RequestHead<'_>) -> Deciding {
        let now = self.limiter.clock().now();
        let key = self.key.key(request, now);
        if let Some(hook) = &self.self_check {
            if let Some(identity) = self.key.client_address() {
                hook.observe_headers(identity, request.headers);
            }
            key.iter().for_each(|key| hook.observe_limiter_key(key.as_ref()));
        }
        let key = match (&key, self.on_missing) {
            (Some(key), _) => key.as_ref(),
            (None, OnMissingKey::Shared) => SHARED_KEY,
            (None, OnMissingKey::Skip) => {
                return Deciding::Now(Decided { answer: None, headers: HeaderLines::default(), slot: None });
            }
            (None, OnMissingKey::Deny) => {
                let detail = "the request lacks the key of the limit";
                return Deciding::Now(Decided::refused(ProblemKind::QuotaExceeded, Wait::NEVER, detail));
            }
        };
        if let Some(memory) = self.limiter.memory()
            && self.max_wait.is_none()
            && !self.limiter.has_leases(now)
        {
            let decision = self.limiter.check_in(memory, key, 1, now);
            let decided = decided(&self.limiter, &self.headers, &decision, now);
            return match decision.delay.get() {
                0 => Deciding::Now(decided),
                _ => hold(&self.limiter, decided, &decision, now),
            };
        }
        self.decide_later(key, now)
    }
}

/// Holds a request for the delay of its decision.
#[inline(never)]
fn hold<C, S>(
    limiter: &Arc<Limiter<C, S>>,
    mut decided: Decided,
    decision: &Decision,
    now: Timestamp,
) -> Deciding
where
    C: Timer + Send + Sync + 'static,
    S: Store + 'static,
{
    let sleep_until = now.saturating_add(decision.delay);
    decided.set_waited(decision.delay);
    let limiter = Arc::clone(limiter);
    Deciding::Later(Box::pin(async move {
        limiter.clock().sleep_until(sleep_until).await;
        decided
    }))
}

#[inline]
fn decided<C: Timer, S: Store>(
    limiter: &Limiter<C, S>,
    settings: &HeaderSettings,
    decision: &Decision,
    now: Timestamp,
) -> Decided {
    let mut headers = HeaderLines::default();
    if settings.dialect != HeaderDialect::None || !decision.is_allowed() {
        settings.write(&mut headers, limiter, decision, now);
    }
    let answer =
        (!decision.is_allowed() || decision.degraded).then(|| Box::new(answer(limiter, decision, now)));
    Decided { answer, headers, slot: None }
}

impl HeaderSettings {
    fn new<C: Timer, S: Store>(limiter: &Limiter<C, S>, dialect: HeaderDialect) -> Self {
        let limits: Vec<&Limit> = limiter.unchanging_limits().into_iter().flatten().collect();
        let fixed = |decided_by: usize| {
            let mut values = String::new();
            let mut decision = Decision::merge(&[]);
            decision.decided_by = decided_by;
            let ends = decision.write_headers(&mut values, limits.iter().copied(), dialect);
            Arc::new(FixedValues::of(values, &ends))
        };
        Self { dialect, fixed: (0..limits.len()).map(fixed).collect() }
    }

    #[inline(never)]
    fn write<C: Timer, S: Store>(
        &self,
        headers: &mut HeaderLines,
        limiter: &Limiter<C, S>,
        decision: &Decision,
        now: Timestamp,
    ) {
        let HeaderLines { values, ends, fixed } = headers;
        values.reserve(HEADER_BYTES);
        let index = decision.decided_by;
        *fixed = self.fixed.get(index).cloned();
        *ends = match fixed {
            Some(_) => {
                let limit = limiter.limits_at(now).nth(index);
                let name = PolicyName { rule: None, name: limit.and_then(Limit::name), index };
                decision.write_changing_headers(values, name, self.dialect)
            }
            None => decision.write_headers(values, limiter.limits_at(now), self.dialect),
        };
    }
}

/// Enough for the headers of one limit.
const HEADER_BYTES: usize = 48;

#[cold]
fn answer<C: Timer, S: Store>(limiter: &Limiter<C, S>, decision: &Decision, now: Timestamp) -> RequestAnswer {
    if decision.is_allowed() {
        let passes = RequestAnswer::passes(AnswerKind::Allowed, decision.remaining);
        return RequestAnswer { degraded: decision.degraded, ..passes };
    }
    let detail = match decision.retry_after_seconds() {
        Some(seconds) => format!("the limit is exceeded; try again in {seconds} s"),
        None => "the limit never admits a request of this cost".to_owned(),
    };
    let mut answer = RequestAnswer::refused(ProblemKind::QuotaExceeded, decision.retry_after, detail);
    let limit = limiter.limits_at(now).nth(decision.decided_by);
    let name = limit.and_then(|limit| limit.name()).map(str::to_owned);
    answer.violated_policies.push(name.unwrap_or_else(|| (decision.decided_by + 1).to_string()).into());
    answer.degraded = decision.degraded;
    answer
}

/// The answer to a request that was not admitted.
#[cold]
fn refused_decision<C: Timer, S: Store>(
    limiter: &Limiter<C, S>,
    headers: &HeaderSettings,
    refused: &Refused,
) -> Decided {
    match refused {
        Refused::OverLimit(decision) => decided(limiter, headers, decision, limiter.clock().now()),
        Refused::Store(_) | Refused::LeaseMemoryFull | Refused::PlanFull => {
            let retry_after = refused.retry_after().unwrap_or(Wait::NEVER);
            let mut decided = Decided::refused(ProblemKind::Unavailable, retry_after, refused.to_string());
            if let Some(answer) = &mut decided.answer {
                answer.degraded = matches!(refused, Refused::Store(_));
            }
            decided
        }
        _ => {
            let retry_after = refused.retry_after().unwrap_or(Wait::NEVER);
            Decided::refused(ProblemKind::QuotaExceeded, retry_after, refused.to_string())
        }
    }
}

impl<C, S> LeaseGuard for Admitted<'static, C, S>
where
    C: Timer + Send + Sync + 'static,
    S: Store + 'static,
{
    fn lease(&self) -> Option<Lease> {
        Admitted::lease(self).copied()
    }

    fn start_renewal(&self) -> Option<Renewing> {
        let renewing = Admitted::start_renewal(self)?;
        Some(Box::pin(async move { renewing.await.ok() }))
    }

    fn set_lease(&mut self, lease: Lease) {
        Admitted::set_lease(self, lease);
    }
}

/// Clones share their counters and slots.
impl<K, C, S> Clone for ByLimits<K, C, S>
where
    K: Clone,
    C: Timer + Clone + Send + Sync + 'static,
    S: Store + 'static,
{
    fn clone(&self) -> Self {
        Self {
            limiter: Arc::clone(&self.limiter),
            key: self.key.clone(),
            slots: Arc::clone(&self.slots),
            on_missing: self.on_missing,
            max_wait: self.max_wait,
            headers: Arc::clone(&self.headers),
            self_check: self.self_check.clone(),
        }
    }
}

impl<K, C, S> fmt::Debug for ByLimits<K, C, S>
where
    C: Timer + Clone + Send + Sync + 'static,
    S: Store + 'static,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByLimits")
            .field("limiter", &self.limiter)
            .field("on_missing", &self.on_missing)
            .field("max_wait", &self.max_wait)
            .field("dialect", &self.headers.dialect)
            .finish_non_exhaustive()
    }
}
