//! A plan of several charges: look at all, then charge all or none.
//!
//! All shards and pages that the plan touches are locked, each kind in ascending order: ledgers, leases, then pages;
//! so plans that cross each other wait and never deadlock; a peek, which reads pages under the locks of its
//! shards, keeps to the same order, and nobody who holds a page waits for a shard. Nothing is written before
//! everything that could stand in the way is out of the way: a page that needs room is relieved with no lock
//! held, and the plan starts again.

use smallvec::SmallVec;
use tidegate_core::algorithm::{Concurrency, Counting, LedgerAlgorithm, PackedAlgorithm};
use tidegate_core::{
    Algorithm, Ask, Charge, Grant, Leases, Ledger, Nanos, Outcome, Packed, Plan, Role, Ruling, Timestamp,
    Verdict,
};

use super::page::{Locked, Slot};
use super::shards::{Kept, Shard, Shards, shard_of};
use super::single::Wanted;
use super::table::Pressure;
use super::{MemoryStore, Outcomes, Place};
use crate::sync::MutexGuard;

/// Plans are short; longer ones go to the heap.
pub(super) type Few<T> = SmallVec<[T; 4]>;

/// One charge and its state, as it is or by where it is.
pub(super) enum Line<'p> {
    Packed { algorithm: &'p PackedAlgorithm, ask: Ask, tag: u64, slot: Option<Slot>, state: Packed },
    Ledger { algorithm: &'p LedgerAlgorithm, ask: Ask, tag: u64 },
    Leases { algorithm: &'p Concurrency, ask: Ask, tag: u64 },
}

/// Locked pages by number, in order.
type Pages<'s> = Few<(u32, Locked<'s>)>;
/// Locked shards by number, in order.
pub(super) type LockedShards<'s, S> = Few<(usize, MutexGuard<'s, Shard<S>>)>;

/// What is not in pages, locked; ledgers first.
pub(super) struct Beside<'s> {
    ledgers: LockedShards<'s, Ledger>,
    pub(super) leases: LockedShards<'s, Leases>,
}

/// A page is full; with every lock released, this tag needs room.
struct NeedsRoom(u64);

impl MemoryStore {
    /// Answers as [`check`](Self::check) would and changes nothing.
    pub fn peek(&self, plan: &Plan<'_>, now: Timestamp) -> Outcomes {
        let beside = self.lock_beside(plan);
        let lines = self.read_lines(plan, now);
        let weighed = weigh(plan, &lines, &beside);
        self.preview(&lines, &beside, &weighed)
    }

    /// What [`peek`](Self::peek) answers if the plan is denied, and less work than that if it is not.
    pub(super) fn peek_denied(&self, plan: &Plan<'_>, now: Timestamp) -> Option<Outcomes> {
        let beside = self.lock_beside(plan);
        let lines = self.read_lines(plan, now);
        let weighed = weigh(plan, &lines, &beside);
        (weighed.fate == Verdict::Denied).then(|| self.preview(&lines, &beside, &weighed))
    }

    /// The outcomes of a plan that is denied in any case. Charges limits that count denied attempts, if it is to be `counted`.
    pub(crate) fn deny(&self, plan: &Plan<'_>, now: Timestamp, counted: bool) -> Outcomes {
        let counts_denied = |charge: &Charge<'_>| charge.counter.algorithm().counts_denied();
        if counted && plan.charges().iter().any(counts_denied) {
            return self.transact_by(plan, now, None, weigh_denied).0;
        }
        let beside = self.lock_beside(plan);
        let lines = self.read_lines(plan, now);
        let weighed = weigh_denied(plan, &lines, &beside);
        self.preview(&lines, &beside, &weighed)
    }

