//! The orders of a call, played on the states that the script found, one after the other as it did.

use redis::Value;
use smallvec::SmallVec;
use tidegate_core::{TimedCost, Grant, Leases, Nanos, Op, ChargeDecision, Timestamp, OutcomeKind};

use super::call::{Call, has_same_terms};
use super::keys::{ReplayKeys, is_before};
use super::leases;
use super::limit_state::{self, LimitState};
use super::reply::{BadReply, ScriptReply};
use super::key_state::KeyStates;
use super::term::calendar_of;
use crate::grant::GrantPart;
use crate::redis::deny_cache::STATE_HEAP_BYTES_MAX;
use crate::redis::plan::{DENY_OP_CODE, FenceChange, KeyName, NO_OWNER, RedisPlan, RedisCharge, op_code};
use crate::store::LeaseReply;
use crate::{LeaseToken, Outcomes};

/// What became of an order.
#[derive(Clone, Debug)]
pub(in crate::redis) struct PlanReply {
    /// When, by the time of the call.
    pub at: Timestamp,
    /// One for each charge, of an order that is decided: check, peek and acquire.
    pub outcomes: Outcomes,
    /// Whether it passed; of a lease that was to be changed, whether it was there. What is refunded or reset passes.
    pub admitted: OutcomeKind,
    /// What became of its lease.
    pub lease: LeaseReply,
    /// The states before it, of an order that is decided, if they are wanted. Those of a check that was denied are there
    /// too, unless they are large, its limits count attempts or leases, or the order before it was the same and was
    /// denied already.
    pub states: Option<KeyStates>,
}

/// Why it is not known what became of an order. Unless replay and script differ it changed nothing; but a refund was made to
/// the keys that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::redis) enum ReplayError {
    /// What a key holds is nothing that the script wrote.
    Unreadable {
        /// Its name.
        key: KeyName,
    },
    /// A window of a calendar begins now that is not around the time which the order was added for.
    StaleCalendarEdges {
        /// The time that it is.
        at: Timestamp,
    },
    /// It, or an order before it that has a key in common, does not come to what the script said. It may have been charged.
    Mismatch(BadReply),
}

impl Call {
    /// What the reply to this call says of each order.
    pub fn read(&self, reply: Value) -> Result<Vec<Result<PlanReply, ReplayError>>, BadReply> {
        let ScriptReply { states, at, admitted, errors } =
            ScriptReply::read(reply, self.keys().len(), self.plans().len())?;
        let mut replay = Replay { at, keys: ReplayKeys::new(states), errors, mismatched_keys: Vec::new() };
        let mut all: Vec<Result<PlanReply, ReplayError>> = Vec::with_capacity(self.plans().len());
        let (mut places, mut before) = (self.key_indexes(), None);
        for (number, order) in self.plans().iter().enumerate() {
            let (own, others) = places.split_at(order.charges.len());
            let played = ReplayedPlan { number, plan: order, key_indexes: own, admitted: admitted.get(number) };
            let last_seen = all.last().and_then(|seen| seen.as_ref().ok());
            let seen = replay.replay_plan(played, before.zip(last_seen));
            if let Err(ReplayError::Mismatch(_)) = seen {
                replay.mismatched_keys.extend(own);
            }
            all.push(seen);
            (places, before) = (others, Some(played));
        }
        Ok(all)
    }
}

struct Replay {
    at: Timestamp,
    keys: ReplayKeys,
    /// Plans, and the places of keys that the script could not make use of.
    errors: Vec<(usize, usize)>,
    /// Places of keys whose state is not known any more, for an order came out otherwise than the script said. Nearly always
    /// none.
    mismatched_keys: Vec<u16>,
}

/// An order, where its keys are, and whether the script admitted it.
#[derive(Clone, Copy)]
struct ReplayedPlan<'c> {
    number: usize,
    plan: &'c RedisPlan,
    key_indexes: &'c [u16],
    admitted: OutcomeKind,
}

/// What is to become of a lease.
#[derive(Clone, Copy)]
enum LeaseChange {
    Renew(Option<Nanos>),
    Raise(Option<Nanos>),
    Release,
}

