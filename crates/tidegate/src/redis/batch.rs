//! Orders that go to a server together, as calls of the script.

use tidegate_core::{Op, Timestamp, Verdict};
use tokio::time::Instant;

use super::deny_cache::{Denials, DenyCache, SeenAt};
use super::desk::{Answered, Edges, Effect, Job, Jobs, Likeness, Ticket, Unanswered};
use super::order::Order;
use super::script::{BadReply, Call, CallTime, NotSeen, Seen};
use super::servers::{SendError, Sent};
use super::stats::Counters;
use crate::StoreFailure;

/// Orders that go to a server together.
pub(super) struct Batch {
    calls: Vec<Asked>,
}

/// One call, and who waits for each of its orders.
struct Asked {
    slot: u16,
    call: Call,
    tickets: Vec<Ticket>,
}

type Reply = Result<redis::Value, SendError>;

impl Batch {
    /// Gathers orders into calls, a call for each slot and more if they do not fit. Orders that are too late are answered.
    pub(super) fn gather(jobs: Jobs, now: Instant, servers_time: Timestamp) -> Self {
        let (mut jobs, late): (Jobs, Jobs) = jobs.into_iter().partition(|job| job.ticket.deadline > now);
        for job in late {
            job.ticket.answer(Err(Unanswered::unasked(StoreFailure::TimedOut)));
        }
        // Of those that are alike the first to come stays the first.
        jobs.sort_by_cached_key(|job| (job.ticket.slot, job.ticket.likeness));
        let mut batch = Self { calls: Vec::new() };
        for job in jobs {
            batch.add(job, servers_time);
        }
        batch
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    pub(super) fn count(&self, counters: &Counters) {
        let likenesses =
            |asked: &Asked| -> Vec<Likeness> { asked.tickets.iter().map(|ticket| ticket.likeness).collect() };
        for asked in &self.calls {
            let alike = likenesses(asked).windows(2).filter(|pair| pair[0] == pair[1]).count();
            counters.orders.add(asked.tickets.len());
            counters.coalesced.add(alike);
        }
        counters.calls.add(self.calls.len());
    }

    pub(super) fn commands(&self, sha: &str) -> Vec<Sent> {
        self.calls.iter().map(|asked| Sent { slot: asked.slot, command: asked.call.command(sha) }).collect()
    }

    /// Answers everybody but those who have to ask once more, which are left, and keeps what was learned from denials. The
    /// time is the server's, if it said.
    pub(super) fn answer(
        self,
        replies: Vec<Reply>,
        sent: Timestamp,
        deny_cache: &DenyCache,
    ) -> (Jobs, Option<Timestamp>) {
        let mut again = Vec::new();
        let mut time = None;
        let mut replies = replies.into_iter();
        for asked in self.calls {
            let reply = replies.next().unwrap_or(Err(SendError::Lost));
            let read =
                reply.map_err(unsent).and_then(|reply| asked.call.read(reply).map_err(|bad| unread(&bad)));
            match read {
                Err(unanswered) => {
                    asked.tickets.into_iter().for_each(|ticket| ticket.answer(Err(unanswered.clone())));
                }
                Ok(seen) => {
                    let orders = asked.call.orders();
                    for ((order, ticket), seen) in orders.iter().zip(asked.tickets).zip(seen) {
                        let at = answer_one(order, ticket, seen, sent, deny_cache, &mut again);
                        time = at.or(time);
                    }
                }
            }
        }
        (again, time)
    }

    fn add(&mut self, job: Box<Job>, servers_time: Timestamp) {
        let Job { order, ticket } = *job;
        let around = match ticket.edges {
            Edges::AroundNow => servers_time,
            Edges::Around(time) => time,
        };
        let rest = match self.calls.last_mut().filter(|last| last.slot == ticket.slot) {
            Some(last) => match last.call.add(order, around) {
                Ok(()) => return last.tickets.push(ticket),
                Err(order) => order,
            },
            None => order,
        };
        let mut call = Call::new(CallTime::OfTheServer);
        match call.add(rest, around) {
            Ok(()) => self.calls.push(Asked { slot: ticket.slot, call, tickets: vec![ticket] }),
            Err(_) => ticket.answer(Err(Unanswered::unasked(StoreFailure::Refused(TOO_LARGE.into())))),
        }
    }
}

const TOO_LARGE: &str = "a plan does not fit in one call (hint: let fewer limits apply to one request)";

fn answer_one(
    order: &Order,
    ticket: Ticket,
    seen: Result<Seen, NotSeen>,
    sent: Timestamp,
    deny_cache: &DenyCache,
    again: &mut Jobs,
) -> Option<Timestamp> {
    match seen {
        Ok(seen) => {
            let when = SeenAt { at: seen.at, sent };
            learn(order, &ticket, &seen, when, deny_cache);
            ticket.answer(Ok(Answered { seen, when }));
            Some(when.at)
        }
        Err(NotSeen::EdgesElsewhere { at }) if ticket.edges == Edges::AroundNow => {
            let ticket = Ticket { edges: Edges::Around(at), ..ticket };
            again.push(Box::new(Job { order: order.clone(), ticket }));
            Some(at)
        }
        Err(not_seen) => {
            ticket.answer(Err(unseen(&not_seen)));
            None
        }
    }
}

/// What a reply says about denials to come.
fn learn(order: &Order, ticket: &Ticket, seen: &Seen, when: SeenAt, deny_cache: &DenyCache) {
    match (order.op, seen.admitted) {
        (Op::Check | Op::Acquire { .. }, Verdict::Allowed) => deny_cache.forget(&order.charges),
        (Op::Check, Verdict::Denied) if ticket.denials == Denials::Kept => {
            // None if they are those of the order before, which was the same.
            if let Some(states) = &seen.states {
                deny_cache.keep(&order.charges, states, when);
            }
        }
        (Op::Refund { .. } | Op::Reset, _) => deny_cache.given_back(&order.charges, when),
        _ => {}
    }
}

fn unsent(error: SendError) -> Unanswered {
    match error {
        SendError::Away => Unanswered::unasked(StoreFailure::Away),
        SendError::Crowded => Unanswered::unasked(StoreFailure::Overloaded),
        SendError::Lost => Unanswered { why: StoreFailure::TimedOut, effect: Effect::Unknown },
        // The script writes everything in one go or, if that is refused, nothing.
        SendError::Refused(said) => Unanswered::unasked(StoreFailure::Refused(said)),
    }
}

fn unread(reply: &BadReply) -> Unanswered {
    let why = StoreFailure::Refused(reply.to_string().into());
    Unanswered { why, effect: Effect::Unknown }
}

fn unseen(not_seen: &NotSeen) -> Unanswered {
    match not_seen {
        NotSeen::Unreadable { key } => {
            Unanswered::unasked(StoreFailure::Unreadable(String::from_utf8_lossy(key).into()))
        }
        NotSeen::EdgesElsewhere { .. } => Unanswered::unasked(StoreFailure::Refused(TIME_JUMPS.into())),
        NotSeen::Differs(bad) => unread(bad),
    }
}

const TIME_JUMPS: &str = "its time jumps from one window of a calendar to another (hint: look after the clock of the Redis server)";

#[cfg(all(test, feature = "calendar"))]
mod tests;
