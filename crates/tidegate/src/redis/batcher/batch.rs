//! The plans of one pipeline, as calls of the script.

use tidegate_core::{Op, OutcomeKind, Timestamp};
use tokio::time::Instant;

use super::{
    BatchKey, CalendarTime, PendingPlan, PendingPlans, PlanFailure, PossibleEffect, ReplyTo, TimedReply,
};
use crate::StoreError;
use crate::redis::connection::{Replication, SendError, SlotCommand};
use crate::redis::deny_cache::{DenialCaching, DenyCache, ReplyTime};
use crate::redis::plan::{NO_OWNER, RedisPlan};
use crate::redis::script::{BadReply, Call, CallTime, PlanReply, ReplayError};
use crate::redis::stats::StoreCounters;
use crate::redis::topology::SentCommands;

/// The plans of one pipeline.
pub(crate) struct Batch {
    calls: Vec<BatchCall>,
}

/// One call, and where the result of each of its plans goes.
struct BatchCall {
    slot: u16,
    call: Call,
    reply_tos: Vec<ReplyTo>,
}

impl Batch {
    /// Groups plans into calls: one call per slot, or more if they do not fit. Plans past their deadline fail
    /// here.
    pub(crate) fn from_pending(pending: PendingPlans, now: Instant, servers_time: Timestamp) -> Self {
        let (mut pending, late): (PendingPlans, PendingPlans) =
            pending.into_iter().partition(|pending_plan| pending_plan.reply_to.deadline > now);
        for pending_plan in late {
            pending_plan.reply_to.send(Err(PlanFailure::not_sent(StoreError::TimedOut)));
        }
        // The sort is stable: of equal plans the oldest stays first.
        pending
            .sort_by_cached_key(|pending_plan| (pending_plan.reply_to.slot, pending_plan.reply_to.batch_key));
        let mut batch = Self { calls: Vec::new() };
        for pending_plan in pending {
            batch.add(pending_plan, servers_time);
        }
        batch
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    pub(crate) fn count_in(&self, counters: &StoreCounters) {
        let batch_keys = |batch_call: &BatchCall| -> Vec<BatchKey> {
            batch_call.reply_tos.iter().map(|reply_to| reply_to.batch_key).collect()
        };
        for batch_call in &self.calls {
            let equal = batch_keys(batch_call).windows(2).filter(|pair| pair[0] == pair[1]).count();
            counters.plans.add(batch_call.reply_tos.len());
            counters.coalesced.add(equal);
        }
        counters.calls.add(self.calls.len());
    }

    pub(crate) fn commands(&self, sha: &str) -> Vec<SlotCommand> {
        self.calls
            .iter()
            .map(|batch_call| SlotCommand { slot: batch_call.slot, command: batch_call.call.command(sha) })
            .collect()
    }

    /// Completes the plans and updates the deny cache. Returns the plans that must be sent again, and the
    /// server's time if it replied.
    pub(crate) fn complete(
        self,
        sent_commands: SentCommands,
        sent: Timestamp,
        deny_cache: &DenyCache,
    ) -> (PendingPlans, Option<Timestamp>) {
        let mut retries = Vec::new();
        let mut time = None;
        let SentCommands { results, replication } = sent_commands;
        let mut replies = results.into_iter();
        for BatchCall { call, reply_tos, .. } in self.calls {
            let reply = replies.next().unwrap_or(Err(SendError::NoReply));
            if let Err(SendError::WriteRefused(reason)) = reply {
                for (plan, reply_to) in call.plans().iter().zip(reply_tos) {
                    without_writes(plan, reply_to, &reason, &mut retries);
                }
                continue;
            }
            let result = reply
                .map_err(send_failure)
                .and_then(|reply| call.read(reply).map_err(|bad| bad_reply_failure(&bad)));
            match result {
                Err(failure) => {
                    reply_tos.into_iter().for_each(|reply_to| reply_to.send(Err(failure.clone())));
                }
                Ok(replies) => {
                    let plans = call.plans();
                    for ((plan, reply_to), reply) in plans.iter().zip(reply_tos).zip(replies) {
                        let at = complete_plan(
                            plan,
                            reply_to,
                            reply,
                            ReplyContext { sent, replication, deny_cache },
                            &mut retries,
                        );
                        time = at.or(time);
                    }
                }
            }
        }
        (retries, time)
    }

    fn add(&mut self, pending_plan: Box<PendingPlan>, servers_time: Timestamp) {
        let PendingPlan { plan, reply_to } = *pending_plan;
        let around = match reply_to.calendar_time {
            CalendarTime::Estimated => servers_time,
            CalendarTime::Reported(time) => time,
        };
        let plan = match self.calls.last_mut().filter(|last| last.slot == reply_to.slot) {
            Some(last) => match last.call.add(plan, around) {
                Ok(()) => return last.reply_tos.push(reply_to),
                Err(plan) => plan,
            },
            None => plan,
        };
        let mut call = Call::new(CallTime::Server);
        match call.add(plan, around) {
            Ok(()) => self.calls.push(BatchCall { slot: reply_to.slot, call, reply_tos: vec![reply_to] }),
            Err(_) => reply_to.send(Err(PlanFailure::not_sent(StoreError::Refused(TOO_LARGE.into())))),
        }
    }
}

const TOO_LARGE: &str = "a plan does not fit in one call (hint: let fewer limits apply to one request)";

/// What all replies of a pipeline have in common.
#[derive(Clone, Copy)]
struct ReplyContext<'a> {
    sent: Timestamp,
    replication: Replication,
    deny_cache: &'a DenyCache,
}

