//! The orders of a call, played on the states that the script found, one after the other as it did.

use redis::Value;
use smallvec::SmallVec;
use tidegate_core::{Ask, Grant, Leases, Nanos, Op, Ruling, Timestamp, Verdict};

use super::call::{Call, is_alike};
use super::keys::{Keys, is_past};
use super::leases;
use super::line::{self, Line};
use super::reply::{BadReply, Reply};
use super::states::States;
use super::term::calendar_of;
use crate::grant::GrantPart;
use crate::redis::deny_cache::STATE_HEAP_BYTES_MAX;
use crate::redis::order::{DENY, FenceChange, KeyName, NOBODY, Order, OrderCharge, number};
use crate::store::LeaseReply;
use crate::{LeaseToken, Outcomes};

/// What became of an order.
#[derive(Clone, Debug)]
pub(in crate::redis) struct Seen {
    /// When, by the time of the call.
    pub at: Timestamp,
    /// One for each charge, of an order that is decided: check, peek and acquire.
    pub outcomes: Outcomes,
    /// Whether it passed; of a lease that was to be changed, whether it was there. What is refunded or reset passes.
    pub admitted: Verdict,
    /// What became of its lease.
    pub lease: LeaseReply,
    /// The states before it, of an order that is decided, if they are wanted. Those of a check that was denied are there
    /// too, unless they are large, its limits count attempts or leases, or the order before it was the same and was
    /// denied already.
    pub states: Option<States>,
}

/// Why it is not known what became of an order. Unless replay and script differ it changed nothing; but a refund was made to
/// the keys that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::redis) enum NotSeen {
    /// What a key holds is nothing that the script wrote.
    Unreadable {
        /// Its name.
        key: KeyName,
    },
    /// A window of a calendar begins now that is not around the time which the order was added for.
    EdgesElsewhere {
        /// The time that it is.
        at: Timestamp,
    },
    /// It, or an order before it that has a key in common, does not come to what the script said. It may have been charged.
    Differs(BadReply),
}

impl Call {
    /// What the reply to this call says of each order.
    pub fn read(&self, reply: Value) -> Result<Vec<Result<Seen, NotSeen>>, BadReply> {
        let Reply { states, at, admitted, errors } =
            Reply::read(reply, self.keys().len(), self.orders().len())?;
        let mut replay = Replay { at, keys: Keys::new(states), errors, doubtful: Vec::new() };
        let mut all: Vec<Result<Seen, NotSeen>> = Vec::with_capacity(self.orders().len());
        let (mut places, mut before) = (self.places(), None);
        for (number, order) in self.orders().iter().enumerate() {
            let (own, others) = places.split_at(order.charges.len());
            let played = Played { number, order, places: own, admitted: admitted.of(number) };
            let last_seen = all.last().and_then(|seen| seen.as_ref().ok());
            let seen = replay.play(played, before.zip(last_seen));
            if let Err(NotSeen::Differs(_)) = seen {
                replay.doubtful.extend(own);
            }
            all.push(seen);
            (places, before) = (others, Some(played));
        }
        Ok(all)
    }
}

struct Replay {
    at: Timestamp,
    keys: Keys,
    /// Plans, and the places of keys that the script could not make use of.
    errors: Vec<(usize, usize)>,
    /// Places of keys whose state is not known any more, for an order came out otherwise than the script said. Nearly always
    /// none.
    doubtful: Vec<u16>,
}

/// An order, where its keys are, and whether the script admitted it.
#[derive(Clone, Copy)]
struct Played<'c> {
    number: usize,
    order: &'c Order,
    places: &'c [u16],
    admitted: Verdict,
}

/// What is to become of a lease.
#[derive(Clone, Copy)]
enum Change {
    Renew(Option<Nanos>),
    Raise(Option<Nanos>),
    Release,
}

