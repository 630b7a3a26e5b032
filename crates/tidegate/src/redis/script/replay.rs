//! Replays the plans of a call on the states that the script found, in the same order.

use redis::Value;
use smallvec::SmallVec;
use tidegate_core::{ChargeDecision, Grant, Leases, Nanos, Op, OutcomeKind, TimedCost, Timestamp};

use super::call::{Call, has_same_terms};
use super::key_state::KeyStates;
use super::keys::{ReplayKeys, is_before};
use super::leases;
use super::limit_state::{self, LimitState};
use super::reply::{BadReply, ScriptReply};
use super::term::{NANOS_PER_MICRO, calendar_of};
use crate::leases::grant::GrantPart;
use crate::redis::deny_cache::STATE_HEAP_BYTES_MAX;
use crate::redis::key_name::KeyName;
use crate::redis::plan::{DENY_OP_CODE, FenceChange, NO_OWNER, RedisCharge, RedisPlan, op_code};
use crate::store::LeaseReply;
use crate::{LeaseToken, Outcomes};

/// The result of one plan.
#[derive(Clone, Debug)]
pub(crate) struct PlanReply {
    /// When it was decided, by the clock of the call.
    pub at: Timestamp,
    /// One for each charge of a check, a peek or an acquire. Empty for other ops.
    pub outcomes: Outcomes,
    /// Whether the plan was admitted. For a renewal or a release, whether the lease was found. Refunds and
    /// resets always are.
    pub admitted: OutcomeKind,
    /// What happened to its lease.
    pub lease: LeaseReply,
    /// The states before the plan, if they were requested, or those after a count. A denied check returns them too, unless they are
    /// large, its limits count attempts or leases, or the plan before it was equal and also denied.
    pub states: Option<KeyStates>,
}

/// Why the result of a plan is unknown. The plan changed nothing, unless replay and script differ. But a
/// refund was applied to the keys that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReplayError {
    /// A key holds a value that the script did not write.
    Unreadable {
        /// Its name.
        key: KeyName,
    },
    /// The calendar window of the server's time was not sent with the plan.
    StaleCalendarEdges {
        /// The server's time.
        at: Timestamp,
    },
    /// The replay of this plan, or of an earlier plan with a common key, differs from the script. The plan
    /// may have been charged.
    Mismatch(BadReply),
}

impl Call {
    /// The result of each plan, from the reply to this call.
    pub fn read(&self, reply: Value) -> Result<Vec<Result<PlanReply, ReplayError>>, BadReply> {
        let ScriptReply { states, at, admitted, errors } =
            ScriptReply::read(reply, self.keys().len(), self.plans().len())?;
        let mut replay = Replay { at, keys: ReplayKeys::new(states), errors, mismatched_keys: Vec::new() };
        let mut replies: Vec<Result<PlanReply, ReplayError>> = Vec::with_capacity(self.plans().len());
        let (mut key_indexes, mut before) = (self.key_indexes(), None);
        for (number, plan) in self.plans().iter().enumerate() {
            let (own_indexes, rest) = key_indexes.split_at(plan.charges.len());
            let replayed =
                ReplayedPlan { number, plan, key_indexes: own_indexes, admitted: admitted.get(number) };
            let last_reply = replies.last().and_then(|reply| reply.as_ref().ok());
            let reply = replay.replay_plan(replayed, before.zip(last_reply));
            if let Err(ReplayError::Mismatch(_)) = reply {
                replay.mismatched_keys.extend(own_indexes);
            }
            replies.push(reply);
            (key_indexes, before) = (rest, Some(replayed));
        }
        Ok(replies)
    }
}

struct Replay {
    at: Timestamp,
    keys: ReplayKeys,
    /// Plan and key index of each error that the script reported.
    errors: Vec<(usize, usize)>,
    /// Keys whose state is unknown because the replay of a plan differed from the script. Nearly always
    /// empty.
    mismatched_keys: Vec<u16>,
}

/// A plan, the indexes of its keys, and whether the script admitted it.
#[derive(Clone, Copy)]
struct ReplayedPlan<'c> {
    number: usize,
    plan: &'c RedisPlan,
    key_indexes: &'c [u16],
    admitted: OutcomeKind,
}

