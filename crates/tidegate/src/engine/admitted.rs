//! The guard of a request that the rules admitted, and the error of one that they did not.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::rules::{AnswerKind, Request};
use tidegate_core::{Decision, FencingToken, Op, Outcome, OutcomeKind, Wait};

use super::operations::expect_ready;
use super::{Answer, DecideOutput, Engine, EngineError};
use crate::memory::{Lease, MemoryStore, Release, Renewal};
use crate::rules::OwnedRequest;
use crate::store::{AsyncStore, Store};
use crate::{Clock, Refused, background};

/// A request that the rules admitted. It holds the lease of concurrency limits until it is dropped or released, or
/// until the lease expires.
///
/// Returned by [`Engine::try_acquire`], [`acquire`](Engine::acquire) and [`acquire_within`](Engine::acquire_within).
/// Charges to rates are kept. Over a shared store, dropping it does not block: the lease is released in the background.
#[must_use = "the lease is released when this is dropped"]
pub struct AdmittedRequest<C, S>
where
    C: Clock + Send + Sync + 'static,
    S: Store + 'static,
{
    engine: Engine<C, S>,
    request: RequestCopy,
    answer: Answer,
    decision: Decision,
    waited: Duration,
    lease: Option<Lease>,
}

/// Why the rules did not admit a request, with the answer if there is one.
#[derive(Clone, Debug)]
pub struct RequestRefused {
    error: Refused,
    answer: Option<Box<Answer>>,
}

/// An owned copy of a request.
#[derive(Clone)]
pub(super) struct RequestCopy {
    domain: Box<str>,
    request: OwnedRequest,
}

impl RequestCopy {
    pub fn from_request(request: &Request<'_>) -> Self {
        Self { domain: request.domain.into(), request: OwnedRequest::from_request(request) }
    }

    pub fn with_request<T>(&self, f: impl FnOnce(&Request<'_>) -> T) -> T {
        self.request.with_request(&self.domain, f)
    }
}

impl<C, S> AdmittedRequest<C, S>
where
    C: Clock + Send + Sync + 'static,
    S: Store + 'static,
{
    /// The guard of a request that passes, or the error of one that does not.
    pub(super) fn from_output(
        engine: Engine<C, S>,
        request: RequestCopy,
        decided: Result<DecideOutput, EngineError>,
    ) -> Result<Self, RequestRefused> {
        let decided = decided?;
        let error = decided.refused();
        let DecideOutput { answer, waited, lease, .. } = decided;
        let decision = decision_from_answer(&answer);
        // If the request does not pass, dropping this releases its lease.
        let admitted = Self { engine, request, answer, decision, waited: waited.as_duration(), lease };
        match admitted.answer.kind.passes() {
            true => Ok(admitted),
            false => {
                let error = error.unwrap_or(Refused::from_denied(decision));
                Err(RequestRefused { error, answer: Some(Box::new(admitted.answer.clone())) })
            }
        }
    }

    /// The answer of the rules.
    pub fn answer(&self) -> &Answer {
        &self.answer
    }

    /// The answer as a decision, without rules.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// How long the request waited, from when it was made until it was due.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// The lease. None without a concurrency limit.
    pub fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    /// The fencing token to present to what the lease protects. Zero, which is lower than every real token, if there is
    /// no lease.
    pub fn fencing_token(&self) -> FencingToken {
        self.lease.map_or(FencingToken::default(), |lease| lease.fence)
    }
}

/// Renewal over any store, for a holder that keeps several leases.
#[cfg(feature = "tower")]
impl<C, S> AdmittedRequest<C, S>
where
    C: Clock + Send + Sync + 'static,
    S: Store + 'static,
{
    /// The guard of the lease of a request that was decided.
    pub(crate) fn of_request(
        engine: Engine<C, S>,
        request: &Request<'_>,
        decided: DecideOutput,
    ) -> Result<Self, RequestRefused> {
        Self::from_output(engine, RequestCopy::from_request(request), Ok(decided))
    }

    /// Starts to renew the lease. None without a lease, or if the rules no longer have its limits.
    pub(crate) fn start_renewal(
        &self,
    ) -> Option<impl Future<Output = Result<crate::store::LeaseReply, EngineError>> + Send + 'static> {
        let op = Op::renew(self.lease?.token, None);
        let changing =
            self.request.with_request(|request| self.engine.start_change(request, op, None)).ok()?;
        let engine = self.engine.clone();
        Some(async move { Ok(changing.finish(&engine).await?.lease) })
    }

    /// The lease was renewed.
    pub(crate) fn set_lease(&mut self, lease: Lease) {
        self.lease = Some(lease);
    }
}