impl Replay {
    fn replay_plan(&mut self, played: ReplayedPlan<'_>, before: Option<(ReplayedPlan<'_>, &PlanReply)>) -> Result<PlanReply, ReplayError> {
        if !self.mismatched_keys.is_empty() && played.key_indexes.iter().any(|place| self.mismatched_keys.contains(place)) {
            return Err(ReplayError::Mismatch(mismatch_error(played)));
        }
        match played.plan.op {
            Op::Check | Op::Peek | Op::Acquire { .. } | Op::Deny { .. } => {
                self.read_all(played)?;
                match before {
                    Some((before, seen)) if played.repeats_denial_of(before) => {
                        Ok(self.repeat_denial(played, seen))
                    }
                    _ => self.decide(played),
                }
            }
            Op::Refund { .. } => self.refund(played),
            Op::Reset => {
                played.charges().for_each(|(charge, place)| self.keys.reset(charge, place, self.at));
                Ok(self.undecided_reply(LeaseReply::None))
            }
            Op::Renew { token, ttl } => {
                let change = match played.plan.fence {
                    FenceChange::Keep => LeaseChange::Renew(ttl),
                    FenceChange::Raise => LeaseChange::Raise(ttl),
                };
                self.change_lease(played, &token, change)
            }
            Op::Release { token } => self.change_lease(played, &token, LeaseChange::Release),
            _ => Err(ReplayError::Mismatch(mismatch_error(played))),
        }
    }

    /// Look at all, then charge all or none, then report each.
    fn decide(&mut self, played: ReplayedPlan<'_>) -> Result<PlanReply, ReplayError> {
        let order = played.plan;
        let ask = |charge: &RedisCharge| TimedCost { now: self.at, cost: charge.cost };
        let weighed: SmallVec<[OutcomeKind; 4]> =
            self.limit_states(played).map(|(charge, line)| line.outcome_kind(ask(charge))).collect();
        let roles = order.charges.iter().map(|charge| charge.role);
        let own_fate = limit_state::decision_of(weighed.iter().copied().zip(roles));
        let is_counted_denial = op_code(order) == DENY_OP_CODE;
        if !is_counted_denial && own_fate != played.admitted {
            return Err(ReplayError::Mismatch(mismatch_error(played)));
        }
        let fate = if matches!(order.op, Op::Deny { .. }) { OutcomeKind::Denied } else { own_fate };
        let states = self.states_to_return(played);
        let ttl = if let Op::Acquire { ttl, .. } = order.op { ttl } else { None };
        let grant = limit_state::plan_grant(self.limit_states(played), self.at, fate).map(|part| part.grant(ttl));
        let ruled = |(charge, verdict): (&RedisCharge, &OutcomeKind)| {
            (ask(charge), ChargeDecision { outcome: *verdict, decision: fate, role: charge.role })
        };
        let rulings: SmallVec<[(TimedCost, ChargeDecision); 2]> = order.charges.iter().zip(&weighed).map(ruled).collect();
        let mut outcomes = Outcomes::new();
        for ((charge, place), (ask, ruling)) in played.charges().zip(rulings) {
            outcomes.extend(match order.op {
                Op::Peek | Op::Deny { .. } if !is_counted_denial => {
                    self.keys.limit_state(charge, place).map(|line| line.preview(ask, ruling, grant))
                }
                _ => self.keys.limit_state_mut(charge, place).map(|line| line.charge(ask, ruling, grant)),
            });
        }
        let mut lease = LeaseReply::None;
        if let (Some(grant), Op::Check | Op::Acquire { .. }) = (grant, order.op) {
            if order.owner != NO_OWNER {
                lease = leases::held_reply(grant, order.owner, self.at);
            }
            for (_, place) in played.charges().filter(|(charge, _)| charge.cost > 0) {
                self.keys.record_owner(place, grant.fencing_token, order.owner);
            }
        }
        Ok(PlanReply { at: self.at, outcomes, admitted: fate, lease, states })
    }

    /// What was just denied is denied again in the same words: nothing has changed.
    fn repeat_denial(&self, played: ReplayedPlan<'_>, before: &PlanReply) -> PlanReply {
        let states = if played.plan.returns_states { self.plan_states(played) } else { None };
        PlanReply { states, outcomes: before.outcomes.clone(), ..*before }
    }

    /// Each key was charged for itself, and so it is given back to all that can be read.
    fn refund(&mut self, played: ReplayedPlan<'_>) -> Result<PlanReply, ReplayError> {
        let mut unreadable = None;
        for (charge, place) in played.charges().filter(|(charge, _)| charge.cost > 0) {
            match self.keys.read(charge, place) {
                Ok(()) => {
                    let ask = TimedCost { now: self.at, cost: charge.cost };
                    if let Some(line) = self.keys.limit_state_mut(charge, place) {
                        line.refund(ask, charge.counts_from);
                    }
                }
                Err(_) => unreadable = Some(&charge.key),
            }
        }
        match unreadable {
            Some(key) => Err(ReplayError::Unreadable { key: key.clone() }),
            None => Ok(self.undecided_reply(LeaseReply::None)),
        }
    }

    /// Renews a lease, for a ttl if there is one, or releases it, in all the keys that hold it.
    fn change_lease(
        &mut self,
        played: ReplayedPlan<'_>,
        token: &LeaseToken,
        change: LeaseChange,
    ) -> Result<PlanReply, ReplayError> {
        self.read_all(played)?;
        let at = self.at;
        let parts = self.limit_states(played).filter_map(|(charge, line)| match line {
            LimitState::Leases(one, leases) => Some(GrantPart::new(one, leases, charge.role, at)),
            _ => None,
        });
        let part = parts.reduce(GrantPart::merge);
        let mut lease = leases::missing_lease_reply(token, part.map_or(at, GrantPart::instant));
        for place in played.key_indexes {
            let Some((leases, owners)) = self.keys.leases_mut(*place) else { continue };
            let Some(held) = leases::find_held(leases, owners, token, at) else { continue };
            let (LeaseChange::Renew(ttl) | LeaseChange::Raise(ttl)) = change else {
                leases.release(held, at);
                lease = LeaseReply::Released;
                if leases.is_empty() && is_before(leases.last_fencing_token(), leases.last_written()) {
                    *leases = Leases::default();
                }
                continue;
            };
            let (Some(part), Some(units)) = (part, leases.release(held, at)) else { continue };
            let fence = match change {
                LeaseChange::Raise(_) => held.fencing_token.max(token.grant().fencing_token),
                _ => held.fencing_token,
            };
            let renewed = Grant { expires: part.grant(ttl).expires, fencing_token: fence };
            leases.acquire(renewed, units, at);
            let owner = token.seal().to_be_bytes();
            self.keys.record_owner(*place, fence, owner);
            lease = leases::held_reply(renewed, owner, at);
        }
        let is_changed = matches!(lease, LeaseReply::Held(_) | LeaseReply::Released);
        if is_changed != (played.admitted == OutcomeKind::Allowed) {
            return Err(ReplayError::Mismatch(mismatch_error(played)));
        }
        Ok(PlanReply { admitted: played.admitted, ..self.undecided_reply(lease) })
    }

    /// Makes sure that all states of an order are there.
    fn read_all(&mut self, played: ReplayedPlan<'_>) -> Result<(), ReplayError> {
        for (charge, place) in played.charges() {
            let is_read = self.keys.read(charge, place).is_ok();
            let is_refused =
                !self.errors.is_empty() && self.errors.contains(&(played.number, usize::from(place)));
            if !is_read || is_refused {
                // What can be read, and is of no use to the script, is a window that its edges do not reach.
                let is_elsewhere = is_read && calendar_of(&charge.algorithm).is_some();
                return Err(match is_elsewhere {
                    true => ReplayError::StaleCalendarEdges { at: self.at },
                    false => ReplayError::Unreadable { key: charge.key.clone() },
                });
            }
        }
        Ok(())
    }

    /// The lines of an order whose states are there.
    fn limit_states<'a>(&'a self, played: ReplayedPlan<'a>) -> impl Iterator<Item = (&'a RedisCharge, LimitState<'a>)> {
        played.charges().filter_map(|(charge, place)| Some((charge, self.keys.limit_state(charge, place)?)))
    }

    /// The states of an order, before it changes them, if they are to be kept.
    fn states_to_return(&self, played: ReplayedPlan<'_>) -> Option<KeyStates> {
        let is_denied = matches!(played.plan.op, Op::Check) && played.admitted == OutcomeKind::Denied;
        let is_of_use = |(charge, line): (&RedisCharge, LimitState<'_>)| match line {
            LimitState::Packed(..) => !charge.algorithm.counts_denied(),
            LimitState::Ledger(_, ledger) => {
                !charge.algorithm.counts_denied() && ledger.heap_bytes() <= STATE_HEAP_BYTES_MAX
            }
            LimitState::Leases(..) => false,
        };
        let is_kept = played.plan.returns_states || is_denied && self.limit_states(played).all(is_of_use);
        if is_kept { self.plan_states(played) } else { None }
    }

    fn plan_states(&self, played: ReplayedPlan<'_>) -> Option<KeyStates> {
        played.key_indexes.iter().map(|place| self.keys.state(*place).cloned()).collect()
    }

    /// What became of an order that is not decided.
    fn undecided_reply(&self, lease: LeaseReply) -> PlanReply {
        PlanReply { at: self.at, outcomes: Outcomes::new(), admitted: OutcomeKind::Allowed, lease, states: None }
    }
}

