//! What the engine is about to have: its operations, asked for later. Until it has them.

use tidegate::rules::{Answer, Request};
use tidegate::{Engine, Explanation, LeaseToken, Nanos, Outcome, PlanFull, Release, Renewal, StoreFailure};
use tidegate_core::Charge;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unsettled {
    PlanFull,
    #[allow(dead_code)]
    Store(StoreFailure),
}

impl From<PlanFull> for Unsettled {
    fn from(_: PlanFull) -> Self {
        Self::PlanFull
    }
}

impl std::fmt::Display for Unsettled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::PlanFull => write!(f, "{PlanFull}"),
            Self::Store(failure) => write!(f, "{failure}"),
        }
    }
}

pub struct StandIn<'e>(pub &'e Engine);

impl StandIn<'_> {
    pub async fn peek<R>(
        &self,
        request: &Request<'_>,
        answered: impl FnOnce(Answer<'_>) -> R,
    ) -> Result<R, Unsettled> {
        Ok(answered(self.0.in_force().peek(request)?))
    }
    pub async fn explain<R>(
        &self,
        request: &Request<'_>,
        answered: impl FnOnce(Explanation<'_>) -> R,
    ) -> Result<R, Unsettled> {
        Ok(answered(self.0.in_force().explain(request)?))
    }
    pub async fn renew(
        &self,
        request: &Request<'_>,
        token: &LeaseToken,
        ttl: Option<Nanos>,
    ) -> Result<Renewal, Unsettled> {
        Ok(self.0.in_force().renew(request, token, ttl)?)
    }
    pub async fn release(&self, request: &Request<'_>, token: &LeaseToken) -> Result<Release, Unsettled> {
        Ok(self.0.in_force().release(request, token)?)
    }
    pub async fn refund(&self, request: &Request<'_>) -> Result<(), Unsettled> {
        Ok(self.0.in_force().refund(request)?)
    }
    pub async fn reset(&self, request: &Request<'_>) -> Result<(), Unsettled> {
        Ok(self.0.in_force().reset(request)?)
    }
    pub async fn check_one(&self, charge: &Charge<'_>) -> (Outcome, bool) {
        use tidegate::Clock as _;
        (*self.0.store().check_one(charge, self.0.clock().now()), false)
    }
}

pub fn sharing(engine: Engine, _: std::sync::Arc<dyn tidegate::SharedStore>) -> Engine {
    engine
}
