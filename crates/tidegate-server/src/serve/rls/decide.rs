//! From a request to its answer.

use smallvec::SmallVec;
use tidegate::rules::{Answer, Descriptor, Fate, Request};
use tidegate::{Decided, PlanFull};

use super::{Code, Details, Hits, MarksOf, RlsRequest, RlsResponse, Status};
use crate::serve::{App, Protocol};

/// Decides a request and hands the answer to `answered`: at once, unless a rule with the action `delay` holds it.
///
/// Hits that are given back are given back once the other descriptors are decided, whatever becomes of those, and are
/// answered with how their limits stand then. Not before: a request that is held, and whose client goes away, has changed
/// nothing.
pub async fn decide<R>(
    app: &App,
    by: Protocol,
    request: &RlsRequest<'_>,
    details: Details,
    answered: impl FnOnce(&RlsResponse<'_>) -> R,
) -> Result<R, PlanFull> {
    let charged = request.for_engine(Hits::Charged);
    let count = charged.len();
    let asked = Request { domain: request.domain(), descriptors: &charged };
    if count == request.descriptors().len() {
        let answered = |decided: &Decided<'_>| answered(&RlsResponse::new(&decided.answer, count, details));
        return app.check(by, &asked, answered).await;
    }
    if count == 0 {
        return GivenBack::to(app, request)?.stand(app, |stood| {
            let statuses = in_order(request, Answered { charged: &[], given_back: stood });
            answered(&RlsResponse::of(Fate::Allowed, MarksOf::default(), statuses))
        });
    }
    let decided = |decided: &Decided<'_>| {
        let answer = &decided.answer;
        let charged = statuses(answer, count);
        GivenBack::to(app, request)?.stand(app, |stood| {
            let statuses = in_order(request, Answered { charged: &charged, given_back: stood });
            answered(&RlsResponse::of(answer.fate, MarksOf::answer(answer, details), statuses))
        })
    };
    app.check(by, &asked, decided).await?
}

type Statuses<'r> = SmallVec<[Status<'r>; 4]>;

/// The descriptors whose hits were given back, to be looked at and not charged.
struct GivenBack<'q> {
    domain: &'q str,
    looks: SmallVec<[Descriptor<'q>; 4]>,
}

/// What became of the descriptors, by what was done with their hits.
#[derive(Clone, Copy)]
struct Answered<'s, 'r> {
    charged: &'s [Status<'r>],
    given_back: &'s [Status<'r>],
}

impl<'q> GivenBack<'q> {
    fn to(app: &App, request: &'q RlsRequest<'_>) -> Result<Self, PlanFull> {
        let domain = request.domain();
        let mut looks = request.for_engine(Hits::GivenBack);
        app.engine.in_force().refund(&Request { domain, descriptors: &looks })?;
        looks.iter_mut().for_each(|descriptor| descriptor.cost = 0);
        Ok(Self { domain, looks })
    }

    /// How their limits stand. Whoever gives back is not over any.
    fn stand<R>(&self, app: &App, answered: impl FnOnce(&[Status<'_>]) -> R) -> Result<R, PlanFull> {
        let request = Request { domain: self.domain, descriptors: &self.looks };
        app.peek(&request, |answer| {
            let mut statuses = statuses(answer, self.looks.len());
            statuses.iter_mut().for_each(|status| status.code = Code::Ok);
            answered(&statuses)
        })
    }
}

fn statuses<'r>(answer: &Answer<'r>, count: usize) -> Statuses<'r> {
    (0..count).map(|number| Status::of(answer, number)).collect()
}

/// The statuses of all descriptors in the order of the request.
fn in_order<'r>(request: &RlsRequest<'_>, answered: Answered<'_, 'r>) -> Statuses<'r> {
    let (mut charged, mut given_back) = (answered.charged.iter(), answered.given_back.iter());
    let mut next = |hits: Hits| match hits {
        Hits::Charged => charged.next(),
        Hits::GivenBack => given_back.next(),
    };
    let all = request.descriptors().iter();
    all.map(|descriptor| next(descriptor.hits).copied().unwrap_or(Status::UNLIMITED)).collect()
}