    /// The outcomes of a plan that was admitted here with `outcomes`, denied elsewhere, and given back.
    pub(crate) fn report_denied(&self, plan: &Plan<'_>, outcomes: &[Outcome], now: Timestamp) -> Outcomes {
        let beside = self.lock_beside(plan);
        let lines = self.read_lines(plan, now);
        let report = |((line, charge), outcome): ((&Line<'_>, &Charge<'_>), &Outcome)| {
            let ruling = Ruling { verdict: outcome.verdict, fate: Verdict::Denied, role: charge.role };
            match line {
                Line::Packed { algorithm, ask, state, .. } => algorithm.report(state, *ask, ruling),
                Line::Ledger { algorithm, ask, tag } => get(&beside.ledgers, shard_of(*tag))
                    .with(*tag, |ledger| algorithm.report(ledger, *ask, ruling)),
                Line::Leases { algorithm, ask, tag } => get(&beside.leases, shard_of(*tag))
                    .with(*tag, |leases| algorithm.report(leases, *ask, ruling)),
            }
        };
        lines.iter().zip(plan.charges()).zip(outcomes).map(report).collect()
    }

    fn preview(&self, lines: &[Line<'_>], beside: &Beside<'_>, weighed: &Weighed) -> Outcomes {
        let grant = self.grant(lines, beside, weighed, None);
        let preview = |(line, ruling): (&Line<'_>, Ruling)| match line {
            Line::Packed { algorithm, ask, state, .. } => algorithm.preview(state, *ask, ruling),
            Line::Ledger { algorithm, ask, tag } => get(&beside.ledgers, shard_of(*tag))
                .with(*tag, |ledger| algorithm.preview(ledger, *ask, ruling)),
            Line::Leases { algorithm, ask, tag } => {
                get(&beside.leases, shard_of(*tag)).with(*tag, |leases| match grant {
                    Some(grant) if ask.cost > 0 => {
                        // Only when to retry depends on more than the sketch shows.
                        let mut after = match ruling.verdict {
                            Verdict::Allowed => algorithm.sketch(leases, ask.now),
                            Verdict::Denied => leases.clone(),
                        };
                        after.hold(grant, ask.cost, ask.now);
                        algorithm.report(&after, *ask, ruling)
                    }
                    _ => algorithm.report(leases, *ask, ruling),
                })
            }
        };
        lines.iter().zip(weighed.rulings()).map(preview).collect()
    }

    /// Decides a plan and charges it, atomically. The grant is that of all its leases, which last no longer than
    /// `ttl`.
    pub(super) fn transact(
        &self,
        plan: &Plan<'_>,
        now: Timestamp,
        ttl: Option<Nanos>,
    ) -> (Outcomes, Option<Grant>) {
        self.transact_by(plan, now, ttl, weigh)
    }

    #[inline]
    fn transact_by(
        &self,
        plan: &Plan<'_>,
        now: Timestamp,
        ttl: Option<Nanos>,
        weigh: impl Fn(&Plan<'_>, &[Line<'_>], &Beside<'_>) -> Weighed,
    ) -> (Outcomes, Option<Grant>) {
        let mut pressure = Pressure::Bearable;
        loop {
            let mut beside = self.lock_beside(plan);
            let Some(mut pages) = self.lock_pages(plan) else { continue };
            let mut lines = lines(self, plan, now, |tag| {
                let page = get(&pages, self.table.page_of(tag));
                let slot = page.find(tag);
                (slot, slot.map_or(Packed::NEVER_SEEN, |slot| page.state(slot)))
            });
            let weighed = weigh(plan, &lines, &beside);
            if let Err(NeedsRoom(tag)) = self.reserve(&mut lines, weighed.fate, &pages, pressure) {
                drop((pages, beside));
                pressure = self.table.relieve(tag, self.idle_before(now), &self.budget);
                continue;
            }
            let grant = self.grant(&lines, &beside, &weighed, ttl);
            let settle = |(line, ruling): (&Line<'_>, Ruling)| match line {
                Line::Packed { algorithm, ask, tag, slot, state } => {
                    let mut state = *state;
                    algorithm.settle(&mut state, *ask, ruling);
                    if let Some(slot) = slot {
                        self.put(get_mut(&mut pages, self.table.page_of(*tag)), *slot, *tag, state, now);
                    }
                    algorithm.report(&state, *ask, ruling)
                }
                Line::Ledger { algorithm, ask, tag } => {
                    let shard = get_mut(&mut beside.ledgers, shard_of(*tag));
                    let place = Place { shards: &self.ledgers, shard, tag: *tag };
                    self.settle_kept(place, *algorithm, *ask, ruling, |ledger| {
                        algorithm.charge_by(ledger, *ask, ruling);
                    })
                }
                Line::Leases { algorithm, ask, tag } => {
                    let shard = get_mut(&mut beside.leases, shard_of(*tag));
                    let place = Place { shards: &self.leases, shard, tag: *tag };
                    self.settle_kept(place, *algorithm, *ask, ruling, |leases| {
                        if let Some(grant) = grant {
                            leases.hold(grant, ask.cost, now);
                        }
                    })
                }
            };
            return (lines.iter().zip(weighed.rulings()).map(settle).collect(), grant);
        }
    }

    /// The lines of a plan that is only looked at.
    fn read_lines<'p>(&self, plan: &Plan<'p>, now: Timestamp) -> Few<Line<'p>> {
        lines(self, plan, now, |tag| {
            let seen = self.read(tag);
            (seen.slot, seen.state)
        })
    }

    /// Locks the pages that the plan touches; none if one was split meanwhile.
    fn lock_pages(&self, plan: &Plan<'_>) -> Option<Pages<'_>> {
        let tags: Few<u64> =
            plan.charges().iter().filter(is_packed).map(|charge| self.seed.tag(charge)).collect();
        let wanted: Few<u32> = tags.iter().map(|tag| self.table.page_of(*tag)).collect();
        let pages = in_order(wanted.clone()).map(|page| (page, self.table.page(page).lock())).collect();
        let unsplit = tags.iter().zip(wanted).all(|(tag, page)| self.table.page_of(*tag) == page);
        unsplit.then_some(pages)
    }

    /// Locks the shards that the plan touches.
    fn lock_beside(&self, plan: &Plan<'_>) -> Beside<'_> {
        let ledgers = lock_shards(&self.ledgers, self.shards_of(plan, is_ledger));
        Beside { ledgers, leases: lock_shards(&self.leases, self.shards_of(plan, is_lease)) }
    }

    fn shards_of(&self, plan: &Plan<'_>, wanted: impl Fn(&&Charge<'_>) -> bool) -> Few<usize> {
        plan.charges().iter().filter(wanted).map(|charge| shard_of(self.seed.tag(charge))).collect()
    }

    /// Gives every line that is going to be written a slot. Writes nothing.
    fn reserve(
        &self,
        lines: &mut [Line<'_>],
        fate: Verdict,
        pages: &Pages<'_>,
        pressure: Pressure,
    ) -> Result<(), NeedsRoom> {
        let mut taken: Few<(u32, Slot)> = SmallVec::new();
        for line in lines.iter() {
            if let Line::Packed { tag, slot: Some(slot), .. } = line {
                taken.push((self.table.page_of(*tag), *slot));
            }
        }
        for line in lines {
            if let Line::Packed { algorithm, ask, tag, slot: slot @ None, .. } = line
                && algorithm.is_charged(*ask, fate)
            {
                let page = self.table.page_of(*tag);
                let here: Few<Slot> =
                    taken.iter().filter(|(other, _)| *other == page).map(|(_, slot)| *slot).collect();
                let wanted = Wanted { tag: *tag, now: ask.now, taken: &here, pressure };
                let new = self.claim(get(pages, page), &wanted).ok_or(NeedsRoom(*tag))?;
                taken.push((page, new));
                *slot = Some(new);
            }
        }
        Ok(())
    }
}

/// The lines of a plan; `find` knows where a packed state is.
fn lines<'p>(
    store: &MemoryStore,
    plan: &Plan<'p>,
    now: Timestamp,
    find: impl Fn(u64) -> (Option<Slot>, Packed),
) -> Few<Line<'p>> {
    let line = |charge: &Charge<'p>| {
        let (tag, ask) = (store.seed.tag(charge), Ask { now, cost: charge.cost });
        match charge.counter.algorithm() {
            Algorithm::Packed(algorithm) => {
                let (slot, state) = find(tag);
                Line::Packed { algorithm, ask, tag, slot, state }
            }
            Algorithm::Ledger(algorithm) => Line::Ledger { algorithm, ask, tag },
            Algorithm::Leases(algorithm) => Line::Leases { algorithm, ask, tag },
        }
    };
    plan.charges().iter().map(line).collect()
}

