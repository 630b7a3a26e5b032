//! From a request to its answer.

use smallvec::SmallVec;
use tidegate::rules::{Answer, Descriptor, Request};
use tidegate::store::Store as _;
use tidegate::{Clock as _, DecideOutput, EngineError, Nanos, Timestamp};

use super::{RlsCode, Details, HitsMode, Annotations, Overall, RlsRequest, RlsResponse, DescriptorStatus, DescriptorStatuses};
use crate::serve::app::TOO_MANY_LIMITS;
use crate::serve::{App, Protocol};

/// A request that was decided.
pub struct RlsDecision {
    /// What was charged; none if all hits are given back.
    charged: Option<DecideOutput>,
    refund: RefundResult,
}

/// What became of hits that are given back.
enum RefundResult {
    /// There were none.
    None,
    /// How their limits stand now. Boxed, because few requests give hits back.
    Done(Box<DecideOutput>),
    /// The store did not say how they stand, or did not take them back.
    Failed(EngineError),
}

/// Decides a request: at once, unless a rule with the action `delay` holds it or a shared store is asked.
///
/// Hits that are given back are given back once the other descriptors are decided, whatever becomes of those, and are answered
/// with how their limits stand then. Not before: a request that waits, and whose client goes away, has given nothing back; nor
/// charged anything, unless a shared store was asked.
///
/// All that a shared store is asked for a request has one deadline. Once the store did not take something back, it is not asked how
/// that stands, and the answer is marked.
///
/// A request that falls under too many limits, with what it charges or with what it gives back, changes nothing: there is no
/// error once something was charged.
pub async fn decide(app: &App, by: Protocol, request: &RlsRequest<'_>) -> Result<RlsDecision, EngineError> {
    let charged = request.engine_descriptors(HitsMode::Charge);
    let asked = Request { domain: request.domain(), descriptors: &charged };
    if charged.len() == request.descriptors().len() {
        let decided = app.check(by, &asked).await?;
        return Ok(RlsDecision { charged: Some(decided), refund: RefundResult::None });
    }
    let given_back = RefundRequest::new(request);
    given_back.check_room(app, by)?;
    let since = app.engine.clock().now();
    let charged = match charged.is_empty() {
        true => None,
        false => Some(app.check(by, &asked).await?),
    };
    // How long the request waited for its turn does not count.
    let waited = charged.as_ref().map_or(Nanos::ZERO, |decided| decided.waited);
    let deadline = app
        .engine
        .store()
        .timeout()
        .map(|timeout| since.saturating_add(waited).saturating_add(Nanos::new(timeout.as_nanos())));
    let refunded = match given_back.refund(app, deadline).await {
        Ok(()) => match given_back.peek(app, deadline).await {
            Ok(stand) => RefundResult::Done(Box::new(stand)),
            Err(error) => RefundResult::Failed(error),
        },
        Err(error) => RefundResult::Failed(error),
    };
    Ok(RlsDecision { charged, refund: refunded })
}

impl RlsDecision {
    /// What is answered.
    pub fn response<'r>(&'r self, request: &RlsRequest<'_>, details: Details) -> RlsResponse<'r> {
        let charged = self.charged.as_ref().map(|decided| &decided.answer);
        if let (Some(answer), RefundResult::None) = (charged, &self.refund) {
            return RlsResponse::new(answer, request, details);
        }
        let (mut overall, mut marks) = (Overall::OK, Annotations::default());
        let mut statuses = DescriptorResults { charged: DescriptorStatuses::new(), refunded: DescriptorStatuses::new() };
        if let Some(answer) = charged {
            (overall, marks) = (Overall::from_answer(answer), Annotations::new(answer, details));
            statuses.charged = DescriptorStatus::for_descriptors(answer, request, HitsMode::Charge);
        }
        match &self.refund {
            RefundResult::None => {}
            RefundResult::Done(stand) => statuses.refunded = RefundRequest::statuses(request, &stand.answer),
            RefundResult::Failed(EngineError::Store(_)) => {
                overall = Overall { degraded: true, ..overall };
                marks.mark_degraded(details);
            }
            RefundResult::Failed(_) => {}
        }
        RlsResponse::from_parts(overall, marks, merge_statuses(request, &statuses))
    }
}

/// The descriptors whose hits are given back.
struct RefundRequest<'q> {
    domain: &'q str,
    hits: SmallVec<[Descriptor<'q>; 4]>,
    /// The same, to be looked at and not charged.
    peeks: SmallVec<[Descriptor<'q>; 4]>,
}

/// What became of the descriptors, by what was done with their hits.
struct DescriptorResults<'r> {
    charged: DescriptorStatuses<'r>,
    refunded: DescriptorStatuses<'r>,
}

impl<'q> RefundRequest<'q> {
    fn new(request: &'q RlsRequest<'_>) -> Self {
        let hits = request.engine_descriptors(HitsMode::Refund);
        let looks = hits.iter().map(|descriptor| Descriptor { cost: 0, ..*descriptor }).collect();
        Self { domain: request.domain(), hits, peeks: looks }
    }

    /// Finds out whether a plan has room for their limits, before anything is charged.
    fn check_room(&self, app: &App, by: Protocol) -> Result<(), EngineError> {
        let rules = app.engine.rules();
        let matched = rules.matched_limits(&self.engine_request(&self.peeks));
        let room = matched.plan(&rules, app.engine.clock().now()).map(drop);
        room.map_err(EngineError::from).inspect_err(|_| app.metrics.count_rejected_request(by, TOO_MANY_LIMITS))
    }

    /// Gives them back, by the active rules.
    ///
    /// There was room for them. If there is none any more, because the rules were replaced while the request waited, or if the store
    /// does not answer, they are not given back, as far as is known, which is counted; the decision stands, and is answered.
    async fn refund(&self, app: &App, deadline: Option<Timestamp>) -> Result<(), EngineError> {
        app.refund_by(&self.engine_request(&self.hits), deadline).await
    }

    /// How their limits stand. The server looks, not the client, so it is not counted.
    async fn peek(&self, app: &App, deadline: Option<Timestamp>) -> Result<DecideOutput, EngineError> {
        app.engine.peek_with_deadline(&self.engine_request(&self.peeks), deadline).await
    }

    /// What became of them. A descriptor that gives back is not over any limit.
    fn statuses<'r>(request: &RlsRequest<'_>, answer: &'r Answer) -> DescriptorStatuses<'r> {
        let mut statuses = DescriptorStatus::for_descriptors(answer, request, HitsMode::Refund);
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

/// The statuses of all descriptors in the order of the request.
fn merge_statuses<'r>(request: &RlsRequest<'_>, answered: &DescriptorResults<'r>) -> DescriptorStatuses<'r> {
    let (mut charged, mut given_back) = (answered.charged.iter(), answered.refunded.iter());
    let mut next = |hits: HitsMode| match hits {
        HitsMode::Charge => charged.next(),
        HitsMode::Refund => given_back.next(),
    };
    let all = request.descriptors().iter();
    all.map(|descriptor| next(descriptor.hits).copied().unwrap_or(DescriptorStatus::UNLIMITED)).collect()
}
