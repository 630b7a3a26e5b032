//! The most that all nodes together admit in each mode: the numbers against plain arithmetic, and quota leases against
//! attacks.
//!
//! An attack takes leases from one counter, as several nodes would. Each lease is used at any time of its life, or its
//! units are given back by a refund. The units that were used may not exceed the bound, in any span.

use std::num::NonZeroU32;

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::algorithm::{Align, WorstCaseScope};
use tidegate_core::{AlgorithmName, Carry, Limit, LimitSpec, Mode, OutcomeKind, TimedCost, Timestamp};

use crate::properties::{limits, proptest_config};
use crate::subject::Subject;

const MICROSECOND_NS: u128 = 1_000;

fn four_algorithms() -> impl Strategy<Value = LimitSpec> {
    let of = |algorithm| limits::of(algorithm).prop_map(|spec| LimitSpec { count_denied: None, ..spec });
    prop_oneof![
        of(AlgorithmName::Gcra),
        of(AlgorithmName::TokenBucket),
        of(AlgorithmName::FixedWindow),
        of(AlgorithmName::SlidingWindow)
    ]
}

fn build(spec: &LimitSpec) -> Limit {
    spec.clone().build().expect("a valid limit")
}

fn at_most_u64(units: u128) -> u64 {
    u64::try_from(units).unwrap_or(u64::MAX)
}

proptest! {
    #![proptest_config(proptest_config(500))]

    #[test]
    fn bounds_are_plain_arithmetic(
        spec in four_algorithms(),
        nodes in 1..2_000_u32,
        micros in 1..60_000_000_u32,
        carry in prop::bool::ANY.prop_map(|is_on| if is_on { Carry::On } else { Carry::Off }),
    ) {
        let limit = build(&spec);
        let (count, micros) = (NonZeroU32::new(nodes).unwrap(), NonZeroU32::new(micros).unwrap());
        let alone = limit.worst_case();
        let strict = limit.mode_bound(Mode::Strict, count);
        prop_assert_eq!((strict.units, strict.scope, strict.excess), (alone.units, alone.scope, None));

        let local = limit.mode_bound(Mode::Local, count);
        prop_assert_eq!(local.units, at_most_u64(u128::from(alone.units) * u128::from(nodes)));

        let leased = limit.mode_bound(Mode::Leased { lease_us: micros }, count);
        let (l, w) = (u128::from(spec.limit), u128::from(limit.rate().window_ns()));
        let t = u128::from(micros.get()) * MICROSECOND_NS;
        let burst = u128::from(spec.burst.unwrap_or(spec.limit));
        let expected = match spec.algorithm.unwrap() {
            _ if alone.units == 0 => 0,
            AlgorithmName::Gcra | AlgorithmName::TokenBucket => at_most_u64(burst + l * (w - 1 + t) / w),
            AlgorithmName::SlidingWindow => at_most_u64(2 * l + l * t / w),
            _ => alone.units,
        };
        prop_assert_eq!((leased.units, leased.excess), (expected, None));
        prop_assert!(leased.units >= alone.units);
        // It does not depend on the number of nodes.
        let other = limit.mode_bound(Mode::Leased { lease_us: micros }, NonZeroU32::MIN);
        prop_assert_eq!(other.units, leased.units);

        let eventual = limit.mode_bound(Mode::Eventual { sync_us: micros, carry }, count);
        prop_assert_eq!(eventual.units, alone.units);
        match eventual.excess {
            None => prop_assert!(nodes == 1 || alone.units == 0),
            Some(excess) => {
                // At 1,000 units per second, the other nodes get this many in two intervals.
                let in_two_intervals = u128::from(nodes - 1) * 2 * t * 1_000;
                prop_assert_eq!(u128::from(excess.units_per_thousand), in_two_intervals.div_ceil(1_000_000_000));
                prop_assert_eq!((excess.round_trips, excess.units_in_all_max), (nodes - 1, local.units));
                let is_forgotten = carry == Carry::Off && spec.algorithm == Some(AlgorithmName::FixedWindow);
                prop_assert_eq!(excess.is_paid_back, !is_forgotten);
            }
        }
        for bound in [strict, local, leased, eventual] {
            prop_assert!(!bound.to_string().is_empty());
        }
    }
}

/// A step of an attack.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Time passes: this many 1/16 of the life of a lease.
    Pass(u8),
    /// Takes a lease of this share of what remains, in 1/4.
    Take(u8),
    /// Uses the units of one of the leases.
    Use(u8),
    /// Gives back a share of the units of one of the leases, in 1/4.
    GiveBack(u8, u8),
}

/// Often the whole of what is left is taken, and the oldest lease is given back: that is what nodes do.
fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..=8_u8).prop_map(Step::Pass),
        4 => Just(Step::Take(4)),
        2 => (1..=4_u8).prop_map(Step::Take),
        1 => any::<u8>().prop_map(Step::Use),
        4 => Just(Step::GiveBack(0, 4)),
        1 => (any::<u8>(), 1..=4_u8).prop_map(|(lease, share)| Step::GiveBack(lease, share)),
    ]
}

/// A quota lease of some node.
#[derive(Clone, Copy, Debug)]
struct HeldLease {
    units: u64,
    debited: Timestamp,
    /// For a fixed window.
    window: Option<u64>,
}

/// The counter in the store, the leases of all nodes, and the units that they used.
struct Attack {
    counter: Subject,
    now: Timestamp,
    life_ns: u64,
    /// The window of a fixed window.
    window_ns: Option<u64>,
    leases: Vec<HeldLease>,
    used: Vec<(Timestamp, u64)>,
}

