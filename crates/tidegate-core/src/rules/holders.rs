//! What may hold a lease that a request was given.

use super::Touches;
use super::touches::counters_of;
use crate::{Algorithm, Charge, Counter, Plan, PlanFull};

impl Touches<'_> {
    /// A plan of all that may hold a lease which the request was given: the limits that hold it now, those that are on
    /// their way out, however long ago, and pools, whether it turned to them or not.
    pub fn plan_of_leases(&self) -> Result<Plan<'_>, PlanFull> {
        let mut plan = Plan::new();
        for touch in &self.touches {
            let Some(key) = self.key(touch) else { continue };
            let pool = touch.gate.pool.zip(self.domain).map(|(pool, domain)| &domain.pools[pool].1);
            let own =
                std::iter::once(&touch.gate.main).chain(&touch.gate.beside).map(|lineage| (lineage, key));
            // A pool is everybody's, whatever the key.
            for (lineage, key) in own.chain(pool.map(|pool| (pool, [].as_slice()))) {
                let leases = |counter: &&Counter| matches!(counter.algorithm(), Algorithm::Leases(_));
                for counter in counters_of(lineage).map(|(counter, _)| counter).filter(leases) {
                    plan.add(Charge { key, counter, cost: touch.cost, role: touch.role() })?;
                }
            }
        }
        Ok(plan)
    }
}
