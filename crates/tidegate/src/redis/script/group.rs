//! The plans of a call, in groups of such as are alike: `lua/main.lua` says how they are written.

use smallvec::SmallVec;
use tidegate_core::{Nanos, Op, Timestamp};

use super::term::{F64_EXACT_MAX, NANOS_PER_MICRO, write_double, write_span};
use crate::grant::at_least_min_ttl;
use crate::redis::plan::{RedisPlan, LeaseOwner, op_code};

/// The groups of a call so far.
#[derive(Default)]
pub(super) struct Groups {
    bytes: Vec<u8>,
    last: Option<Group>,
}

/// Which limit with which cost, on which key: numbers of a call's terms and places of its keys, both from 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupCharge {
    pub term: u16,
    pub key_index: u16,
    /// Of a refund, from when on it counts, if that is known.
    pub counts_from: Option<Timestamp>,
}

pub(super) type GroupCharges = SmallVec<[GroupCharge; 4]>;

/// The group that the next plan may become part of.
struct Group {
    op: Op,
    number: u8,
    /// Where its bytes begin.
    start: usize,
    plans: u16,
    /// Those of its first plan.
    charges: GroupCharges,
    /// How far apart the keys of a charge are from one plan to the next; not known while there is one plan only.
    strides: SmallVec<[u8; 4]>,
}

/// Bytes of a group before its charges, and of each charge.
const HEAD_BYTES: usize = 4;
const CHARGE_BYTES: usize = 5;
/// Where in the head the number of plans is, and in a charge the stride.
const PLANS_AT: usize = 2;
const STRIDE_AT: usize = 4;

impl Groups {
    /// All of them, as the script reads them.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The charges of the last group's first plan.
    pub fn last_charges(&self) -> &[GroupCharge] {
        self.last.as_ref().map_or(&[], |group| &group.charges)
    }

    /// Adds a plan to the last group if it goes on as that does, else to a new one.
    pub fn add(&mut self, order: &RedisPlan, charges: GroupCharges) {
        let op = &order.op;
        if let Some(group) = &mut self.last
            && group.try_extend(order, &charges)
        {
            group.plans += 1;
            group.write_counts(&mut self.bytes);
            return;
        }
        let starts = self.bytes.len();
        // A plan has no more charges than one byte can count, nor a call more terms and keys than two bytes.
        #[allow(clippy::cast_possible_truncation, reason = "a plan has 64 charges at most")]
        self.bytes.extend([op_code(order), charges.len() as u8, 0, 1]);
        for charge in &charges {
            self.bytes.extend((charge.term + 1).to_be_bytes());
            self.bytes.extend((charge.key_index + 1).to_be_bytes());
            self.bytes.push(0);
        }
        write_op_arguments(order, &charges, &mut self.bytes);
        let strides = SmallVec::from_elem(0, charges.len());
        self.last = Some(Group { op: *op, number: op_code(order), start: starts, plans: 1, charges, strides });
    }
}

impl Group {
    /// Whether a plan is the next of this group. Finds out the strides if it is the second.
    fn try_extend(&mut self, order: &RedisPlan, charges: &[GroupCharge]) -> bool {
        let is_same = can_share_group(&self.op, &order.op) && self.number == op_code(order);
        if !is_same || charges.len() != self.charges.len() {
            return false;
        }
        let mut strides: SmallVec<[u8; 4]> = SmallVec::new();
        for ((first, next), stride) in self.charges.iter().zip(charges).zip(&self.strides) {
            let apart = next.key_index.checked_sub(first.key_index);
            let stride = match (self.plans, apart) {
                (1, Some(0)) => 0,
                (1, Some(1)) => 1,
                (plans, Some(apart)) if plans > 1 && apart == plans * u16::from(*stride) => *stride,
                _ => return false,
            };
            if first.term != next.term || first.counts_from != next.counts_from {
                return false;
            }
            strides.push(stride);
        }
        self.strides = strides;
        true
    }

    /// Writes down how many plans there are, and the strides.
    fn write_counts(&self, bytes: &mut [u8]) {
        let plans_at = self.start + PLANS_AT;
        bytes[plans_at..plans_at + 2].copy_from_slice(&self.plans.to_be_bytes());
        // They are known from the second plan on, and do not change.
        if self.plans == 2 {
            for (number, stride) in self.strides.iter().enumerate() {
                bytes[self.start + HEAD_BYTES + number * CHARGE_BYTES + STRIDE_AT] = *stride;
            }
        }
    }
}

/// Whether plans with these can be of one group. Each lease has an owner of its own.
fn can_share_group(one: &Op, other: &Op) -> bool {
    matches!(
        (one, other),
        (Op::Check, Op::Check)
            | (Op::Peek, Op::Peek)
            | (Op::Refund { .. }, Op::Refund { .. })
            | (Op::Reset, Op::Reset)
    )
}

/// What an op needs besides charges.
fn write_op_arguments(order: &RedisPlan, charges: &[GroupCharge], bytes: &mut Vec<u8>) {
    match &order.op {
        Op::Check | Op::Peek | Op::Reset => {}
        Op::Refund { .. } => {
            // Zero is not known. What is later than a double can say is later than any time.
            let from_us =
                |charge: &GroupCharge| charge.counts_from.map(|from| from.as_nanos() / NANOS_PER_MICRO);
            charges
                .iter()
                .for_each(|charge| write_double(bytes, from_us(charge).unwrap_or(0).min(F64_EXACT_MAX)));
        }
        Op::Acquire { ttl } => write_lease(bytes, &order.owner, *ttl, Timestamp::from_nanos(0), 0),
        Op::Renew { token, ttl } => {
            let grant = token.grant();
            write_lease(bytes, &token.seal().to_be_bytes(), *ttl, grant.expires, grant.fencing_token.get());
        }
        Op::Release { token } => {
            let grant = token.grant();
            write_lease(bytes, &token.seal().to_be_bytes(), None, grant.expires, grant.fencing_token.get());
        }
        // The store does not let it come here.
        _ => {}
    }
}

fn write_lease(bytes: &mut Vec<u8>, owner: &LeaseOwner, ttl: Option<Nanos>, expires: Timestamp, fence: u64) {
    bytes.extend(owner);
    // Zero is none.
    write_span(bytes, ttl.map(at_least_min_ttl).unwrap_or_default());
    write_span(bytes, Nanos::new(expires.as_nanos().into()));
    write_double(bytes, fence);
}
