//! Decides requests by rules.

use std::fmt;
use std::sync::Arc;

use tidegate_core::headers::HeaderDialect;
use tidegate_core::problem::ProblemKind;
use tidegate_core::rules::denial::{detail, is_forbidden};
use tidegate_core::rules::headers::{is_shown, policy_name, write_headers};
use tidegate_core::rules::{Answer as CoreAnswer, Descriptor, Request};
use tidegate_core::{AnswerKind, Nanos, Wait};

use super::answer::{Decide, Decided, Deciding, HeaderLines, RequestAnswer};
use super::self_check::SelfCheckHook;
use super::slots::{LeaseGuard, Renewing, SlotKeeper};
use super::{PeerLookup, RequestHead};
use crate::engine::{ActiveRules, AdmittedRequest, DecideFuture, DecideOutput, EngineError};
use crate::identity::Identity;
use crate::memory::{Lease, MemoryStore};
use crate::rules::OwnedRequest;
use crate::store::Store;
use crate::{Engine, SystemClock, Timer};

type Answer = CoreAnswer<ActiveRules>;

/// Enough for the headers of two limits.
const HEADER_BYTES: usize = 160;

/// Decides requests by the rules of one domain. An [`Identity`] makes the attributes of a request: `method`, `path`,
/// `host`, `ip`, `user` and the headers that the rules name.
pub struct ByRules<C = SystemClock, S = Arc<MemoryStore>>
where
    C: Timer + Clone + Send + Sync + 'static,
    S: Store + 'static,
{
    engine: Engine<C, S>,
    domain: Box<str>,
    slots: Arc<SlotKeeper<AdmittedRequest<C, S>, C>>,
    pub(super) identity: Identity,
    pub(super) peer: PeerLookup,
    pub(super) dialect: HeaderDialect,
    pub(super) self_check: Option<SelfCheckHook>,
}

impl<C, S> ByRules<C, S>
where
    C: Timer + Clone + Send + Sync + 'static,
    S: Store + 'static,
{
    pub(super) fn new(engine: Engine<C, S>, domain: impl Into<Box<str>>) -> Self {
        let slots = SlotKeeper::new(engine.clock().clone());
        Self {
            engine,
            domain: domain.into(),
            slots,
            identity: Identity::default(),
            peer: PeerLookup::default(),
            dialect: HeaderDialect::default(),
            self_check: None,
        }
    }

    /// A request that is already decided and holds a lease.
    #[inline(never)]
    fn decide_with_lease(&self, output: DecideOutput, request: &Request<'_>) -> Deciding {
        // Not in a future: one that is dropped before its first poll would leave the lease held until its ttl ends.
        let delay = output.answer.delay;
        self.held(decided_with_slot(&self.engine, &self.slots, self.dialect, request, output), delay)
    }

    #[inline(never)]
    fn decide_later(&self, deciding: DecideFuture, request: &Request<'_>) -> Deciding {
        let (engine, slots, dialect) = (self.engine.clone(), Arc::clone(&self.slots), self.dialect);
        let (domain, request) = (self.domain.clone(), OwnedRequest::from_request(request));
        let self_check = self.self_check.clone();
        Deciding::Later(Box::pin(async move {
            let output = match deciding.await {
                Ok(output) => output,
                Err(error) => return failed(&error),
            };
            let delay = output.answer.delay;
            let mut decided = request.with_request(&domain, |request| {
                if let Some(hook) = &self_check {
                    hook.observe_answer(&output.answer, &request.descriptors[0]);
                }
                decided_with_slot(&engine, &slots, dialect, request, output)
            });
            sleep_for(&engine, delay, &mut decided).await;
            decided
        }))
    }

    /// A decided request, which is held for its delay if it has one.
    #[inline]
    fn held(&self, mut decided: Decided, delay: Nanos) -> Deciding {
        if delay.get() == 0 || !decided.passes() {
            return Deciding::Now(decided);
        }
        let engine = self.engine.clone();
        Deciding::Later(Box::pin(async move {
            sleep_for(&engine, delay, &mut decided).await;
            decided
        }))
    }
}

impl<C, S> Decide for ByRules<C, S>
where
    C: Timer + Clone + Send + Sync + 'static,
    S: Store + 'static,
{
    fn decide(&self, head: &RequestHead<'_>) -> Deciding {
        // A rule may name any header, so the handle must live as long as the attributes.
        let rules = self.engine.rules();
        let named = rules.domain(&self.domain).map(|domain| domain.named_attributes());
        let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
        let http_request = head.http_request(target, self.peer.find(head));
        let now = self.engine.clock().now();
        let attributes = match self.identity.attributes(&http_request, named, now) {
            Ok(attributes) => attributes,
            Err(error) => {
                return Deciding::Now(Decided::refused(
                    ProblemKind::BadRequest,
                    Wait::NEVER,
                    error.to_string(),
                ));
            }
        };
        if let Some(hook) = &self.self_check {
            hook.observe_headers(&self.identity, head.headers);
        }
        let entries = attributes.entries();
        let descriptors = [Descriptor::new(&entries, 1)];
        let request = Request { domain: &self.domain, descriptors: &descriptors };
        let deciding = self.engine.lease(&request, None);
        if let (Some(hook), Some(Ok(output))) = (&self.self_check, deciding.as_now()) {
            hook.observe_answer(&output.answer, &descriptors[0]);
        }
        match deciding.as_now() {
            None => self.decide_later(deciding, &request),
            Some(Err(error)) => Deciding::Now(failed(error)),
            Some(Ok(output)) if output.lease.is_none() => {
                self.held(decided(output, self.dialect), output.answer.delay)
            }
            Some(Ok(_)) => match deciding.try_now() {
                Ok(Ok(output)) => self.decide_with_lease(output, &request),
                Ok(Err(error)) => Deciding::Now(failed(&error)),
                Err(deciding) => self.decide_later(deciding, &request),
            },
        }
    }
}