impl<'c> ReplayedPlan<'c> {
    fn charges(self) -> impl Iterator<Item = (&'c RedisCharge, u16)> {
        self.plan.charges.iter().zip(self.key_indexes.iter().copied())
    }

    /// Whether this is denied because the order before it was: the same on the same keys, and it changed nothing.
    fn repeats_denial_of(self, before: Self) -> bool {
        let is_same_op =
            matches!((self.plan.op, before.plan.op), (Op::Check, Op::Check) | (Op::Peek, Op::Peek));
        is_same_op
            && self.admitted == OutcomeKind::Denied
            && before.admitted == OutcomeKind::Denied
            && self.key_indexes == before.key_indexes
            && has_same_terms(self.plan, before.plan)
            && !self.plan.charges.iter().any(|charge| charge.algorithm.counts_denied())
    }
}

/// The replay does not come to what the script said.
fn mismatch_error(played: ReplayedPlan<'_>) -> BadReply {
    let limits: Vec<String> = played.charges().map(|(charge, _)| format!("{charge:?}")).collect();
    BadReply::new(format!(
        "plan {} was {}, which it cannot be by the states that were found: {}",
        played.number,
        match played.admitted {
            OutcomeKind::Allowed => "admitted",
            OutcomeKind::Denied => "denied",
        },
        limits.join(", ")
    ))
}
