//! Leases by rules: what concurrency limits give is held until it is given back.

use std::cell::Cell;

use tidegate_core::rules::{Answer, Request};
use tidegate_core::{Nanos, PlanFull};

use super::InForce;
use super::in_force::{Hold, Purpose};
use crate::{Clock, Lease, LeaseToken, Release, Renewal};

/// Holding what concurrency limits give.
///
/// ```
/// use tidegate::Engine;
/// use tidegate::rules::{self, Descriptor, Entry, Request};
///
/// let file = "
/// domain: api
/// rules:
///   - name: reports
///     key: [tenant]
///     limits:
///       - { algorithm: concurrency, limit: 1, ttl: 5m }
///       - 100 per hour
/// ";
/// let engine = Engine::new(rules::parse("api.yaml", file)?.domains)?;
/// let entries = [Entry { key: "tenant", value: "7" }];
/// let request = Request { domain: "api", descriptors: &[Descriptor::new(&entries, 1)] };
///
/// let rules = engine.in_force();
/// let (_, lease) = rules.acquire(&request, None)?;
/// assert!(rules.acquire(&request, None)?.1.is_none());
/// let _ = rules.release(&request, &lease.expect("nobody else has it").token)?;
/// assert!(rules.acquire(&request, None)?.1.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<C: Clock> InForce<'_, C> {
    /// Decides a request as [`check`](Self::check) does, and hands out the lease of what it takes from concurrency
    /// limits, of whatever action. There is none if the request does not pass, touches no such limit, or takes nothing
    /// from it. It lasts as long as the shortest ttl of those limits, and no longer than `ttl`, of which a millisecond
    /// is the least.
    ///
    /// Rates that are charged beside stay charged when the lease is given back.
    ///
    /// Does not wait; [`Engine::acquire`](super::Engine::acquire) does.
    pub fn acquire(
        &self,
        request: &Request<'_>,
        ttl: Option<Nanos>,
    ) -> Result<(Answer<'_>, Option<Lease>), PlanFull> {
        let hold = Hold { ttl, lease: Cell::new(None) };
        let answer = self.decide(request, self.now(), Purpose::Hold(&hold))?;
        Ok((answer, hold.lease.get()))
    }

    /// Lets a lease last from now on as long as its limits give, and no longer than `ttl`. The request is the one that
    /// acquired it; its costs do not matter.
    ///
    /// A lease is found by the rules in force, whatever they were when it was acquired: also where its limit counts in
    /// another way now. Of a limit that is gone nothing is held, so nothing is found.
    pub fn renew(
        &self,
        request: &Request<'_>,
        token: &LeaseToken,
        ttl: Option<Nanos>,
    ) -> Result<Renewal, PlanFull> {
        let (touches, now) = (self.ruleset().touched_by(request), self.now());
        Ok(self.engine().store().renew(&touches.plan_of_leases()?, token, now, ttl))
    }

    /// Gives back what a lease holds, and lets whoever waits for it go on. The request is the one that acquired it; its
    /// costs do not matter. It is found as by [`renew`](Self::renew).
    pub fn release(&self, request: &Request<'_>, token: &LeaseToken) -> Result<Release, PlanFull> {
        let (touches, now) = (self.ruleset().touched_by(request), self.now());
        let release = self.engine().store().release(&touches.plan_of_leases()?, token, now);
        if release == Release::Released {
            self.engine().nudge(&touches, now);
        }
        Ok(release)
    }
}
