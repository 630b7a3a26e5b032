//! One call of the script: the plans that are sent together.

use std::fmt::Write;

use foldhash::fast::RandomState;
use indexmap::IndexSet;
use redis::Cmd;
use smallvec::SmallVec;
use tidegate_core::Timestamp;
use tidegate_core::algorithm::Calendar;

use super::group::{GroupCharge, GroupCharges, Groups};
use super::term::{self, EdgesUs, Term};
use crate::redis::key_name::KeyName;
use crate::redis::plan::{RedisCharge, RedisPlan};

/// Keys of a call at most. Lua passes all of them to one command of Redis, which takes no more arguments.
pub(crate) const CALL_KEYS_MAX: usize = 2_000;
/// Plans of a call at most. Redis serves nothing else meanwhile, and this many take a few milliseconds at
/// most.
pub(crate) const CALL_PLANS_MAX: usize = 1_024;
/// Terms (a limit with a cost) of a call at most. The wire format has two bytes for their index.
const CALL_TERMS_MAX: usize = 4_096;

/// The clock that decides a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CallTime {
    /// The clock of Redis.
    Server,
    /// A given time, for tests.
    #[allow(dead_code, reason = "for tests")]
    Given {
        /// The time.
        now_us: u64,
        /// Added to every expiry, because Redis expires keys by its own clock.
        expiry_shift_ms: i64,
    },
}

/// Plans that are decided together, in the order in which they were added.
pub(crate) struct Call {
    time: CallTime,
    plans: Vec<RedisPlan>,
    /// The key index of every charge, plan by plan.
    key_indexes: Vec<u16>,
    keys: IndexSet<KeyName, RandomState>,
    terms: IndexSet<Term, RandomState>,
    /// Calendar edges that were computed for this call.
    edges: SmallVec<[(Calendar, EdgesUs); 1]>,
    groups: Groups,
}

impl Call {
    /// A call without plans.
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

    /// Adds a plan, or returns it if there is no room. `about` is the server's approximate time: calendar
    /// windows are computed around it.
    ///
    /// Adjacent plans with the same op, limits and costs form a group if they use one key or consecutive
    /// keys. A group costs Redis less.
    #[allow(clippy::result_large_err, reason = "the plan is returned whole, and rarely")]
    pub fn add(&mut self, plan: RedisPlan, about: Timestamp) -> Result<(), RedisPlan> {
        debug_assert!(!plan.charges.is_empty());
        let charges = plan.charges.len();
        if self.plans.len() == CALL_PLANS_MAX
            || self.keys.len() + charges > CALL_KEYS_MAX
            || self.terms.len() + charges > CALL_TERMS_MAX
        {
            return Err(plan);
        }
        let repeats_last = self.plans.last().is_some_and(|last| has_same_terms(last, &plan));
        let mut group_charges: GroupCharges = SmallVec::with_capacity(charges);
        for (charge_index, charge) in plan.charges.iter().enumerate() {
            let term = match self.groups.last_charges().get(charge_index) {
                Some(last) if repeats_last => last.term,
                _ => self.term_of(charge, about),
            };
            let key_index = self.key_index_of(charge_index, charge);
            self.key_indexes.push(key_index);
            group_charges.push(GroupCharge { term, key_index, counts_from: charge.counts_from });
        }
        self.groups.add(&plan, group_charges);
        self.plans.push(plan);
        Ok(())
    }

    /// The plans, in the order in which they were added.
    pub fn plans(&self) -> &[RedisPlan] {
        &self.plans
    }

    /// The command that calls the script by its SHA-1.
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

    /// The names of the keys, without duplicates.
    pub(super) fn keys(&self) -> impl ExactSizeIterator<Item = &KeyName> {
        self.keys.iter()
    }

    /// The key index of every charge, plan by plan.
    pub(super) fn key_indexes(&self) -> &[u16] {
        &self.key_indexes
    }

    /// The key index of a charge. Tries the last plan first, because a hot key often comes several times in a
    /// row.
    fn key_index_of(&mut self, charge_index: usize, charge: &RedisCharge) -> u16 {
        if let Some(last) = self.plans.last()
            && last.charges.get(charge_index).is_some_and(|last| last.key == charge.key)
        {
            // `charge_index` indexes of this plan follow those of the last plan.
            return self.key_indexes[self.key_indexes.len() - last.charges.len()];
        }
        let key_index = match self.keys.get_index_of(&charge.key) {
            Some(key_index) => key_index,
            None => self.keys.insert_full(charge.key.clone()).0,
        };
        u16::try_from(key_index).unwrap_or(u16::MAX)
    }

    fn term_of(&mut self, charge: &RedisCharge, about: Timestamp) -> u16 {
        let edges = &mut self.edges;
        let term = term::term(charge, |calendar| {
            let contains_about = |(computed, [_, from, to, _]): &&(Calendar, EdgesUs)| {
                computed == calendar && (*from..*to).contains(&(about.as_nanos() / term::NANOS_PER_MICRO))
            };
            if let Some((_, computed)) = edges.iter().find(contains_about) {
                return *computed;
            }
            let around = term::edges_around(calendar, about);
            edges.push((calendar.clone(), around));
            around
        });
        u16::try_from(self.terms.insert_full(term).0).unwrap_or(u16::MAX)
    }
}

/// Whether two plans have the same terms. A calendar limit never does, because its window is looked up for
/// each plan.
pub(super) fn has_same_terms(one: &RedisPlan, other: &RedisPlan) -> bool {
    let is_same = |(one, other): (&RedisCharge, &RedisCharge)| {
        one.cost == other.cost
            && one.role == other.role
            && one.algorithm == other.algorithm
            && term::calendar_of(&one.algorithm).is_none()
    };
    one.charges.len() == other.charges.len() && one.charges.iter().zip(&other.charges).all(is_same)
}
