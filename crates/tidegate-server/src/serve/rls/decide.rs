//! From a request to its answer.

use std::time::Duration;

use smallvec::SmallVec;
use tidegate::rules::{Answer, Descriptor, Request};
use tidegate::{Clock as _, Decided, Nanos, PlanFull, Timestamp, Unsettled};

use super::kept::Kept;
use super::{Code, Details, Hits, Overall, RlsRequest, RlsResponse, Status, Statuses};
use crate::serve::app::TOO_MANY_LIMITS;
use crate::serve::{App, Protocol};

/// Decides a request and hands the answer to `answered`: at once, unless a rule with the action `delay` holds it.
///
/// Hits that are given back are given back once the other descriptors are decided, whatever becomes of those, and are
/// answered with how their limits stand then. Not before: a request that is held, and whose client goes away, has given
/// nothing back; nor charged anything, unless a store was asked that is not in this process.
///
/// All that such a store is asked for a request has one budget of time. Once it did not take something back, it is not asked
/// how that stands, and the answer is marked.
///
/// A request that touches too many limits, be it with what it charges or with what it gives back, changes nothing either:
/// there is no error once something was charged.
pub async fn decide<R>(
    app: &App,
    by: Protocol,
    request: &RlsRequest<'_>,
    details: Details,
    answered: impl FnOnce(&RlsResponse<'_>) -> R,
) -> Result<R, PlanFull> {
    let charged = request.for_engine(Hits::Charged);
    let asked = Request { domain: request.domain(), descriptors: &charged };
    if charged.len() == request.descriptors().len() {
        let answered = |decided: &Decided<'_>| answered(&RlsResponse::new(&decided.answer, request, details));
        return app.check(by, &asked, answered).await;
    }
    let given_back = GivenBack::of(request);
    given_back.check_room(app, by)?;
    let mut budget = Budget { app, since: app.engine.clock().now(), held: Nanos::ZERO };
    let charged = match charged.is_empty() {
        true => Kept::default(),
        false => {
            let keep = |decided: &Decided<'_>| {
                budget.held = decided.waited;
                Kept::of(&decided.answer, request, details)
            };
            app.check(by, &asked, keep).await?
        }
    };
    let answered = |stand: Result<&Answer<'_>, &Unsettled>| {
        let (mut overall, mut marks) = (charged.overall(), charged.marks());
        if let Err(Unsettled::Store(_)) = stand {
            overall = Overall { degraded: true, ..overall };
            marks.degrade(details);
        }
        let stood = stand.map_or_else(|_| Statuses::new(), |answer| GivenBack::stand(request, answer));
        let statuses = in_order(request, &Answered { charged: &charged.statuses(), given_back: &stood });
        answered(&RlsResponse::of(overall, marks, statuses))
    };
    Ok(match given_back.give(&budget).await {
        Ok(()) => given_back.look(&budget, answered).await,
        Err(unsettled) => answered(Err(&unsettled)),
    })
}

/// The time that a store which is not in this process has for all that it is asked for a request.
struct Budget<'a> {
    app: &'a App,
    since: Timestamp,
    /// How long the request was held meanwhile: that is none of the store's.
    held: Nanos,
}

impl Budget<'_> {
    /// How much of it is spent.
    fn spent(&self) -> Duration {
        let asked_since = self.since.saturating_add(self.held);
        let now = self.app.engine.clock().now();
        Duration::from_nanos(now.as_nanos().saturating_sub(asked_since.as_nanos()))
    }
}

/// The descriptors whose hits are given back.
struct GivenBack<'q> {
    domain: &'q str,
    hits: SmallVec<[Descriptor<'q>; 4]>,
    /// The same, to be looked at and not charged.
    looks: SmallVec<[Descriptor<'q>; 4]>,
}

/// What became of the descriptors, by what was done with their hits.
struct Answered<'s, 'r> {
    charged: &'s [Status<'r>],
    given_back: &'s [Status<'r>],
}

impl<'q> GivenBack<'q> {
    fn of(request: &'q RlsRequest<'_>) -> Self {
        let hits = request.for_engine(Hits::GivenBack);
        let looks = hits.iter().map(|descriptor| Descriptor { cost: 0, ..*descriptor }).collect();
        Self { domain: request.domain(), hits, looks }
    }

    /// Finds out whether a plan has room for what they touch, before anything is charged.
    fn check_room(&self, app: &App, by: Protocol) -> Result<(), PlanFull> {
        let room = app.engine.in_force().peek(&self.asked(&self.looks)).map(drop);
        room.inspect_err(|_| app.metrics.rejected(by, TOO_MANY_LIMITS))
    }

    /// Gives them back, by the rules that are now in force.
    ///
    /// There was room for them. If there is none any more, because other rules came into force while the request was held,
    /// or if the store does not answer, they are not given back, as far as is known, which is counted; what was decided
    /// stands, and is answered.
    async fn give(&self, budget: &Budget<'_>) -> Result<(), Unsettled> {
        budget.app.refund_having_spent(budget.spent(), &self.asked(&self.hits)).await
    }

    /// Hands on how their limits stand, or why that cannot be told. It is the server that looks, not the client, so nobody
    /// counts it.
    async fn look<R>(
        &self,
        budget: &Budget<'_>,
        looked: impl FnOnce(Result<&Answer<'_>, &Unsettled>) -> R,
    ) -> R {
        let mut looked = Some(looked);
        let hand = |answer: &Answer<'_>| looked.take().map(|looked| looked(Ok(answer)));
        let engine = &budget.app.engine;
        let peeked = engine.peek_having_spent(budget.spent(), &self.asked(&self.looks), hand).await;
        match (peeked, looked) {
            (Ok(Some(handed)), _) => handed,
            (Err(unsettled), Some(looked)) => looked(Err(&unsettled)),
            _ => unreachable!("it is handed on once"),
        }
    }

    /// What became of them. Whoever gives back is not over any limit.
    fn stand<'r>(request: &RlsRequest<'_>, answer: &Answer<'r>) -> Statuses<'r> {
        let mut statuses = Status::all(answer, request, Hits::GivenBack);
        statuses.iter_mut().for_each(|status| status.code = Code::Ok);
        statuses
    }

    fn asked<'d>(&self, descriptors: &'d [Descriptor<'q>]) -> Request<'d> {
        Request { domain: self.domain, descriptors }
    }
}

/// The statuses of all descriptors in the order of the request.
fn in_order<'r>(request: &RlsRequest<'_>, answered: &Answered<'_, 'r>) -> Statuses<'r> {
    let (mut charged, mut given_back) = (answered.charged.iter(), answered.given_back.iter());
    let mut next = |hits: Hits| match hits {
        Hits::Charged => charged.next(),
        Hits::GivenBack => given_back.next(),
    };
    let all = request.descriptors().iter();
    all.map(|descriptor| next(descriptor.hits).copied().unwrap_or(Status::UNLIMITED)).collect()
}
