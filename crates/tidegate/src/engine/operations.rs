//! Operations besides deciding, which work with whatever store the engine counts in: its own, or one that a fleet shares.
//!
//! With its own store each is done when it is first polled.

use std::fmt;
use std::time::Duration;

use tidegate_core::rules::{Answer, Request};
use tidegate_core::{Charge, Decision, Nanos, Plan, PlanFull, Role};

use super::explain::explanation;
use super::shared::{Asker, Shared, Want, by_our_clock, settle_plan, stands_in_for, whole};
use super::{Engine, Explanation};
use crate::{Cacheable, Clock, LeaseToken, Release, Renewal, StoreFailure};

/// Why an operation was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unsettled {
    /// The request touches more limits than a plan has room for.
    PlanFull,
    /// The shared store did not answer. It may have been done nevertheless.
    Store(StoreFailure),
}

/// What is wanted of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asking {
    /// That it is charged.
    Charge,
    /// To know what charging it would be answered.
    Look,
}

/// What a limit without rules says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a decision that is not looked at limits nothing"]
pub struct CheckedOne {
    /// The decision.
    pub decision: Decision,
    /// Whether it was made without the shared store, because that did not answer, by this process's share of the limit.
    pub degraded: bool,
}

impl<C: Clock> Engine<C> {
    /// Answers as a check would that does not wait, charges nothing, and hands the answer to `answered`.
    pub async fn peek<R>(
        &self,
        request: &Request<'_>,
        answered: impl FnOnce(&Answer<'_>) -> R,
    ) -> Result<R, Unsettled> {
        self.peek_having_spent(Duration::ZERO, request, answered).await
    }

    /// As [`peek`](Self::peek), if the shared store was asked for something before that this goes with: so much of its budget
    /// is spent.
    pub async fn peek_having_spent<R>(
        &self,
        spent: Duration,
        request: &Request<'_>,
        answered: impl FnOnce(&Answer<'_>) -> R,
    ) -> Result<R, Unsettled> {
        let Some(shared) = &self.shared else { return Ok(answered(&self.in_force().peek(request)?)) };
        let rules = self.rules.load_full();
        let answer = self.look(shared, &rules, request, spent).await?;
        Ok(answered(&answer))
    }

    /// Explains what a check would answer that does not wait, and hands the explanation to `explained`.
    pub async fn explain<R>(
        &self,
        request: &Request<'_>,
        explained: impl FnOnce(&Explanation<'_>) -> R,
    ) -> Result<R, Unsettled> {
        let Some(shared) = &self.shared else { return Ok(explained(&self.in_force().explain(request)?)) };
        let rules = self.rules.load_full();
        let answer = self.look(shared, &rules, request, Duration::ZERO).await?;
        Ok(explained(&explanation(&rules, request, answer)))
    }

    /// Gives back what a request was charged and did not use, as [`InForce::refund`](super::InForce::refund) does.
    ///
    /// In the shared store. What a request was charged while that did not answer stays charged in this process, so who
    /// gives it back afterwards gives back what others used.
    pub async fn refund(&self, request: &Request<'_>) -> Result<(), Unsettled> {
        self.refund_having_spent(Duration::ZERO, request).await
    }

    /// As [`refund`](Self::refund), if the shared store was asked for something before that this goes with: so much of its
    /// budget is spent.
    pub async fn refund_having_spent(&self, spent: Duration, request: &Request<'_>) -> Result<(), Unsettled> {
        let Some(shared) = &self.shared else { return Ok(self.in_force().refund(request)?) };
        let rules = self.rules.load_full();
        let touches = rules.touched_by(request);
        let refunded =
            of_any(&touches.plan(self.clock.now())?.plan, |plan| shared.having_spent(spent).refund(plan));
        if let Some(refunded) = refunded {
            refunded.await?;
        }
        self.nudge(&touches, self.clock.now());
        Ok(())
    }

    /// Forgets all that the keys of a request used, in the shared store and in this process.
    pub async fn reset(&self, request: &Request<'_>) -> Result<(), Unsettled> {
        self.in_force().reset(request)?;
        let Some(shared) = &self.shared else { return Ok(()) };
        let rules = self.rules.load_full();
        let touches = rules.touched_by(request);
        let reset = of_any(&touches.plan(self.clock.now())?.plan, |plan| shared.store.reset(plan));
        if let Some(reset) = reset {
            reset.await?;
        }
        self.nudge(&touches, self.clock.now());
        Ok(())
    }

    /// Lets a lease that the request acquired last longer, as [`InForce::renew`](super::InForce::renew) does, whichever
    /// store it is of: while the shared store does not answer, leases are of the engine's own.
    pub async fn renew(
        &self,
        request: &Request<'_>,
        token: &LeaseToken,
        ttl: Option<Nanos>,
    ) -> Result<Renewal, Unsettled> {
        let own = self.in_force().renew(request, token, ttl)?;
        let Some(shared) = self.shared.as_ref().filter(|_| own == Renewal::WrongOwner) else {
            return Ok(own);
        };
        let rules = self.rules.load_full();
        let touches = rules.touched_by(request);
        let asked = self.clock.now();
        let renewed = of_any(&touches.plan_of_leases()?, |plan| shared.store.renew(plan, token, ttl));
        let Some(renewed) = renewed else { return Ok(own) };
        Ok(match renewed.await? {
            Renewal::Renewed(lease) => Renewal::Renewed(by_our_clock(lease, asked)),
            other => other,
        })
    }

    /// Gives back what a lease holds that the request acquired, as [`InForce::release`](super::InForce::release) does,
    /// whichever store it is of. Lets whoever waits for it in this process go on.
    pub async fn release(&self, request: &Request<'_>, token: &LeaseToken) -> Result<Release, Unsettled> {
        let own = self.in_force().release(request, token)?;
        let Some(shared) = self.shared.as_ref().filter(|_| own == Release::WrongOwner) else {
            return Ok(own);
        };
        let rules = self.rules.load_full();
        let touches = rules.touched_by(request);
        let released = of_any(&touches.plan_of_leases()?, |plan| shared.store.release(plan, token));
        let Some(released) = released else { return Ok(own) };
        let release = released.await?;
        if release == Release::Released {
            self.nudge(&touches, self.clock.now());
        }
        Ok(release)
    }

    /// Asks a limit that no rule is about. While the shared store does not answer, this process's share of it.
    pub async fn check_one(&self, charge: &Charge<'_>, asking: Asking) -> CheckedOne {
        let want = match asking {
            Asking::Charge => Want::Charge,
            Asking::Look => Want::Look,
        };
        let mut plan = Plan::new();
        // An empty plan has room for one.
        let _ = plan.add(*charge);
        let Some(shared) = &self.shared else {
            if (asking, charge.role) == (Asking::Charge, Role::Enforced) {
                return CheckedOne {
                    decision: self.store.check_one(charge, self.clock.now()),
                    degraded: false,
                };
            }
            return CheckedOne {
                decision: Decision::merge(&stands_in_for(self, &plan, want).0),
                degraded: false,
            };
        };
        let settled = shared.put(&plan, Cacheable::ALL, want, Duration::ZERO).await;
        match settled.and_then(|settled| whole(&plan, settled)) {
            Ok(settled) => CheckedOne { decision: Decision::merge(&settled.outcomes), degraded: false },
            Err(_) => {
                let nodes = shared.store.live_nodes();
                let (outcomes, _) = settle_plan(self, nodes, &plan, want, |_| false);
                CheckedOne { decision: Decision::merge(&outcomes), degraded: true }
            }
        }
    }

    /// What the shared store would answer a check.
    async fn look<'r>(
        &self,
        shared: &Shared,
        rules: &'r tidegate_core::rules::Ruleset,
        request: &Request<'_>,
        spent: Duration,
    ) -> Result<Answer<'r>, Unsettled> {
        let mut asker = Asker::new(self, shared, None).having_spent(spent);
        let touches = asker.touched_by(rules, request);
        let mut answer = asker.settle(&touches, self.clock.now(), Want::Look).await?;
        asker.try_candidates(&touches, &mut answer, Want::Look).await;
        match asker.failure {
            None => Ok(answer),
            Some(failure) => Err(Unsettled::Store(failure)),
        }
    }
}

/// What is asked about a plan, if there is anything in it.
fn of_any<T>(plan: &Plan<'_>, ask: impl FnOnce(&Plan<'_>) -> T) -> Option<T> {
    (!plan.charges().is_empty()).then(|| ask(plan))
}

impl From<PlanFull> for Unsettled {
    fn from(_: PlanFull) -> Self {
        Self::PlanFull
    }
}

impl From<StoreFailure> for Unsettled {
    fn from(failure: StoreFailure) -> Self {
        Self::Store(failure)
    }
}

impl fmt::Display for Unsettled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PlanFull => PlanFull.fmt(f),
            Self::Store(failure) => failure.fmt(f),
        }
    }
}

impl std::error::Error for Unsettled {}
