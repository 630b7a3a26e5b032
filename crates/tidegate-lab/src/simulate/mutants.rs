//! Injects a [`Mutation`] between the code under test and the network.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::time::Duration;

use tidegate::store::{Counter, Mode, Op, Reply, StorePolicy};
use tidegate::{Limit, Nanos};

use super::mutation::Mutation;
use super::owned_ask::{OwnedAsk, SimKey};

/// Longer than any run.
const NEVER_ENDS: Duration = Duration::from_secs(3_600);

/// The bug of a run, if it has one.
#[derive(Default)]
pub(super) struct Mutants {
    mutation: Option<Mutation>,
    /// When a server last changed a key, for [`Mutation::RefundWithoutClock`].
    changed_ns: HashMap<SimKey, u64>,
    /// Units that could not be sent, for [`Mutation::OldHitsInNewWindow`].
    unsent: HashMap<(usize, SimKey), u64>,
}

impl Mutants {
    pub(super) fn new(mutation: Option<Mutation>) -> Self {
        Self { mutation, ..Self::default() }
    }

    fn is(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// Whether a node admits a request without asking anything.
    pub(super) fn answers_under_limit(&self, node: usize, entity: u32, nodes: usize) -> bool {
        self.is(Mutation::ForeignKeysAllowed) && entity as usize % nodes != node
    }

    pub(super) fn version_after_reload(&self, version: usize) -> usize {
        if self.is(Mutation::RulesOfFirstNode) { 0 } else { version }
    }

    pub(super) fn policy(&self, policy: StorePolicy) -> StorePolicy {
        if !self.is(Mutation::TtlInSeconds) {
            return policy;
        }
        let longer = |us: NonZeroU32| us.saturating_mul(const { NonZeroU32::new(1_000).unwrap() });
        let mode = match policy.mode {
            Mode::Leased { lease_us } => Mode::Leased { lease_us: longer(lease_us) },
            Mode::Eventual { sync_us, carry } => Mode::Eventual { sync_us: longer(sync_us), carry },
            other => other,
        };
        StorePolicy { mode, ..policy }
    }

    /// A node sends a request.
    pub(super) fn on_send(&mut self, node: usize, ask: &mut OwnedAsk) {
        if let (true, Op::Count { .. }) = (self.is(Mutation::OldHitsInNewWindow), ask.op) {
            for charge in &mut ask.charges {
                charge.cost += self.unsent.remove(&(node, charge.key)).unwrap_or(0);
            }
        }
    }

    /// A request is lost. Returns what the node gets instead of a timeout.
    pub(super) fn on_lost(
        &mut self,
        node: usize,
        ask: &OwnedAsk,
        apply: impl FnOnce(&OwnedAsk) -> Reply,
    ) -> Option<Reply> {
        if !matches!(ask.op, Op::Count { .. }) {
            return None;
        }
        if self.is(Mutation::OldHitsInNewWindow) {
            for charge in &ask.charges {
                *self.unsent.entry((node, charge.key)).or_default() += charge.cost;
            }
        }
        self.is(Mutation::CountsLostInFlush).then(|| {
            let mut nothing = ask.clone();
            nothing.charges.iter_mut().for_each(|charge| charge.cost = 0);
            apply(&nothing)
        })
    }

    /// A server applies a request, when its clock shows `server_ns`.
    pub(super) fn on_apply(&mut self, server_ns: u64, ask: &mut OwnedAsk) {
        match (self.mutation, ask.op) {
            (Some(Mutation::WindowNotPassedOn), _) => {
                for charge in &mut ask.charges {
                    let limit = charge.counter.limit();
                    let endless = Limit::per(limit.rate().limit(), NEVER_ENDS)
                        .algorithm(limit.algorithm_name())
                        .build()
                        .expect("the limit is valid with another window too");
                    charge.counter = Counter::new("endless", usize::from(charge.key.rule), endless);
                }
            }
            (Some(Mutation::CountsDoubled), Op::Count { .. }) => {
                ask.charges.iter_mut().for_each(|charge| charge.cost *= 2);
            }
            (Some(Mutation::OldHitsInNewWindow), Op::Count { .. }) => {
                ask.op = Op::Count { ago: Nanos::ZERO };
            }
            (Some(Mutation::RefundWithoutClock), op) => {
                for charge in &mut ask.charges {
                    let since_ns = self.changed_ns.insert(charge.key, server_ns).unwrap_or(server_ns);
                    if let Op::Refund { .. } = op {
                        let rate = charge.counter.limit().rate();
                        let elapsed_ns = u128::from(server_ns.saturating_sub(since_ns));
                        let again = u128::from(rate.limit()) * elapsed_ns / u128::from(rate.window_ns());
                        charge.cost += u64::try_from(again).unwrap_or(0);
                        ask.op = Op::Refund { charged_at: None };
                    }
                }
            }
            _ => {}
        }
    }

    /// A reply is on its way, `round_trip_ns` after the request was sent.
    pub(super) fn on_reply(&self, ask: &OwnedAsk, reply: &mut Reply, round_trip_ns: u64) {
        if !matches!(ask.op, Op::Check) {
            return;
        }
        let later_ns = match self.mutation {
            Some(Mutation::LeaseAfterWindow) => ask.charges[0].counter.limit().rate().window_ns(),
            Some(Mutation::TimeFromReply) => round_trip_ns,
            _ => return,
        };
        for index in 0..reply.outcomes.len() {
            let reset_ns = reply.outcomes[index].reset_after.get();
            reply.outcomes[index].reset_after = Nanos::new(reset_ns + u128::from(later_ns));
        }
    }
}
