//! Decides a request of the rate limit service.

use smallvec::SmallVec;
use tidegate::headers::HeaderDialect;
use tidegate::rules::{Answer, AnswerKind, Descriptor, Request};
use tidegate::store::Store as _;
use tidegate::{Clock as _, DecideOutput, EngineError, Nanos, Timestamp};

use super::{
    Annotations, DecideError, DescriptorStatus, DescriptorStatuses, Details, HitsMode, Overall, RlsCode,
    RlsError, RlsRequest, RlsResponse,
};
use crate::serve::app::TOO_MANY_LIMITS;
use crate::serve::settings::NegativeHits;
use crate::serve::{App, Protocol};

/// The result of a request.
pub struct RlsDecision {
    /// The decision on the charged descriptors; `None` if all hits are refunded.
    charged: Option<DecideOutput>,
    refund: RefundResult,
    headers: HeaderDialect,
    /// When it was decided.
    at: Timestamp,
}

/// The result of a refund.
enum RefundResult {
    /// The request refunds nothing.
    None,
    /// The state of the limits after the refund. Boxed, because few requests refund.
    Done(Box<DecideOutput>),
    /// The store did not refund, or did not return the state of the limits.
    Failed(EngineError),
}

/// Decides a request: immediately, unless a rule with the action `delay` or a shared store makes it wait. `at` is the
/// instant of the decision, if it is shared with other requests.
///
/// Hits are refunded after the other descriptors were decided, whatever their decision, and the response has the state
/// of their limits after the refund. So if a client goes away while its request waits, nothing was refunded, and
/// nothing was charged unless a shared store was asked.
///
/// All calls to a shared store for one request have the same deadline. If the store does not refund, it is not asked
/// for the state of the limits, and the response is marked as degraded.
///
/// A request that matches too many limits, with its charges or its refunds, changes nothing: errors come before
/// charges. So does a request with refunds if the setting `negative_hits` refuses them.
pub async fn decide(
    app: &App,
    protocol: Protocol,
    request: &RlsRequest<'_>,
    at: Option<Timestamp>,
) -> Result<RlsDecision, DecideError> {
    let charged = request.engine_descriptors(HitsMode::Charge);
    let engine_request = Request { domain: request.domain(), descriptors: &charged };
    if charged.len() == request.descriptors().len() {
        let output = app.check_at(protocol, &engine_request, at).await?;
        let at = at.filter(|_| output.waited == Nanos::ZERO).unwrap_or_else(|| app.engine.clock().now());
        let (charged, refund) = (Some(output), RefundResult::None);
        return Ok(RlsDecision { charged, refund, headers: app.ratelimit_headers, at });
    }
    if app.negative_hits == NegativeHits::Reject {
        return Err(DecideError::Request(RlsError::NegativeHits));
    }
    let refund = RefundRequest::new(request);
    refund.check_room(app, protocol)?;
    let start = app.engine.clock().now();
    let charged = match charged.is_empty() {
        true => None,
        false => Some(app.check(protocol, &engine_request).await?),
    };
    // The time in a wait queue does not count.
    let waited = charged.as_ref().map_or(Nanos::ZERO, |output| output.waited);
    let deadline = app
        .engine
        .store()
        .timeout()
        .map(|timeout| start.saturating_add(waited).saturating_add(Nanos::new(timeout.as_nanos())));
    let refund = match refund.refund(app, deadline).await {
        Ok(()) => match refund.peek(app, deadline).await {
            Ok(output) => RefundResult::Done(Box::new(output)),
            Err(error) => RefundResult::Failed(error),
        },
        Err(error) => RefundResult::Failed(error),
    };
    Ok(RlsDecision { charged, refund, headers: app.ratelimit_headers, at: app.engine.clock().now() })
}

impl RlsDecision {
    /// What happens to the request. A request that only refunds passes.
    pub fn kind(&self) -> AnswerKind {
        self.charged.as_ref().map_or(AnswerKind::Allowed, |output| output.answer.kind)
    }