/// What to do with a lease.
#[derive(Clone, Copy)]
enum LeaseChange {
    Renew(Option<Nanos>),
    Raise(Option<Nanos>),
    Release,
}

impl Replay {
    fn replay_plan(
        &mut self,
        replayed: ReplayedPlan<'_>,
        before: Option<(ReplayedPlan<'_>, &PlanReply)>,
    ) -> Result<PlanReply, ReplayError> {
        if !self.mismatched_keys.is_empty()
            && replayed.key_indexes.iter().any(|key_index| self.mismatched_keys.contains(key_index))
        {
            return Err(ReplayError::Mismatch(mismatch_error(replayed)));
        }
        match replayed.plan.op {
            Op::Check | Op::Peek | Op::Acquire { .. } | Op::Deny { .. } => {
                self.read_all(replayed)?;
                match before {
                    Some((before, reply)) if replayed.repeats_denial_of(before) => {
                        Ok(self.repeat_denial(replayed, reply))
                    }
                    _ => self.decide(replayed),
                }
            }
            Op::Refund { .. } => self.refund(replayed),
            Op::Count { ago } => self.count(replayed, ago),
            Op::Reset => {
                replayed
                    .charges()
                    .for_each(|(charge, key_index)| self.keys.reset(charge, key_index, self.at));
                Ok(self.undecided_reply(LeaseReply::None))
            }
            Op::Renew { token, ttl } => {
                let change = match replayed.plan.fence {
                    FenceChange::Keep => LeaseChange::Renew(ttl),
                    FenceChange::Raise => LeaseChange::Raise(ttl),
                };
                self.change_lease(replayed, &token, change)
            }
            Op::Release { token } => self.change_lease(replayed, &token, LeaseChange::Release),
            _ => Err(ReplayError::Mismatch(mismatch_error(replayed))),
        }
    }

    /// Decides all charges, then charges all or none, then reports each outcome.
    fn decide(&mut self, replayed: ReplayedPlan<'_>) -> Result<PlanReply, ReplayError> {
        let plan = replayed.plan;
        let timed_cost = |charge: &RedisCharge| TimedCost { now: self.at, cost: charge.cost };
        let kinds: SmallVec<[OutcomeKind; 4]> = self
            .limit_states(replayed)
            .map(|(charge, limit_state)| limit_state.outcome_kind(timed_cost(charge)))
            .collect();
        let roles = plan.charges.iter().map(|charge| charge.role);
        let limits_decision = limit_state::decision_of(kinds.iter().copied().zip(roles));
        let is_counted_denial = op_code(plan) == DENY_OP_CODE;
        if !is_counted_denial && limits_decision != replayed.admitted {
            return Err(ReplayError::Mismatch(mismatch_error(replayed)));
        }
        let decision = if matches!(plan.op, Op::Deny { .. }) { OutcomeKind::Denied } else { limits_decision };
        let states = self.states_to_return(replayed);
        let ttl = if let Op::Acquire { ttl, .. } = plan.op { ttl } else { None };
        let grant_part = limit_state::plan_grant(self.limit_states(replayed), self.at, decision);
        let grant = grant_part.map(|grant_part| grant_part.grant(ttl));
        let is_any_over = decision == OutcomeKind::Denied || kinds.contains(&OutcomeKind::Denied);
        let with_cost = |(charge, kind): (&RedisCharge, &OutcomeKind)| {
            (timed_cost(charge), ChargeDecision { outcome: *kind, decision, role: charge.role, is_any_over })
        };
        let charge_decisions: SmallVec<[(TimedCost, ChargeDecision); 2]> =
            plan.charges.iter().zip(&kinds).map(with_cost).collect();
        let mut outcomes = Outcomes::new();
        for ((charge, key_index), (timed_cost, charge_decision)) in replayed.charges().zip(charge_decisions) {
            outcomes.extend(match plan.op {
                Op::Peek | Op::Deny { .. } if !is_counted_denial => self
                    .keys
                    .limit_state(charge, key_index)
                    .map(|limit_state| limit_state.preview(timed_cost, charge_decision, grant)),
                _ => self
                    .keys
                    .limit_state_mut(charge, key_index)
                    .map(|limit_state| limit_state.charge(timed_cost, charge_decision, grant)),
            });
        }
        let mut lease = LeaseReply::None;
        if let (Some(grant_part), Op::Check | Op::Acquire { .. }) = (grant_part, plan.op) {
            let grant = grant_part.grant(ttl);
            if plan.owner != NO_OWNER {
                lease = leases::held_reply(grant, plan.owner, self.at, grant_part.lease_ttl(ttl));
            }
            for (_, key_index) in replayed.charges().filter(|(charge, _)| charge.cost > 0) {
                self.keys.record_owner(key_index, grant.fencing_token, plan.owner);
            }
        }
        Ok(PlanReply { at: self.at, outcomes, admitted: decision, lease, states })
    }

    /// Repeats the denial of the plan before it: nothing has changed.
    fn repeat_denial(&self, replayed: ReplayedPlan<'_>, before: &PlanReply) -> PlanReply {
        let states = if replayed.plan.returns_states { self.plan_states(replayed) } else { None };
        PlanReply { states, outcomes: before.outcomes.clone(), ..*before }
    }

    /// Refunds every key that can be read: each was charged independently.
    fn refund(&mut self, replayed: ReplayedPlan<'_>) -> Result<PlanReply, ReplayError> {
        let mut unreadable = None;
        for (charge, key_index) in replayed.charges().filter(|(charge, _)| charge.cost > 0) {
            match self.keys.read(charge, key_index) {
                Ok(()) => {
                    let timed_cost = TimedCost { now: self.at, cost: charge.cost };
                    if let Some(limit_state) = self.keys.limit_state_mut(charge, key_index) {
                        limit_state.refund(timed_cost, charge.counts_from);
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

    /// Counts units that were used elsewhere. Returns the states after that.
    fn count(&mut self, replayed: ReplayedPlan<'_>, ago: Nanos) -> Result<PlanReply, ReplayError> {
        self.read_all(replayed)?;
        let micro = u128::from(NANOS_PER_MICRO);
        let from = self.at.saturating_sub(Nanos::new(ago.get() / micro * micro));
        for (charge, key_index) in replayed.charges().filter(|(charge, _)| charge.cost > 0) {
            let timed_cost = TimedCost { now: self.at, cost: charge.cost };
            if let Some(limit_state) = self.keys.limit_state_mut(charge, key_index) {
                limit_state.count_since(timed_cost, from);
            }
        }
        Ok(PlanReply { states: self.plan_states(replayed), ..self.undecided_reply(LeaseReply::None) })
    }

    /// Renews a lease, with a ttl if there is one, or releases it, in all keys that hold it.
    fn change_lease(
        &mut self,
        replayed: ReplayedPlan<'_>,
        token: &LeaseToken,
        change: LeaseChange,
    ) -> Result<PlanReply, ReplayError> {
        self.read_all(replayed)?;
        let at = self.at;
        let parts = self.limit_states(replayed).filter_map(|(charge, limit_state)| match limit_state {
            LimitState::Leases(algorithm, leases) => Some(GrantPart::new(algorithm, leases, charge.role, at)),
            _ => None,
        });
        let grant_part = parts.reduce(GrantPart::merge);
        let mut lease = leases::missing_lease_reply(token, grant_part.map_or(at, GrantPart::instant));
        for key_index in replayed.key_indexes {
            let Some((leases, owners)) = self.keys.leases_mut(*key_index) else { continue };
            let Some(grant) = leases::find_held(leases, owners, token, at) else { continue };
            let (LeaseChange::Renew(ttl) | LeaseChange::Raise(ttl)) = change else {
                leases.release(grant, at);
                lease = LeaseReply::Released;
                if leases.is_empty() && is_before(leases.last_fencing_token(), leases.last_written()) {
                    *leases = Leases::default();
                }
                continue;
            };
            let (Some(grant_part), Some(units)) = (grant_part, leases.release(grant, at)) else { continue };
            let fence = match change {
                LeaseChange::Raise(_) => grant.fencing_token.max(token.grant().fencing_token),
                _ => grant.fencing_token,
            };
            let renewed = Grant { expires: grant_part.grant(ttl).expires, fencing_token: fence };
            leases.acquire(renewed, units, at);
            let owner = token.seal().to_be_bytes();
            self.keys.record_owner(*key_index, fence, owner);
            lease = leases::held_reply(renewed, owner, at, grant_part.lease_ttl(ttl));
        }
        let is_changed = matches!(lease, LeaseReply::Held(_) | LeaseReply::Released);
        if is_changed != (replayed.admitted == OutcomeKind::Allowed) {
            return Err(ReplayError::Mismatch(mismatch_error(replayed)));
        }
        Ok(PlanReply { admitted: replayed.admitted, ..self.undecided_reply(lease) })
    }

    /// Parses all states of a plan.
    fn read_all(&mut self, replayed: ReplayedPlan<'_>) -> Result<(), ReplayError> {
        for (charge, key_index) in replayed.charges() {
            let is_read = self.keys.read(charge, key_index).is_ok();
            let is_refused =
                !self.errors.is_empty() && self.errors.contains(&(replayed.number, usize::from(key_index)));
            if !is_read || is_refused {
                // A state that can be read but that the script rejected is a window outside the edges that
                // were sent.
                let is_elsewhere = is_read && calendar_of(&charge.algorithm).is_some();
                return Err(match is_elsewhere {
                    true => ReplayError::StaleCalendarEdges { at: self.at },
                    false => ReplayError::Unreadable { key: charge.key.clone() },
                });
            }
        }
        Ok(())
    }

    /// The limits and states of a plan whose states were parsed.
    fn limit_states<'a>(
        &'a self,
        replayed: ReplayedPlan<'a>,
    ) -> impl Iterator<Item = (&'a RedisCharge, LimitState<'a>)> {
        replayed
            .charges()
            .filter_map(|(charge, key_index)| Some((charge, self.keys.limit_state(charge, key_index)?)))
    }

    /// The states of a plan, before it changes them, if the reply needs them.
    fn states_to_return(&self, replayed: ReplayedPlan<'_>) -> Option<KeyStates> {
        let is_denied = matches!(replayed.plan.op, Op::Check) && replayed.admitted == OutcomeKind::Denied;
        let is_cacheable = |(charge, limit_state): (&RedisCharge, LimitState<'_>)| match limit_state {
            // A window that is past L denies until it ends, whether Redis counts further attempts or not.
            LimitState::Packed(..) => {
                !charge.algorithm.counts_denied()
                    || limit_state.outcome_kind(TimedCost { now: self.at, cost: 0 }) == OutcomeKind::Denied
            }
            LimitState::UsageLog(_, usage_log) => {
                !charge.algorithm.counts_denied() && usage_log.heap_bytes() <= STATE_HEAP_BYTES_MAX
            }
            LimitState::Leases(..) => false,
        };
        let is_needed =
            replayed.plan.returns_states || is_denied && self.limit_states(replayed).all(is_cacheable);
        if is_needed { self.plan_states(replayed) } else { None }
    }

    fn plan_states(&self, replayed: ReplayedPlan<'_>) -> Option<KeyStates> {
        replayed.key_indexes.iter().map(|key_index| self.keys.state(*key_index).cloned()).collect()
    }

    /// The result of a plan without outcomes.
    fn undecided_reply(&self, lease: LeaseReply) -> PlanReply {
        PlanReply {
            at: self.at,
            outcomes: Outcomes::new(),
            admitted: OutcomeKind::Allowed,
            lease,
            states: None,
        }
    }
}

impl<'c> ReplayedPlan<'c> {
    fn charges(self) -> impl Iterator<Item = (&'c RedisCharge, u16)> {
        self.plan.charges.iter().zip(self.key_indexes.iter().copied())
    }

    /// Whether this plan is denied because the one before it was: both are equal, and that one changed
    /// nothing.
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

/// The replay differs from the script.
fn mismatch_error(replayed: ReplayedPlan<'_>) -> BadReply {
    let limits: Vec<String> = replayed.charges().map(|(charge, _)| format!("{charge:?}")).collect();
    BadReply::new(format!(
        "plan {} was {}, which contradicts the states that were found: {}",
        replayed.number,
        match replayed.admitted {
            OutcomeKind::Allowed => "admitted",
            OutcomeKind::Denied => "denied",
        },
        limits.join(", ")
    ))
}