impl Replay {
    fn play(&mut self, played: Played<'_>, before: Option<(Played<'_>, &Seen)>) -> Result<Seen, NotSeen> {
        if !self.doubtful.is_empty() && played.places.iter().any(|place| self.doubtful.contains(place)) {
            return Err(NotSeen::Differs(differs(played)));
        }
        match played.order.op {
            Op::Check | Op::Peek | Op::Acquire { .. } | Op::Deny { .. } => {
                self.read_all(played)?;
                match before {
                    Some((before, seen)) if played.is_denied_as(before) => {
                        Ok(self.denied_again(played, seen))
                    }
                    _ => self.decide(played),
                }
            }
            Op::Refund { .. } => self.refund(played),
            Op::Reset => {
                played.charges().for_each(|(charge, place)| self.keys.reset(charge, place, self.at));
                Ok(self.done(LeaseReply::None))
            }
            Op::Renew { token, ttl } => {
                let change = match played.order.fence {
                    FenceChange::Kept => Change::Renew(ttl),
                    FenceChange::Raised => Change::Raise(ttl),
                };
                self.change_lease(played, &token, change)
            }
            Op::Release { token } => self.change_lease(played, &token, Change::Release),
            _ => Err(NotSeen::Differs(differs(played))),
        }
    }

    /// Look at all, then charge all or none, then report each.
    fn decide(&mut self, played: Played<'_>) -> Result<Seen, NotSeen> {
        let order = played.order;
        let ask = |charge: &OrderCharge| Ask { now: self.at, cost: charge.cost };
        let weighed: SmallVec<[Verdict; 4]> =
            self.lines(played).map(|(charge, line)| line.weigh(ask(charge))).collect();
        let roles = order.charges.iter().map(|charge| charge.role);
        let own_fate = line::fate(weighed.iter().copied().zip(roles));
        let is_counted_denial = number(order) == DENY;
        if !is_counted_denial && own_fate != played.admitted {
            return Err(NotSeen::Differs(differs(played)));
        }
        let fate = if matches!(order.op, Op::Deny { .. }) { Verdict::Denied } else { own_fate };
        let states = self.kept_states(played);
        let ttl = if let Op::Acquire { ttl, .. } = order.op { ttl } else { None };
        let grant = line::grant(self.lines(played), self.at, fate).map(|part| part.grant(ttl));
        let ruled = |(charge, verdict): (&OrderCharge, &Verdict)| {
            (ask(charge), Ruling { verdict: *verdict, fate, role: charge.role })
        };
        let rulings: SmallVec<[(Ask, Ruling); 2]> = order.charges.iter().zip(&weighed).map(ruled).collect();
        let mut outcomes = Outcomes::new();
        for ((charge, place), (ask, ruling)) in played.charges().zip(rulings) {
            outcomes.extend(match order.op {
                Op::Peek | Op::Deny { .. } if !is_counted_denial => {
                    self.keys.line(charge, place).map(|line| line.preview(ask, ruling, grant))
                }
                _ => self.keys.line_mut(charge, place).map(|line| line.settle(ask, ruling, grant)),
            });
        }
        let mut lease = LeaseReply::None;
        if let (Some(grant), Op::Check | Op::Acquire { .. }) = (grant, order.op) {
            if order.owner != NOBODY {
                lease = leases::held_since(grant, order.owner, self.at);
            }
            for (_, place) in played.charges().filter(|(charge, _)| charge.cost > 0) {
                self.keys.note_owner(place, grant.fence, order.owner);
            }
        }
        Ok(Seen { at: self.at, outcomes, admitted: fate, lease, states })
    }

    /// What was just denied is denied again in the same words: nothing has changed.
    fn denied_again(&self, played: Played<'_>, before: &Seen) -> Seen {
        let states = if played.order.keeps_states { self.states(played) } else { None };
        Seen { states, outcomes: before.outcomes.clone(), ..*before }
    }

    /// Each key was charged for itself, and so it is given back to all that can be read.
    fn refund(&mut self, played: Played<'_>) -> Result<Seen, NotSeen> {
        let mut unreadable = None;
        for (charge, place) in played.charges().filter(|(charge, _)| charge.cost > 0) {
            match self.keys.read(charge, place) {
                Ok(()) => {
                    let ask = Ask { now: self.at, cost: charge.cost };
                    if let Some(line) = self.keys.line_mut(charge, place) {
                        line.refund(ask, charge.counts_from);
                    }
                }
                Err(_) => unreadable = Some(&charge.key),
            }
        }
        match unreadable {
            Some(key) => Err(NotSeen::Unreadable { key: key.clone() }),
            None => Ok(self.done(LeaseReply::None)),
        }
    }

    /// Renews a lease, for a ttl if there is one, or releases it, in all the keys that hold it.
    fn change_lease(
        &mut self,
        played: Played<'_>,
        token: &LeaseToken,
        change: Change,
    ) -> Result<Seen, NotSeen> {
        self.read_all(played)?;
        let at = self.at;
        let parts = self.lines(played).filter_map(|(charge, line)| match line {
            Line::Leases(one, leases) => Some(GrantPart::of(one, leases, charge.role, at)),
            _ => None,
        });
        let part = parts.reduce(GrantPart::and);
        let mut lease = leases::gone(token, part.map_or(at, GrantPart::instant));
        for place in played.places {
            let Some((leases, owners)) = self.keys.leases_mut(*place) else { continue };
            let Some(held) = leases::held(leases, owners, token, at) else { continue };
            let (Change::Renew(ttl) | Change::Raise(ttl)) = change else {
                leases.release(held, at);
                lease = LeaseReply::Released;
                if leases.is_empty() && is_past(leases.last_fence(), leases.written()) {
                    *leases = Leases::default();
                }
                continue;
            };
            let (Some(part), Some(units)) = (part, leases.release(held, at)) else { continue };
            let fence = match change {
                Change::Raise(_) => held.fence.max(token.grant().fence),
                _ => held.fence,
            };
            let renewed = Grant { expires: part.grant(ttl).expires, fence };
            leases.hold(renewed, units, at);
            let owner = token.seal().to_be_bytes();
            self.keys.note_owner(*place, fence, owner);
            lease = leases::held_since(renewed, owner, at);
        }
        let is_changed = matches!(lease, LeaseReply::Held(_) | LeaseReply::Released);
        if is_changed != (played.admitted == Verdict::Allowed) {
            return Err(NotSeen::Differs(differs(played)));
        }
        Ok(Seen { admitted: played.admitted, ..self.done(lease) })
    }

    /// Makes sure that all states of an order are there.
    fn read_all(&mut self, played: Played<'_>) -> Result<(), NotSeen> {
        for (charge, place) in played.charges() {
            let is_read = self.keys.read(charge, place).is_ok();
            let is_refused =
                !self.errors.is_empty() && self.errors.contains(&(played.number, usize::from(place)));
            if !is_read || is_refused {
                // What can be read, and is of no use to the script, is a window that its edges do not reach.
                let is_elsewhere = is_read && calendar_of(&charge.algorithm).is_some();
                return Err(match is_elsewhere {
                    true => NotSeen::EdgesElsewhere { at: self.at },
                    false => NotSeen::Unreadable { key: charge.key.clone() },
                });
            }
        }
        Ok(())
    }

    /// The lines of an order whose states are there.
    fn lines<'a>(&'a self, played: Played<'a>) -> impl Iterator<Item = (&'a OrderCharge, Line<'a>)> {
        played.charges().filter_map(|(charge, place)| Some((charge, self.keys.line(charge, place)?)))
    }

    /// The states of an order, before it changes them, if they are to be kept.
    fn kept_states(&self, played: Played<'_>) -> Option<States> {
        let is_denied = matches!(played.order.op, Op::Check) && played.admitted == Verdict::Denied;
        let is_of_use = |(charge, line): (&OrderCharge, Line<'_>)| match line {
            Line::Packed(..) => !charge.algorithm.counts_denied(),
            Line::Ledger(_, ledger) => {
                !charge.algorithm.counts_denied() && ledger.heap_bytes() <= STATE_HEAP_BYTES_MAX
            }
            Line::Leases(..) => false,
        };
        let is_kept = played.order.keeps_states || is_denied && self.lines(played).all(is_of_use);
        if is_kept { self.states(played) } else { None }
    }

    fn states(&self, played: Played<'_>) -> Option<States> {
        played.places.iter().map(|place| self.keys.state(*place).cloned()).collect()
    }

    /// What became of an order that is not decided.
    fn done(&self, lease: LeaseReply) -> Seen {
        Seen { at: self.at, outcomes: Outcomes::new(), admitted: Verdict::Allowed, lease, states: None }
    }
}

impl<'c> Played<'c> {
    fn charges(self) -> impl Iterator<Item = (&'c OrderCharge, u16)> {
        self.order.charges.iter().zip(self.places.iter().copied())
    }

    /// Whether this is denied because the order before it was: the same on the same keys, and it changed nothing.
    fn is_denied_as(self, before: Self) -> bool {
        let is_same_op =
            matches!((self.order.op, before.order.op), (Op::Check, Op::Check) | (Op::Peek, Op::Peek));
        is_same_op
            && self.admitted == Verdict::Denied
            && before.admitted == Verdict::Denied
            && self.places == before.places
            && is_alike(self.order, before.order)
            && !self.order.charges.iter().any(|charge| charge.algorithm.counts_denied())
    }
}

/// The replay does not come to what the script said.
fn differs(played: Played<'_>) -> BadReply {
    let limits: Vec<String> = played.charges().map(|(charge, _)| format!("{charge:?}")).collect();
    BadReply::new(format!(
        "plan {} was {}, which it cannot be by the states that were found: {}",
        played.number,
        match played.admitted {
            Verdict::Allowed => "admitted",
            Verdict::Denied => "denied",
        },
        limits.join(", ")
    ))
}
