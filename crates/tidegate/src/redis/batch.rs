//! Orders that go to a server together, as calls of the script.

use tidegate_core::{Op, Timestamp, OutcomeKind};
use tokio::time::Instant;

use super::deny_cache::{DenialCaching, DenyCache, ReplyTime};
use super::desk::{TimedReply, CalendarTime, PossibleEffect, PendingPlan, PendingPlans, BatchKey, ReplyTo, PlanFailure};
use super::plan::RedisPlan;
use super::script::{BadReply, Call, CallTime, ReplayError, PlanReply};
use super::servers::{SendError, SlotCommand};
use super::stats::StoreCounters;
use crate::StoreError;

/// Orders that go to a server together.
pub(super) struct Batch {
    calls: Vec<BatchCall>,
}

/// One call, and who waits for each of its orders.
struct BatchCall {
    slot: u16,
    call: Call,
    reply_tos: Vec<ReplyTo>,
}

type CallResult = Result<redis::Value, SendError>;

impl Batch {
    /// Gathers orders into calls, a call for each slot and more if they do not fit. Orders that are too late are answered.
    pub(super) fn from_pending(jobs: PendingPlans, now: Instant, servers_time: Timestamp) -> Self {
        let (mut jobs, late): (PendingPlans, PendingPlans) = jobs.into_iter().partition(|job| job.reply_to.deadline > now);
        for job in late {
            job.reply_to.send(Err(PlanFailure::not_sent(StoreError::TimedOut)));
        }
        // Of those that are alike the first to come stays the first.
        jobs.sort_by_cached_key(|job| (job.reply_to.slot, job.reply_to.batch_key));
        let mut batch = Self { calls: Vec::new() };
        for job in jobs {
            batch.add(job, servers_time);
        }
        batch
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    pub(super) fn count_in(&self, counters: &StoreCounters) {
        let likenesses =
            |asked: &BatchCall| -> Vec<BatchKey> { asked.reply_tos.iter().map(|ticket| ticket.batch_key).collect() };
        for asked in &self.calls {
            let alike = likenesses(asked).windows(2).filter(|pair| pair[0] == pair[1]).count();
            counters.plans.add(asked.reply_tos.len());
            counters.coalesced.add(alike);
        }
        counters.calls.add(self.calls.len());
    }

    pub(super) fn commands(&self, sha: &str) -> Vec<SlotCommand> {
        self.calls.iter().map(|asked| SlotCommand { slot: asked.slot, command: asked.call.command(sha) }).collect()
    }

    /// Answers everybody but those who have to ask once more, which are left, and keeps what was learned from denials. The
    /// time is the server's, if it said.
    pub(super) fn complete(
        self,
        replies: Vec<CallResult>,
        sent: Timestamp,
        deny_cache: &DenyCache,
    ) -> (PendingPlans, Option<Timestamp>) {
        let mut again = Vec::new();
        let mut time = None;
        let mut replies = replies.into_iter();
        for asked in self.calls {
            let reply = replies.next().unwrap_or(Err(SendError::NoReply));
            let read =
                reply.map_err(send_failure).and_then(|reply| asked.call.read(reply).map_err(|bad| bad_reply_failure(&bad)));
            match read {
                Err(unanswered) => {
                    asked.reply_tos.into_iter().for_each(|ticket| ticket.send(Err(unanswered.clone())));
                }
                Ok(seen) => {
                    let orders = asked.call.plans();
                    for ((order, ticket), seen) in orders.iter().zip(asked.reply_tos).zip(seen) {
                        let at = complete_plan(order, ticket, seen, sent, deny_cache, &mut again);
                        time = at.or(time);
                    }
                }
            }
        }
        (again, time)
    }

    fn add(&mut self, job: Box<PendingPlan>, servers_time: Timestamp) {
        let PendingPlan { plan: order, reply_to: ticket } = *job;
        let around = match ticket.calendar_time {
            CalendarTime::Estimated => servers_time,
            CalendarTime::Reported(time) => time,
        };
        let rest = match self.calls.last_mut().filter(|last| last.slot == ticket.slot) {
            Some(last) => match last.call.add(order, around) {
                Ok(()) => return last.reply_tos.push(ticket),
                Err(order) => order,
            },
            None => order,
        };
        let mut call = Call::new(CallTime::Server);
        match call.add(rest, around) {
            Ok(()) => self.calls.push(BatchCall { slot: ticket.slot, call, reply_tos: vec![ticket] }),
            Err(_) => ticket.send(Err(PlanFailure::not_sent(StoreError::Refused(TOO_LARGE.into())))),
        }
    }
}

const TOO_LARGE: &str = "a plan does not fit in one call (hint: let fewer limits apply to one request)";

fn complete_plan(
    order: &RedisPlan,
    ticket: ReplyTo,
    seen: Result<PlanReply, ReplayError>,
    sent: Timestamp,
    deny_cache: &DenyCache,
    again: &mut PendingPlans,
) -> Option<Timestamp> {
    match seen {
        Ok(seen) => {
            let when = ReplyTime { server_time: seen.at, sent_at: sent };
            update_deny_cache(order, &ticket, &seen, when, deny_cache);
            ticket.send(Ok(TimedReply { reply: seen, time: when }));
            Some(when.server_time)
        }
        Err(ReplayError::StaleCalendarEdges { at }) if ticket.calendar_time == CalendarTime::Estimated => {
            let ticket = ReplyTo { calendar_time: CalendarTime::Reported(at), ..ticket };
            again.push(Box::new(PendingPlan { plan: order.clone(), reply_to: ticket }));
            Some(at)
        }
        Err(not_seen) => {
            ticket.send(Err(replay_failure(&not_seen)));
            None
        }
    }
}

/// What a reply says about denials to come.
fn update_deny_cache(order: &RedisPlan, ticket: &ReplyTo, seen: &PlanReply, when: ReplyTime, deny_cache: &DenyCache) {
    match (order.op, seen.admitted) {
        (Op::Check | Op::Acquire { .. }, OutcomeKind::Allowed) => deny_cache.forget(&order.charges),
        (Op::Check, OutcomeKind::Denied) if ticket.denial_caching == DenialCaching::Enabled => {
            // None if they are those of the order before, which was the same.
            if let Some(states) = &seen.states {
                deny_cache.insert_denial(&order.charges, states, when);
            }
        }
        (Op::Refund { .. } | Op::Reset, _) => deny_cache.record_refund(&order.charges, when),
        _ => {}
    }
}

fn send_failure(error: SendError) -> PlanFailure {
    match error {
        SendError::Away => PlanFailure::not_sent(StoreError::BreakerOpen),
        SendError::Overloaded => PlanFailure::not_sent(StoreError::Overloaded),
        SendError::NoReply => PlanFailure { error: StoreError::TimedOut, effect: PossibleEffect::Unknown },
        // The script writes everything in one go or, if that is refused, nothing.
        SendError::Refused(said) => PlanFailure::not_sent(StoreError::Refused(said)),
    }
}

fn bad_reply_failure(reply: &BadReply) -> PlanFailure {
    let why = StoreError::Refused(reply.to_string().into());
    PlanFailure { error: why, effect: PossibleEffect::Unknown }
}

fn replay_failure(not_seen: &ReplayError) -> PlanFailure {
    match not_seen {
        ReplayError::Unreadable { key } => {
            PlanFailure::not_sent(StoreError::Unreadable(String::from_utf8_lossy(key).into()))
        }
        ReplayError::StaleCalendarEdges { .. } => PlanFailure::not_sent(StoreError::Refused(TIME_JUMPS.into())),
        ReplayError::Mismatch(bad) => bad_reply_failure(bad),
    }
}

const TIME_JUMPS: &str = "its time jumps from one window of a calendar to another (hint: look after the clock of the Redis server)";

#[cfg(all(test, feature = "calendar"))]
mod tests;
