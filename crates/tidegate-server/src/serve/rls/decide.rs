//! From a request to its answer.

use smallvec::SmallVec;
use tidegate::rules::{Answer, Descriptor, Request};
use tidegate::store::Store as _;
use tidegate::{Clock as _, Decided, EngineError, Nanos, Timestamp};

use super::{Code, Details, Hits, MarksOf, Overall, RlsRequest, RlsResponse, Status, Statuses};
use crate::serve::app::TOO_MANY_LIMITS;
use crate::serve::{App, Protocol};

/// A request that was decided.
pub struct RlsDecided {
    /// What was charged; none if all hits are given back.
    charged: Option<Decided>,
    refunded: Refunded,
}

/// What became of hits that are given back.
enum Refunded {
    /// There were none.
    None,
    /// How their limits stand now. Boxed, because few requests give hits back.
    Stand(Box<Decided>),
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
pub async fn decide(app: &App, by: Protocol, request: &RlsRequest<'_>) -> Result<RlsDecided, EngineError> {
    let charged = request.for_engine(Hits::Charged);
    let asked = Request { domain: request.domain(), descriptors: &charged };
    if charged.len() == request.descriptors().len() {
        let decided = app.check(by, &asked).await?;
        return Ok(RlsDecided { charged: Some(decided), refunded: Refunded::None });
    }
    let given_back = GivenBack::of(request);
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
    let refunded = match given_back.give(app, deadline).await {
        Ok(()) => match given_back.look(app, deadline).await {
            Ok(stand) => Refunded::Stand(Box::new(stand)),
            Err(error) => Refunded::Failed(error),
        },
        Err(error) => Refunded::Failed(error),
    };
    Ok(RlsDecided { charged, refunded })
}

impl RlsDecided {
    /// What is answered.
    pub fn response<'r>(&'r self, request: &RlsRequest<'_>, details: Details) -> RlsResponse<'r> {
        let charged = self.charged.as_ref().map(|decided| &decided.answer);
        if let (Some(answer), Refunded::None) = (charged, &self.refunded) {
            return RlsResponse::new(answer, request, details);
        }
        let (mut overall, mut marks) = (Overall::OK, MarksOf::default());
        let mut statuses = Answered { charged: Statuses::new(), given_back: Statuses::new() };
        if let Some(answer) = charged {
            (overall, marks) = (Overall::of(answer), MarksOf::answer(answer, details));
            statuses.charged = Status::all(answer, request, Hits::Charged);
        }
        match &self.refunded {
            Refunded::None => {}
            Refunded::Stand(stand) => statuses.given_back = GivenBack::stand(request, &stand.answer),
            Refunded::Failed(EngineError::Store(_)) => {
                overall = Overall { degraded: true, ..overall };
                marks.degrade(details);
            }
            Refunded::Failed(_) => {}
        }
        RlsResponse::of(overall, marks, in_order(request, &statuses))
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
struct Answered<'r> {
    charged: Statuses<'r>,
    given_back: Statuses<'r>,
}

impl<'q> GivenBack<'q> {
    fn of(request: &'q RlsRequest<'_>) -> Self {
        let hits = request.for_engine(Hits::GivenBack);
        let looks = hits.iter().map(|descriptor| Descriptor { cost: 0, ..*descriptor }).collect();
        Self { domain: request.domain(), hits, looks }
    }

    /// Finds out whether a plan has room for their limits, before anything is charged.
    fn check_room(&self, app: &App, by: Protocol) -> Result<(), EngineError> {
        let rules = app.engine.rules();
        let matched = rules.matched_by(&self.asked(&self.looks));
        let room = matched.plan(&rules, app.engine.clock().now()).map(drop);
        room.map_err(EngineError::from).inspect_err(|_| app.metrics.rejected(by, TOO_MANY_LIMITS))
    }

    /// Gives them back, by the active rules.
    ///
    /// There was room for them. If there is none any more, because the rules were replaced while the request waited, or if the store
    /// does not answer, they are not given back, as far as is known, which is counted; the decision stands, and is answered.
    async fn give(&self, app: &App, deadline: Option<Timestamp>) -> Result<(), EngineError> {
        app.refund_by(&self.asked(&self.hits), deadline).await
    }

    /// How their limits stand. The server looks, not the client, so it is not counted.
    async fn look(&self, app: &App, deadline: Option<Timestamp>) -> Result<Decided, EngineError> {
        app.engine.peek_by(&self.asked(&self.looks), deadline).await
    }

    /// What became of them. A descriptor that gives back is not over any limit.
    fn stand<'r>(request: &RlsRequest<'_>, answer: &'r Answer) -> Statuses<'r> {
        let mut statuses = Status::all(answer, request, Hits::GivenBack);
        statuses.iter_mut().for_each(|status| status.code = Code::Ok);
        statuses
    }

    fn asked<'d>(&self, descriptors: &'d [Descriptor<'q>]) -> Request<'d>
    where
        'q: 'd,
    {
        Request { domain: self.domain, descriptors }
    }
}

/// The statuses of all descriptors in the order of the request.
fn in_order<'r>(request: &RlsRequest<'_>, answered: &Answered<'r>) -> Statuses<'r> {
    let (mut charged, mut given_back) = (answered.charged.iter(), answered.given_back.iter());
    let mut next = |hits: Hits| match hits {
        Hits::Charged => charged.next(),
        Hits::GivenBack => given_back.next(),
    };
    let all = request.descriptors().iter();
    all.map(|descriptor| next(descriptor.hits).copied().unwrap_or(Status::UNLIMITED)).collect()
}