impl Attack {
    fn new(spec: &LimitSpec, life_ns: u64) -> Self {
        let window_ns = (spec.algorithm == Some(AlgorithmName::FixedWindow)).then_some(spec.per_ns);
        let now = Timestamp::from_nanos(1_000_000_000_000_000_000);
        Self {
            counter: Subject::from_spec(spec),
            now,
            life_ns,
            window_ns,
            leases: Vec::new(),
            used: Vec::new(),
        }
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Pass(sixteenths) => {
                let passed_ns = self.life_ns / 16 * u64::from(sixteenths);
                self.now = Timestamp::from_nanos(self.now.as_nanos() + passed_ns);
                self.drop_over();
            }
            Step::Take(quarters) => {
                let remaining = self.counter.remaining(self.now);
                let units = at_most_u64(u128::from(remaining) * u128::from(quarters) / 4);
                self.take(units);
            }
            Step::Use(index) => {
                if let Some(lease) = self.remove(index) {
                    self.used.push((self.now, lease.units));
                }
            }
            Step::GiveBack(index, quarters) => {
                let Some(lease) = self.remove(index) else { return };
                let units = at_most_u64((u128::from(lease.units) * u128::from(quarters)).div_ceil(4));
                self.counter.refund_charged(TimedCost { now: self.now, cost: units }, lease.debited);
                if lease.units > units {
                    self.leases.push(HeldLease { units: lease.units - units, ..lease });
                }
            }
        }
    }

    fn take(&mut self, units: u64) {
        let request = TimedCost { now: self.now, cost: units };
        if units > 0 && self.counter.outcome_kind(request) == OutcomeKind::Allowed {
            self.counter.charge(request);
            let window = self.window_ns.map(|window_ns| self.now.as_nanos() / window_ns);
            self.leases.push(HeldLease { units, debited: self.now, window });
        }
    }

    /// Uses all leases, and all that can still be taken.
    fn use_all(&mut self) {
        self.take(self.counter.remaining(self.now));
        let units: u64 = self.leases.drain(..).map(|lease| lease.units).sum();
        self.used.push((self.now, units));
    }

    fn remove(&mut self, index: u8) -> Option<HeldLease> {
        let count = self.leases.len();
        (count > 0).then(|| self.leases.remove(usize::from(index) % count))
    }

    /// Leases that are over are neither used nor given back: their nodes were killed.
    fn drop_over(&mut self) {
        let (now_ns, life_ns, window_ns) = (self.now.as_nanos(), self.life_ns, self.window_ns);
        self.leases.retain(|lease| {
            now_ns - lease.debited.as_nanos() <= life_ns
                && window_ns.is_none_or(|window_ns| lease.window == Some(now_ns / window_ns))
        });
    }
}

proptest! {
    #![proptest_config(proptest_config(1_500))]

    /// Refunds count from the instant of the debit. Were they to count from the instant that
    /// [`ChargedAt::from_outcomes`](tidegate_core::ChargedAt::from_outcomes) returns, several nodes that give back
    /// leases of one bucket could together use more.
    #[test]
    fn leases_keep_to_the_bound(
        algorithm in prop::sample::select(vec![
            AlgorithmName::Gcra, AlgorithmName::TokenBucket, AlgorithmName::FixedWindow, AlgorithmName::SlidingWindow,
        ]),
        limit in 1..200_u64,
        burst in 1..200_u64,
        life_sixteenths in 1..=16_u64,
        steps in vec(step(), 1..80),
    ) {
        const WINDOW_NS: u64 = 16_000_000_000;
        let is_bucket = matches!(algorithm, AlgorithmName::Gcra | AlgorithmName::TokenBucket);
        let spec = LimitSpec {
            algorithm: Some(algorithm),
            limit,
            per_ns: WINDOW_NS,
            burst: is_bucket.then_some(burst),
            align: (algorithm == AlgorithmName::FixedWindow).then_some(Align::Epoch),
            ..LimitSpec::default()
        };
        let life_ns = WINDOW_NS / 16 * life_sixteenths;
        let mut attack = Attack::new(&spec, life_ns);
        for step in steps {
            attack.run(step);
        }
        attack.use_all();
        let lease_us = NonZeroU32::new(u32::try_from(life_ns / 1_000).unwrap()).unwrap();
        let bound = build(&spec).mode_bound(Mode::Leased { lease_us }, NonZeroU32::new(9).unwrap());
        let WorstCaseScope::AnyWindow { window_ns } = bound.scope else { panic!("{bound:?}") };
        for (first, (from, _)) in attack.used.iter().enumerate() {
            let mut units = 0_u64;
            for (at, used) in &attack.used[first..] {
                units += used;
                let span_ns = at.as_nanos() - from.as_nanos();
                if span_ns < window_ns {
                    prop_assert!(units <= bound.units, "{units} units in {span_ns}ns, {bound}");
                }
                if is_bucket {
                    let refill = u128::from(limit) * u128::from(span_ns + life_ns) / u128::from(WINDOW_NS);
                    prop_assert!(u128::from(units) <= u128::from(burst) + refill, "{units} units in {span_ns}ns");
                }
                if algorithm == AlgorithmName::FixedWindow && from.as_nanos() / WINDOW_NS == at.as_nanos() / WINDOW_NS {
                    prop_assert!(units <= limit, "{units} units in one window");
                }
            }
        }
    }
}
