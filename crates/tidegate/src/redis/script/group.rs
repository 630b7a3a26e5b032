//! The plans of a call, grouped: `lua/main.lua` describes the format.

use smallvec::SmallVec;
use tidegate_core::{Nanos, Op, Timestamp};

use super::term::{F64_EXACT_MAX, NANOS_PER_MICRO, write_double, write_span};
use crate::leases::grant::at_least_min_ttl;
use crate::redis::plan::{LeaseOwner, RedisPlan, op_code};

/// The groups of a call so far.
#[derive(Default)]
pub(super) struct Groups {
    bytes: Vec<u8>,
    last: Option<Group>,
}

/// One charge: the index of its term and of its key, both from 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupCharge {
    pub term: u16,
    pub key_index: u16,
    /// For a refund: when the refunded charge started to count, if known.
    pub counts_from: Option<Timestamp>,
}

pub(super) type GroupCharges = SmallVec<[GroupCharge; 4]>;

/// The last group, which the next plan may join.
struct Group {
    op: Op,
    number: u8,
    /// Where its bytes start.
    start: usize,
    plans: u16,
    /// The charges of its first plan.
    charges: GroupCharges,
    /// For each charge, the distance between the keys of consecutive plans. Unknown while there is only one
    /// plan.
    strides: SmallVec<[u8; 4]>,
}

/// Bytes of a group before its charges, and of each charge.
const HEAD_BYTES: usize = 5;
const CHARGE_BYTES: usize = 5;
/// The offset of the plan count in the head, and of the stride in a charge.
const PLANS_AT: usize = 3;
const STRIDE_AT: usize = 4;

impl Groups {
    /// The encoded groups, as the script reads them.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The charges of the last group's first plan.
    pub fn last_charges(&self) -> &[GroupCharge] {
        self.last.as_ref().map_or(&[], |group| &group.charges)
    }

    /// Adds a plan to the last group if it continues it, or else to a new group.
    pub fn add(&mut self, plan: &RedisPlan, charges: GroupCharges) {
        let op = &plan.op;
        if let Some(group) = &mut self.last
            && group.try_extend(plan, &charges)
        {
            group.plans += 1;
            group.write_counts(&mut self.bytes);
            return;
        }
        let start = self.bytes.len();
        // Neither a plan has more charges, nor a call more terms and keys, than two bytes can count.
        #[allow(clippy::cast_possible_truncation, reason = "a plan has PLAN_CHARGES_MAX charges at most")]
        let [high, low] = (charges.len() as u16).to_be_bytes();
        self.bytes.extend([op_code(plan), high, low, 0, 1]);
        for charge in &charges {
            self.bytes.extend((charge.term + 1).to_be_bytes());
            self.bytes.extend((charge.key_index + 1).to_be_bytes());
            self.bytes.push(0);
        }
        write_op_arguments(plan, &charges, &mut self.bytes);
        let strides = SmallVec::from_elem(0, charges.len());
        self.last = Some(Group { op: *op, number: op_code(plan), start, plans: 1, charges, strides });
    }
}

impl Group {
    /// Whether a plan continues this group. The second plan sets the strides.
    fn try_extend(&mut self, plan: &RedisPlan, charges: &[GroupCharge]) -> bool {
        let is_same_op = can_share_group(&self.op, &plan.op) && self.number == op_code(plan);
        if !is_same_op || charges.len() != self.charges.len() {
            return false;
        }
        let mut strides: SmallVec<[u8; 4]> = SmallVec::new();
        for ((first, next), stride) in self.charges.iter().zip(charges).zip(&self.strides) {
            let distance = next.key_index.checked_sub(first.key_index);
            let stride = match (self.plans, distance) {
                (1, Some(0)) => 0,
                (1, Some(1)) => 1,
                (plans, Some(distance)) if plans > 1 && distance == plans * u16::from(*stride) => *stride,
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

    /// Writes the plan count and the strides.
    fn write_counts(&self, bytes: &mut [u8]) {
        let plans_at = self.start + PLANS_AT;
        bytes[plans_at..plans_at + 2].copy_from_slice(&self.plans.to_be_bytes());
        // The strides are known from the second plan on, and do not change.
        if self.plans == 2 {
            for (number, stride) in self.strides.iter().enumerate() {
                bytes[self.start + HEAD_BYTES + number * CHARGE_BYTES + STRIDE_AT] = *stride;
            }
        }
    }
}

/// Whether plans with these ops can share a group. Leases cannot: each has its own owner.
fn can_share_group(one: &Op, other: &Op) -> bool {
    matches!(
        (one, other),
        (Op::Check, Op::Check)
            | (Op::Peek, Op::Peek)
            | (Op::Refund { .. }, Op::Refund { .. })
            | (Op::Reset, Op::Reset)
    ) || matches!((one, other), (Op::Count { ago }, Op::Count { ago: other_ago }) if ago == other_ago)
}

/// Writes the arguments of an op besides its charges.
fn write_op_arguments(plan: &RedisPlan, charges: &[GroupCharge], bytes: &mut Vec<u8>) {
    match &plan.op {
        Op::Check | Op::Peek | Op::Reset => {}
        Op::Count { ago } => write_double(bytes, whole_micros_of(*ago)),
        Op::Refund { .. } => {
            // Zero means unknown. An instant beyond the exact range of a double is later than any real time.
            let from_us =
                |charge: &GroupCharge| charge.counts_from.map(|from| from.as_nanos() / NANOS_PER_MICRO);
            charges
                .iter()
                .for_each(|charge| write_double(bytes, from_us(charge).unwrap_or(0).min(F64_EXACT_MAX)));
        }
        Op::Acquire { ttl } => write_lease(bytes, &plan.owner, *ttl, Timestamp::from_nanos(0), 0),
        Op::Renew { token, ttl } => {
            let grant = token.grant();
            write_lease(bytes, &token.seal().to_be_bytes(), *ttl, grant.expires, grant.fencing_token.get());
        }
        Op::Release { token } => {
            let grant = token.grant();
            write_lease(bytes, &token.seal().to_be_bytes(), None, grant.expires, grant.fencing_token.get());
        }
        // The store rejects other ops before they get here.
        _ => {}
    }
}

/// Rounded down: units that were used later have drained less.
fn whole_micros_of(span: Nanos) -> u64 {
    u64::try_from(span.get() / u128::from(NANOS_PER_MICRO)).unwrap_or(u64::MAX).min(F64_EXACT_MAX)
}

fn write_lease(bytes: &mut Vec<u8>, owner: &LeaseOwner, ttl: Option<Nanos>, expires: Timestamp, fence: u64) {
    bytes.extend(owner);
    // Zero means none.
    write_span(bytes, ttl.map(at_least_min_ttl).unwrap_or_default());
    write_span(bytes, Nanos::new(expires.as_nanos().into()));
    write_double(bytes, fence);
}