/// Holds a request for the delay of its answer, which is the delay of a leaky bucket.
async fn sleep_for<C, S>(engine: &Engine<C, S>, delay: Nanos, decided: &mut Decided)
where
    C: Timer + Send + Sync + 'static,
    S: Store + 'static,
{
    if decided.passes() && delay.get() > 0 {
        engine.clock().sleep_until(engine.clock().now().saturating_add(delay)).await;
        let waited = decided.answer.as_ref().map_or(Nanos::ZERO, |answer| answer.waited);
        decided.set_waited(Nanos::new(waited.get() + delay.get()));
    }
}

/// The decision of a request, with the slot of its lease if it has one.
fn decided_with_slot<C, S>(
    engine: &Engine<C, S>,
    slots: &Arc<SlotKeeper<AdmittedRequest<C, S>, C>>,
    dialect: HeaderDialect,
    request: &Request<'_>,
    output: DecideOutput,
) -> Decided
where
    C: Timer + Clone + Send + Sync + 'static,
    S: Store + 'static,
{
    let mut decided = decided(&output, dialect);
    if output.lease.is_some() {
        let admitted = AdmittedRequest::of_request(engine.clone(), request, output).ok();
        decided.slot = admitted.and_then(|admitted| slots.hold(admitted));
    }
    decided
}

fn decided(output: &DecideOutput, dialect: HeaderDialect) -> Decided {
    let answer = &output.answer;
    let mut headers = HeaderLines::default();
    if dialect != HeaderDialect::None || !answer.kind.passes() {
        headers.values.reserve(HEADER_BYTES);
        headers.ends = write_headers(&mut headers.values, answer, dialect);
    }
    let is_plain = answer.kind == AnswerKind::Allowed && !answer.degraded;
    let answer = (!is_plain).then(|| Box::new(request_answer(output)));
    Decided { answer, headers, slot: None }
}

#[cold]
fn request_answer(output: &DecideOutput) -> RequestAnswer {
    let answer = &output.answer;
    let request_answer = match answer.kind {
        AnswerKind::Denied | AnswerKind::Unavailable => refused_answer(answer),
        kind => RequestAnswer::passes(kind, answer.remaining),
    };
    RequestAnswer { degraded: answer.degraded, waited: output.waited, ..request_answer }
}

fn refused_answer(answer: &Answer) -> RequestAnswer {
    let problem = match answer.kind {
        AnswerKind::Unavailable => ProblemKind::Unavailable,
        _ if is_forbidden(answer) => ProblemKind::Forbidden,
        _ => ProblemKind::QuotaExceeded,
    };
    let denying = answer.limits().filter(|limit| limit.kind == AnswerKind::Denied && is_shown(limit));
    let violated_policies = denying.map(|limit| policy_name(&limit).to_string().into()).collect();
    RequestAnswer { violated_policies, ..RequestAnswer::refused(problem, answer.retry_after, detail(answer)) }
}

/// A request that falls under too many limits, or that the store failed to decide.
#[cold]
fn failed(error: &EngineError) -> Decided {
    Decided::refused(ProblemKind::Unavailable, Wait::NEVER, error.to_string())
}

impl<C, S> LeaseGuard for AdmittedRequest<C, S>
where
    C: Timer + Send + Sync + 'static,
    S: Store + 'static,
{
    fn lease(&self) -> Option<Lease> {
        AdmittedRequest::lease(self).copied()
    }

    fn start_renewal(&self) -> Option<Renewing> {
        let renewing = AdmittedRequest::start_renewal(self)?;
        Some(Box::pin(async move { renewing.await.ok() }))
    }

    fn set_lease(&mut self, lease: Lease) {
        AdmittedRequest::set_lease(self, lease);
    }
}

/// Clones share their counters and slots.
impl<C, S> Clone for ByRules<C, S>
where
    C: Timer + Clone + Send + Sync + 'static,
    S: Store + 'static,
{
    fn clone(&self) -> Self {
        Self {
            engine: self.engine.clone(),
            domain: self.domain.clone(),
            slots: Arc::clone(&self.slots),
            identity: self.identity.clone(),
            peer: self.peer.clone(),
            dialect: self.dialect,
            self_check: self.self_check.clone(),
        }
    }
}

impl<C, S> fmt::Debug for ByRules<C, S>
where
    C: Timer + Clone + Send + Sync + 'static,
    S: Store + 'static,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByRules")
            .field("domain", &self.domain)
            .field("identity", &self.identity)
            .field("dialect", &self.dialect)
            .finish_non_exhaustive()
    }
}