    /// The response to the request.
    pub fn response<'r>(&'r self, request: &RlsRequest<'_>, details: Details) -> RlsResponse<'r> {
        let charged = self.charged.as_ref().map(|output| &output.answer);
        if let (Some(answer), RefundResult::None) = (charged, &self.refund) {
            return RlsResponse::new(answer, request, details, self.headers, self.at);
        }
        let (mut overall, mut annotations) = (Overall::OK, Annotations::default());
        let mut statuses =
            DescriptorResults { charged: DescriptorStatuses::new(), refunded: DescriptorStatuses::new() };
        if let Some(answer) = charged {
            overall = Overall::from_answer(answer);
            annotations = Annotations::new(answer, details, self.headers);
            statuses.charged = DescriptorStatus::for_descriptors(answer, request, HitsMode::Charge, self.at);
        }
        match &self.refund {
            RefundResult::None => {}
            RefundResult::Done(output) => {
                statuses.refunded = RefundRequest::statuses(request, &output.answer, self.at);
            }
            RefundResult::Failed(EngineError::Store(_)) => {
                overall = Overall { degraded: true, ..overall };
                annotations.mark_degraded(details);
            }
            RefundResult::Failed(_) => {}
        }
        RlsResponse::from_parts(overall, annotations, merge_statuses(request, &statuses))
    }
}

/// The descriptors whose hits are refunded.
struct RefundRequest<'q> {
    domain: &'q str,
    hits: SmallVec<[Descriptor<'q>; 4]>,
    /// The same with cost 0, to read the state of their limits.
    peeks: SmallVec<[Descriptor<'q>; 4]>,
}

/// The statuses of descriptors, by what was done with their hits.
struct DescriptorResults<'r> {
    charged: DescriptorStatuses<'r>,
    refunded: DescriptorStatuses<'r>,
}

impl<'q> RefundRequest<'q> {
    fn new(request: &'q RlsRequest<'_>) -> Self {
        let hits = request.engine_descriptors(HitsMode::Refund);
        let peeks = hits.iter().map(|descriptor| Descriptor { cost: 0, ..*descriptor }).collect();
        Self { domain: request.domain(), hits, peeks }
    }

    /// Checks that a plan has room for their limits, before anything is charged.
    fn check_room(&self, app: &App, protocol: Protocol) -> Result<(), EngineError> {
        let rules = app.engine.rules();
        let matched = rules.matched_limits(&self.engine_request(&self.peeks));
        let room = matched.plan(&rules, app.engine.clock().now()).map(drop);
        room.map_err(EngineError::from)
            .inspect_err(|_| app.metrics.count_rejected_request(protocol, TOO_MANY_LIMITS))
    }

    /// Refunds the hits, by the active rules.
    ///
    /// This fails if the store does not answer, or if the rules were replaced while the request waited and the new plan
    /// has no room. The failure is counted, and the decision is still answered.
    async fn refund(&self, app: &App, deadline: Option<Timestamp>) -> Result<(), EngineError> {
        app.refund_by(&self.engine_request(&self.hits), deadline).await
    }

    /// The state of their limits. Not counted as a peek, because the server asks and not the client.
    async fn peek(&self, app: &App, deadline: Option<Timestamp>) -> Result<DecideOutput, EngineError> {
        app.engine.peek_with_deadline(&self.engine_request(&self.peeks), deadline).await
    }

    /// The statuses of the refunded descriptors. A refund is never over a limit.
    fn statuses<'r>(request: &RlsRequest<'_>, answer: &'r Answer, now: Timestamp) -> DescriptorStatuses<'r> {
        let mut statuses = DescriptorStatus::for_descriptors(answer, request, HitsMode::Refund, now);
        statuses.iter_mut().for_each(|status| status.code = RlsCode::Ok);
        statuses
    }

    fn engine_request<'d>(&self, descriptors: &'d [Descriptor<'q>]) -> Request<'d>
    where
        'q: 'd,
    {
        Request { domain: self.domain, descriptors }
    }
}

/// The statuses of all descriptors, in the order of the request.
fn merge_statuses<'r>(request: &RlsRequest<'_>, results: &DescriptorResults<'r>) -> DescriptorStatuses<'r> {
    let (mut charged, mut refunded) = (results.charged.iter(), results.refunded.iter());
    let mut next = |hits: HitsMode| match hits {
        HitsMode::Charge => charged.next(),
        HitsMode::Refund => refunded.next(),
    };
    let descriptors = request.descriptors().iter();
    descriptors
        .map(|descriptor| next(descriptor.hits).copied().unwrap_or(DescriptorStatus::NO_LIMIT))
        .collect()
}
