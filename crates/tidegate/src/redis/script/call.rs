//! One call of the script: orders on their way to Redis.

use std::fmt::Write;

use foldhash::fast::RandomState;
use indexmap::IndexSet;
use redis::Cmd;
use smallvec::SmallVec;
use tidegate_core::Timestamp;
use tidegate_core::algorithm::Calendar;

use super::group::{GroupCharge, GroupCharges, Groups};
use super::term::{self, EdgesUs, Term};
use crate::redis::plan::{KeyName, RedisPlan, RedisCharge};

/// The most keys that a call touches: Lua hands all of them to one command of Redis, which takes so many arguments.
pub(in crate::redis) const CALL_KEYS_MAX: usize = 2_000;
/// The most plans in a call. Nobody else is served meanwhile, so this many are to take a few milliseconds at most.
pub(in crate::redis) const CALL_PLANS_MAX: usize = 1_024;
/// The most limits with a cost in a call, which have two bytes for their number.
const CALL_TERMS_MAX: usize = 4_096;

/// Whose time a call is decided by.
#[derive(Clone, Copy, Debug)]
pub(in crate::redis) enum CallTime {
    /// That of Redis.
    Server,
    /// One that is handed in, for tests.
    #[allow(dead_code, reason = "for tests")]
    Given {
        /// The time.
        now_us: u64,
        /// What is added to every expiry, since Redis expires keys by its own clock.
        expiry_shift_ms: i64,
    },
}

/// Orders that are decided together, in the order in which they were added.
pub(in crate::redis) struct Call {
    time: CallTime,
    plans: Vec<RedisPlan>,
    /// Where among the keys those of each order's charges are, one order after the other.
    key_indexes: Vec<u16>,
    keys: IndexSet<KeyName, RandomState>,
    terms: IndexSet<Term, RandomState>,
    /// Edges that were worked out for this call.
    edges: SmallVec<[(Calendar, EdgesUs); 1]>,
    groups: Groups,
}

impl Call {
    /// A call without orders.
    pub fn new(time: CallTime) -> Self {
        Self {
            time,
            plans: Vec::new(),
            key_indexes: Vec::new(),
            keys: IndexSet::default(),
            terms: IndexSet::default(),
            edges: SmallVec::new(),
            groups: Groups::default(),
        }
    }

    /// Adds an order, or gives it back if there is no room for it. It is about this time for the server: windows of
    /// calendars are known around it.
    ///
    /// Orders in a row that do the same, by the same limits with the same costs, on one key or on keys one after the
    /// other, cost Redis less than others.
    #[allow(clippy::result_large_err, reason = "it is given back whole, and seldom")]
    pub fn add(&mut self, order: RedisPlan, about: Timestamp) -> Result<(), RedisPlan> {
        debug_assert!(!order.charges.is_empty());
        let charges = order.charges.len();
        if self.plans.len() == CALL_PLANS_MAX
            || self.keys.len() + charges > CALL_KEYS_MAX
            || self.terms.len() + charges > CALL_TERMS_MAX
        {
            return Err(order);
        }
        let is_as_last = self.plans.last().is_some_and(|last| has_same_terms(last, &order));
        let mut group_charges: GroupCharges = SmallVec::with_capacity(charges);
        for (number, charge) in order.charges.iter().enumerate() {
            let term = match self.groups.last_charges().get(number) {
                Some(last) if is_as_last => last.term,
                _ => self.term_of(charge, about),
            };
            let place = self.key_index_of(number, charge);
            self.key_indexes.push(place);
            group_charges.push(GroupCharge { term, key_index: place, counts_from: charge.counts_from });
        }
        self.groups.add(&order, group_charges);
        self.plans.push(order);
        Ok(())
    }

    /// The orders, as they were added.
    pub fn plans(&self) -> &[RedisPlan] {
        &self.plans
    }

    /// The command, if this is the hash of the script.
    pub fn command(&self, sha: &str) -> Cmd {
        const ARGUMENTS_BESIDE: usize = 5;
        const KEY_BYTES: usize = 48;
        const TERM_BYTES: usize = 64;
        let (keys, terms) = (self.keys.len(), self.terms.len());
        let bytes = keys * KEY_BYTES + terms * TERM_BYTES + self.groups.bytes().len() + sha.len() + KEY_BYTES;
        let mut command = Cmd::with_capacity(keys + terms + ARGUMENTS_BESIDE, bytes);
        command.arg("EVALSHA").arg(sha).arg(keys);
        for key in &self.keys {
            command.arg(key.as_slice());
        }
        let mut clock = String::new();
        if let CallTime::Given { now_us, expiry_shift_ms } = self.time {
            // Writing to a string cannot fail.
            let _ = write!(clock, "{now_us} {expiry_shift_ms}");
        }
        command.arg(clock).arg(self.groups.bytes());
        for term in &self.terms {
            command.arg(term.as_slice());
        }
        command
    }

    /// The names of the keys, each once.
    pub(super) fn keys(&self) -> impl ExactSizeIterator<Item = &KeyName> {
        self.keys.iter()
    }

    /// Where among the keys those of each order's charges are, one order after the other.
    pub(super) fn key_indexes(&self) -> &[u16] {
        &self.key_indexes
    }

    /// Where among the keys that of a charge is. The last order's is looked at first, for a hot key comes in a row.
    fn key_index_of(&mut self, number: usize, charge: &RedisCharge) -> u16 {
        if let Some(last) = self.plans.last()
            && last.charges.get(number).is_some_and(|last| last.key == charge.key)
        {
            // Its places are followed by `number` of this order's.
            return self.key_indexes[self.key_indexes.len() - last.charges.len()];
        }
        let place = match self.keys.get_index_of(&charge.key) {
            Some(place) => place,
            None => self.keys.insert_full(charge.key.clone()).0,
        };
        u16::try_from(place).unwrap_or(u16::MAX)
    }

    fn term_of(&mut self, charge: &RedisCharge, about: Timestamp) -> u16 {
        let edges = &mut self.edges;
        let term = term::term(charge, |calendar| {
            let is_around = |(known, [_, from, to, _]): &&(Calendar, EdgesUs)| {
                known == calendar && (*from..*to).contains(&(about.as_nanos() / term::NANOS_PER_MICRO))
            };
            if let Some((_, known)) = edges.iter().find(is_around) {
                return *known;
            }
            let around = term::edges_around(calendar, about);
            edges.push((calendar.clone(), around));
            around
        });
        u16::try_from(self.terms.insert_full(term).0).unwrap_or(u16::MAX)
    }
}

/// Whether two orders have the same terms. Windows of a calendar are looked up for each, for the time goes on.
pub(super) fn has_same_terms(one: &RedisPlan, other: &RedisPlan) -> bool {
    let is_alike = |(one, other): (&RedisCharge, &RedisCharge)| {
        one.cost == other.cost
            && one.role == other.role
            && one.algorithm == other.algorithm
            && term::calendar_of(&one.algorithm).is_none()
    };
    one.charges.len() == other.charges.len() && one.charges.iter().zip(&other.charges).all(is_alike)
}