/// The verdict on each line and its role, and what becomes of all of them.
pub(super) struct Weighed {
    each: Few<(Verdict, Role)>,
    fate: Verdict,
}

impl Weighed {
    /// The ruling on each line.
    pub(super) fn rulings(&self) -> impl Iterator<Item = Ruling> {
        self.each.iter().map(|(verdict, role)| Ruling { verdict: *verdict, fate: self.fate, role: *role })
    }
}

fn weigh(plan: &Plan<'_>, lines: &[Line<'_>], beside: &Beside<'_>) -> Weighed {
    let weigh = |line: &Line<'_>| match line {
        Line::Packed { algorithm, ask, state, .. } => algorithm.weigh(state, *ask),
        Line::Ledger { algorithm, ask, tag } => {
            get(&beside.ledgers, shard_of(*tag)).with(*tag, |ledger| algorithm.weigh(ledger, *ask))
        }
        Line::Leases { algorithm, ask, tag } => {
            get(&beside.leases, shard_of(*tag)).with(*tag, |leases| algorithm.weigh(leases, *ask))
        }
    };
    let roles = plan.charges().iter().map(|charge| charge.role);
    let each: Few<(Verdict, Role)> = lines.iter().map(weigh).zip(roles).collect();
    let enforced = each.iter().filter(|(_, role)| *role == Role::Enforced);
    let fate = enforced.map(|(verdict, _)| *verdict).max().unwrap_or(Verdict::Allowed);
    Weighed { each, fate }
}