/// Redis refuses all writes. It is asked again whether it would deny the plan.
#[cold]
fn without_writes(plan: &RedisPlan, reply_to: ReplyTo, reason: &str, retries: &mut PendingPlans) {
    match plan.op {
        Op::Check | Op::Acquire { .. } => {
            let plan = RedisPlan { op: Op::Peek, owner: NO_OWNER, ..plan.clone() };
            let reply_to = ReplyTo { write_refusal: Some(reason.into()), ..reply_to };
            retries.push(Box::new(PendingPlan { plan, reply_to }));
        }
        _ => reply_to.send(Err(PlanFailure::not_sent(StoreError::Refused(reason.into())))),
    }
}

fn complete_plan(
    plan: &RedisPlan,
    reply_to: ReplyTo,
    reply: Result<PlanReply, ReplayError>,
    context: ReplyContext<'_>,
    retries: &mut PendingPlans,
) -> Option<Timestamp> {
    match reply {
        Ok(PlanReply { admitted: OutcomeKind::Allowed, at, .. }) if reply_to.write_refusal.is_some() => {
            let reason = reply_to.write_refusal.clone().unwrap_or_default();
            reply_to.send(Err(PlanFailure::not_sent(StoreError::Refused(reason))));
            Some(at)
        }
        Ok(reply) => {
            let time = ReplyTime { server_time: reply.at, sent_at: context.sent };
            update_deny_cache(plan, &reply_to, &reply, time, context.deny_cache);
            // A denial holds whatever replicas have.
            let replication = match reply.admitted {
                OutcomeKind::Allowed if plan.op.charges() => context.replication,
                _ => Replication::Enough,
            };
            reply_to.send(Ok(TimedReply { reply, time, replication }));
            Some(time.server_time)
        }
        Err(ReplayError::StaleCalendarEdges { at }) if reply_to.calendar_time == CalendarTime::Estimated => {
            let reply_to = ReplyTo { calendar_time: CalendarTime::Reported(at), ..reply_to };
            retries.push(Box::new(PendingPlan { plan: plan.clone(), reply_to }));
            Some(at)
        }
        Err(error) => {
            reply_to.send(Err(replay_failure(&error)));
            None
        }
    }
}

/// Updates the deny cache from a reply.
fn update_deny_cache(
    plan: &RedisPlan,
    reply_to: &ReplyTo,
    reply: &PlanReply,
    time: ReplyTime,
    deny_cache: &DenyCache,
) {
    match (plan.op, reply.admitted) {
        (Op::Check | Op::Acquire { .. } | Op::Count { .. }, OutcomeKind::Allowed) => {
            deny_cache.forget(&plan.charges);
        }
        (Op::Check, OutcomeKind::Denied) if reply_to.denial_caching == DenialCaching::Enabled => {
            // None if the plan before it was equal and has them.
            if let Some(states) = &reply.states {
                deny_cache.insert_denial(&plan.charges, states, time);
            }
        }
        (Op::Refund { .. } | Op::Reset, _) => deny_cache.record_refund(&plan.charges, time),
        _ => {}
    }
}

fn send_failure(error: SendError) -> PlanFailure {
    match error {
        SendError::Away => PlanFailure::not_sent(StoreError::BreakerOpen),
        SendError::Overloaded => PlanFailure::not_sent(StoreError::Overloaded),
        SendError::NoReply => PlanFailure { error: StoreError::TimedOut, effect: PossibleEffect::Unknown },
        // The script writes everything in one command. If Redis refuses it, nothing was written.
        SendError::WriteRefused(text) | SendError::Refused(text) => {
            PlanFailure::not_sent(StoreError::Refused(text))
        }
    }
}

fn bad_reply_failure(reply: &BadReply) -> PlanFailure {
    let error = StoreError::Refused(reply.to_string().into());
    PlanFailure { error, effect: PossibleEffect::Unknown }
}

fn replay_failure(error: &ReplayError) -> PlanFailure {
    match error {
        ReplayError::Unreadable { key } => {
            PlanFailure::not_sent(StoreError::Unreadable(String::from_utf8_lossy(key).into()))
        }
        ReplayError::StaleCalendarEdges { .. } => {
            PlanFailure::not_sent(StoreError::Refused(TIME_JUMPS.into()))
        }
        ReplayError::Mismatch(bad) => bad_reply_failure(bad),
    }
}

const TIME_JUMPS: &str =
    "the server's time jumps between calendar windows (hint: check the clock of the Redis server)";

#[cfg(all(test, feature = "calendar"))]
#[path = "batch_tests.rs"]
mod tests;