/// Over the memory store.
impl<C> AdmittedRequest<C, Arc<MemoryStore>>
where
    C: Clock + Send + Sync + 'static,
{
    /// Renews the lease from now, for as long as the limits allow. Without a lease the result is `AlreadyReleased`.
    pub fn renew(&mut self) -> Renewal {
        let Some(lease) = &mut self.lease else { return Renewal::AlreadyReleased };
        let token = lease.token;
        let renewed = self.request.with_request(|request| self.engine.renew(request, &token, None));
        // Cannot fail: an admitted request has a plan.
        let renewal = renewed.unwrap_or(Renewal::WrongOwner);
        if let Renewal::Renewed(renewed) = renewal {
            *lease = renewed;
        }
        renewal
    }

    /// Releases the lease, and returns whether it was still held.
    pub fn release(mut self) -> Release {
        let Some(lease) = self.lease.take() else { return Release::AlreadyReleased };
        let released = self.request.with_request(|request| self.engine.release(request, &lease.token));
        released.unwrap_or(Release::WrongOwner)
    }
}

/// Over a store that may answer later.
impl<C, S> AdmittedRequest<C, S>
where
    C: Clock + Send + Sync + 'static,
    S: AsyncStore + 'static,
{
    /// Renews the lease from now, for as long as the limits allow. Without a lease the result is `AlreadyReleased`.
    pub async fn renew(&mut self) -> Result<Renewal, EngineError> {
        let Some(lease) = &mut self.lease else { return Ok(Renewal::AlreadyReleased) };
        let op = Op::renew(lease.token, None);
        let changing = self.request.with_request(|request| self.engine.start_change(request, op, None))?;
        let renewal: Renewal = changing.finish(&self.engine).await?.lease.into();
        if let Renewal::Renewed(renewed) = renewal {
            *lease = renewed;
        }
        Ok(renewal)
    }

    /// Releases the lease, and returns whether it was still held.
    pub async fn release(mut self) -> Result<Release, EngineError> {
        let Some(lease) = &self.lease else { return Ok(Release::AlreadyReleased) };
        let op = Op::Release { token: lease.token };
        let changing = self.request.with_request(|request| self.engine.start_change(request, op, None))?;
        // If the store does not answer, `drop` releases the lease once more.
        let released = changing.finish(&self.engine).await?;
        self.lease = None;
        Ok(released.lease.into())
    }
}

impl<C, S> Drop for AdmittedRequest<C, S>
where
    C: Clock + Send + Sync + 'static,
    S: Store + 'static,
{
    fn drop(&mut self) {
        let Some(lease) = self.lease.take() else { return };
        let op = Op::Release { token: lease.token };
        // The release starts here. If the limits are gone by now, there is nothing to release.
        let Ok(changing) = self.request.with_request(|request| self.engine.start_change(request, op, None))
        else {
            return;
        };
        let engine = self.engine.clone();
        if changing.is_done() {
            let _ = expect_ready(changing.finish(&engine));
        } else {
            background::spawn(async move {
                // If the store does not answer, the lease ends with its ttl.
                let _ = changing.finish(&engine).await;
            });
        }
    }
}

impl RequestRefused {
    /// The reason.
    pub fn error(&self) -> &Refused {
        &self.error
    }

    /// The answer of the rules. None if no decision could be made.
    pub fn answer(&self) -> Option<&Answer> {
        self.answer.as_deref()
    }

    /// How long to wait before a retry: never if the request cannot be admitted at all, none if it is not known.
    pub fn retry_after(&self) -> Option<Wait> {
        self.answer.as_ref().map(|answer| answer.retry_after).or_else(|| self.error.retry_after())
    }

    /// The decision that denied the request, if one did.
    pub fn decision(&self) -> Option<Decision> {
        self.answer.as_deref().map(decision_from_answer)
    }
}

impl From<EngineError> for RequestRefused {
    fn from(error: EngineError) -> Self {
        let error = match error {
            EngineError::PlanFull => Refused::PlanFull,
            EngineError::Store(failure) => Refused::Store(failure),
        };
        Self { error, answer: None }
    }
}

impl From<RequestRefused> for Refused {
    fn from(refused: RequestRefused) -> Self {
        refused.error
    }
}

impl fmt::Display for RequestRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)?;
        match self.answer.as_ref().and_then(|answer| answer.decider()) {
            Some(decider) => write!(f, " (by the rule `{}`)", decider.rule.name),
            None => Ok(()),
        }
    }
}

impl std::error::Error for RequestRefused {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.error)
    }
}

/// An answer as a decision, without rules.
fn decision_from_answer(answer: &Answer) -> Decision {
    let kind = if answer.kind.passes() { OutcomeKind::Allowed } else { OutcomeKind::Denied };
    let mut decision = Decision::of_one(Outcome {
        kind,
        remaining: answer.remaining,
        retry_after: answer.retry_after,
        reset_after: answer.reset_after,
        delay: answer.delay,
        over: 0,
    });
    decision.decided_by = answer.decided_by.unwrap_or(0);
    (decision.degraded, decision.unreplicated) = (answer.degraded, answer.unreplicated);
    decision.lease_memory_full = answer.kind == AnswerKind::Unavailable && !answer.degraded;
    decision
}

impl<C, S> fmt::Debug for AdmittedRequest<C, S>
where
    C: Clock + Send + Sync + 'static,
    S: Store + 'static,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdmittedRequest")
            .field("decision", &self.decision)
            .field("lease", &self.lease)
            .field("waited", &self.waited)
            .finish_non_exhaustive()
    }
}