/// The same for a plan that is denied in any case.
fn weigh_denied(plan: &Plan<'_>, lines: &[Line<'_>], beside: &Beside<'_>) -> Weighed {
    Weighed { fate: Verdict::Denied, ..weigh(plan, lines, beside) }
}

/// Locks these shards, in order.
pub(super) fn lock_shards<S: Kept>(shards: &Shards<S>, numbers: Few<usize>) -> LockedShards<'_, S> {
    in_order(numbers).map(|number| (number, shards.lock(number))).collect()
}

fn is_ledger(charge: &&Charge<'_>) -> bool {
    matches!(charge.counter.algorithm(), Algorithm::Ledger(_))
}

pub(super) fn is_lease(charge: &&Charge<'_>) -> bool {
    matches!(charge.counter.algorithm(), Algorithm::Leases(_))
}

fn is_packed(charge: &&Charge<'_>) -> bool {
    matches!(charge.counter.algorithm(), Algorithm::Packed(_))
}

fn in_order<N: Ord>(mut numbers: Few<N>) -> impl Iterator<Item = N> {
    numbers.sort_unstable();
    numbers.dedup();
    numbers.into_iter()
}

pub(super) fn get<N: Ord + Copy, L>(locks: &[(N, L)], number: N) -> &L {
    &locks[locks.partition_point(|(held, _)| *held < number)].1
}

pub(super) fn get_mut<N: Ord + Copy, L>(locks: &mut [(N, L)], number: N) -> &mut L {
    let at = locks.partition_point(|(held, _)| *held < number);
    &mut locks[at].1
}
