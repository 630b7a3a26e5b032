//! Random plans on Redis and in memory must have the same outcomes, to the last unit and nanosecond.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;
use proptest::sample::Index;
use tidegate_core::algorithm::PackedAlgorithm;
use tidegate_core::{Algorithm, Charge, ChargedAt, Nanos, OutcomeKind, Plan, UNITS_MAX};

use super::*;
use crate::redis::script::term::calendar_of;
use crate::{MemoryStore, Outcomes};

/// Every algorithm and option, with small, large and odd numbers.
const LIMITS: &[&str] = &[
    "{algorithm: gcra, limit: 10, per: 1s, burst: 5}",
    "{algorithm: gcra, limit: 7, per: 1s, burst: 20}",
    "{algorithm: gcra, limit: 1000003, per: 1s, burst: 3}",
    "{algorithm: gcra, limit: 10000000, per: 1s, burst: 50}",
    "{algorithm: gcra, limit: 3, per: 3000001ns, burst: 2}",
    "{algorithm: gcra, limit: 1099511627775, per: 3650d, burst: 1099511627775}",
    "{algorithm: gcra, limit: 1, per: 365d, burst: 60}",
    "{algorithm: gcra, limit: 1, per: 365d, burst: 1000}",
    "{algorithm: gcra, limit: 0, per: 1s, burst: 3}",
    "{algorithm: token_bucket, limit: 7, per: 3650d, burst: 1000}",
    "{algorithm: token_bucket, limit: 5, per: 1s, burst: 9}",
    "{algorithm: token_bucket, limit: 1, per: 3650d, burst: 1099511627775}",
    "{algorithm: leaky_bucket, limit: 3, per: 1s, queue: 4}",
    "{algorithm: leaky_bucket, limit: 10000000, per: 1s, queue: 7}",
    "{algorithm: leaky_bucket, limit: 1, per: 365d, queue: 200}",
    "{algorithm: fixed_window, limit: 10, per: 1s}",
    "{algorithm: fixed_window, limit: 50, per: 1000001ns}",
    "{algorithm: fixed_window, limit: 5000000, per: 60s, count_denied: true}",
    "{algorithm: fixed_window, limit: 10, per: 1s, count_denied: true}",
    "{algorithm: fixed_window, limit: 6, per: 1s, count_denied: if_over}",
    "{algorithm: fixed_window, limit: 1099511627775, per: 3650d}",
    "{algorithm: fixed_window, limit: 50, per: 1000001ns, align: first_hit}",
    "{algorithm: fixed_window, limit: 9, per: 1s, align: first_hit, count_denied: true}",
    "{algorithm: fixed_window, limit: 9, per: day, align: {tz: Europe/Paris}}",
    "{algorithm: fixed_window, limit: 9, per: week, align: {tz: America/New_York, week_starts: sunday}}",
    "{algorithm: fixed_window, limit: 9, per: month, align: {tz: Asia/Kolkata, day_of_month: 31}, count_denied: true}",
    "{algorithm: sliding_window, limit: 10, per: 1s}",
    "{algorithm: sliding_window, limit: 50, per: 1000001ns}",
    "{algorithm: sliding_window, limit: 5000000, per: 60s}",
    "{algorithm: sliding_window, limit: 1099511627775, per: 3650d}",
    "{algorithm: sliding_window, limit: 0, per: 1s}",
    "{algorithm: sub_windows, limit: 10, per: 1s}",
    "{algorithm: sub_windows, limit: 50, per: 1000001ns, sub_windows: 7, strict: false}",
    "{algorithm: sub_windows, limit: 1099511627775, per: 3650d, sub_windows: 65536}",
    "{algorithm: sub_windows, limit: 5, per: 1s, sub_windows: 1}",
    "{algorithm: sliding_log, limit: 10, per: 1s}",
    "{algorithm: sliding_log, limit: 50, per: 1000001ns, min_interval: 70001ns}",
    "{algorithm: sliding_log, limit: 9, per: 1s, count_denied: true, min_interval: 10ms}",
    "{algorithm: sliding_log, limit: 8, per: 1s, count_denied: if_over}",
    "{algorithm: sliding_log, limit: 1099511627775, per: 3650d}",
    "{algorithm: concurrency, limit: 5, ttl: 1s}",
    "{algorithm: concurrency, limit: 8, ttl: 333333334ns}",
    "{algorithm: concurrency, limit: 1099511627775, ttl: 3650d}",
];

/// Sums are not exact after this, and long windows must not end with it.
const LATEST_US: u64 = 3 * START_US / 2;
/// Redis cannot store a later expiry, and it would not matter.
const EXPIRES_MS_MAX: u128 = 1 << 52;
/// L as written: four quarters.
const QUARTERS: u64 = 4;
/// Limits of a case, which share plans.
const LIMITS_MAX: usize = 4;

/// One step of a case: time moves, then one call.
#[derive(Clone, Debug)]
struct PlanStep {
    time: TimeMove,
    plans: Vec<PlanSpec>,
}

/// How time moves.
#[derive(Clone, Debug)]
enum TimeMove {
    None,
    /// By a number of thousandths of a time scale of a limit.
    Forward(Index, TimeScale, u64),
    Back(Index, TimeScale, u64),
}

/// A time scale of a limit.
#[derive(Clone, Copy, Debug)]
enum TimeScale {
    Window,
    Interval,
    Micro,
}

/// A plan, repeated.
#[derive(Clone, Debug)]
struct PlanSpec {
    kind: PlanKind,
    /// Bits per limit: whether the plan uses it, which of two keys it has, and whether it is observed.
    limits_used: u8,
    second_key: u8,
    observed: u8,
    costs: [Cost; LIMITS_MAX],
    /// L is multiplied by this, in quarters.
    quarters: u64,
    times: usize,
    /// Whether each repetition has its own keys.
    spread: bool,
}

#[derive(Clone, Copy, Debug)]
enum PlanKind {
    Check,
    Peek,
    Deny {
        counted: bool,
    },
    /// Refunds the charge of that key which is this many charges back, if it is known.
    Refund(Option<usize>),
    /// Refunds the admitted plan which is this many plans back, with the time of its charge.
    RefundPlan(usize),
    /// Counts units that were used since the charge which is this many charges back.
    Count(usize),
    Reset,
}

#[derive(Clone, Copy, Debug)]
enum Cost {
    Units(u64),
    /// Eighths of L.
    Eighths(u64),
    OverLimit,
    Maximum,
}

fn steps() -> impl Strategy<Value = Vec<PlanStep>> {
    let scale = prop_oneof![Just(TimeScale::Window), Just(TimeScale::Interval), Just(TimeScale::Micro)];
    let distance = (any::<Index>(), scale, 0..2_500_u64);
    let time = prop_oneof![
        4 => Just(TimeMove::None),
        6 => distance.clone().prop_map(|(limit, scale, thousandths)| TimeMove::Forward(limit, scale, thousandths)),
        1 => distance.prop_map(|(limit, scale, thousandths)| TimeMove::Back(limit, scale, thousandths)),
    ];
    let cost = prop_oneof![
        6 => (0..4_u64).prop_map(Cost::Units),
        2 => (0..=8_u64).prop_map(Cost::Eighths),
        1 => Just(Cost::OverLimit),
        1 => Just(Cost::Maximum),
    ];
    let kind = prop_oneof![
        16 => Just(PlanKind::Check),
        3 => Just(PlanKind::Peek),
        1 => any::<bool>().prop_map(|counted| PlanKind::Deny { counted }),
        3 => proptest::option::of(0..4_usize).prop_map(PlanKind::Refund),
        3 => (0..6_usize).prop_map(PlanKind::RefundPlan),
        3 => (0..4_usize).prop_map(PlanKind::Count),
        1 => Just(PlanKind::Reset),
    ];
    let quarters = prop_oneof![8 => Just(QUARTERS), 1 => 1..12_u64];
    let times = prop_oneof![4 => Just(1_usize), 2 => 2..5_usize, 1 => Just(40_usize)];
    let observed = prop_oneof![3 => Just(0_u8), 1 => any::<u8>()];
    let plan =
        (kind, 1..16_u8, any::<u8>(), observed, prop::array::uniform4(cost), quarters, times, any::<bool>())
            .prop_map(|(kind, limits_used, second_key, observed, costs, quarters, times, spread)| PlanSpec {
                kind,
                limits_used,
                second_key,
                observed,
                costs,
                quarters,
                times,
                spread,
            });
    let step = (time, prop::collection::vec(plan, 1..4)).prop_map(|(time, plans)| PlanStep { time, plans });
    prop::collection::vec(step, 1..40)
}

proptest! {
    #![proptest_config(tidegate_testing::proptest_config(75))]

    #[test]
    fn redis_counts_as_memory_does(
        limits in prop::collection::vec(prop::sample::select(LIMITS), 1..=LIMITS_MAX),
        from_epoch in prop::bool::weighted(0.1),
        limits_change in any::<bool>(),
        steps in steps(),
    ) {
        SHARED.with_borrow_mut(|server| {
            server.flush();
            PlanCase { limits_change, ..PlanCase::new(&limits, from_epoch) }.run(server, &steps)
        })?;
    }
}

/// Rates for one arrival time, from narrow to wide.
const RATES: &[&str] = &[
    "{algorithm: gcra, limit: 10, per: 1s, burst: 5}",
    "{algorithm: gcra, limit: 7, per: 1s, burst: 20}",
    "{algorithm: gcra, limit: 1000003, per: 1s, burst: 3}",
    "{algorithm: gcra, limit: 3, per: 3000001ns, burst: 2}",
    "{algorithm: gcra, limit: 1099511627775, per: 3650d, burst: 1099511627775}",
    "{algorithm: gcra, limit: 1, per: 365d, burst: 60}",
    "{algorithm: gcra, limit: 1, per: 365d, burst: 1000}",
    "{algorithm: gcra, limit: 7, per: 3650d, burst: 1000}",
    "{algorithm: gcra, limit: 1, per: 3650d, burst: 1099511627775}",
    "{algorithm: gcra, limit: 0, per: 1s, burst: 3}",
];

proptest! {
    #![proptest_config(tidegate_testing::proptest_config(50))]

    #[test]
    fn an_arrival_time_means_the_same_under_every_rate(
        checks in prop::collection::vec((0..RATES.len(), 0..4_u64, any::<bool>(), 0..3_000_000_u64), 1..60),
    ) {
        let (memory, mut now_us) = (MemoryStore::unbounded(), START_US);
        SHARED.with_borrow_mut(|server| {
            server.flush();
            for (rate, cost, is_enforced, advance_us) in checks {
                now_us += advance_us;
                let counter = Counter::shared_gcra("random", limit(RATES[rate])).expect("it is gcra");
                let role = if is_enforced { Role::Enforced } else { Role::Observed };
                let mut plan = Plan::new();
                plan.add(Charge { role, ..Charge::new(b"key", &counter, cost) }).expect("there is room");
                let charge = RedisCharge { role, ..charge("key", counter.limit(), cost) };
                let reply = server.call_one_at(now_us, redis_plan(Op::Check, [charge]));
                prop_assert_eq!(reply.outcomes, memory.check(&plan, Timestamp::from_nanos(now_us * 1_000)));
            }
            Ok(())
        })?;
    }
}

thread_local! {
    static SHARED: std::cell::RefCell<ScriptServer> = ScriptServer::new().into();
}

struct PlanCase {
    limits: Vec<Limit>,
    memory: MemoryStore,
    now_us: u64,
    limits_change: bool,
    /// When the charges of a key started to count, the newest last.
    counts_from_by_key: HashMap<String, Vec<Timestamp>>,
    /// Admitted plans, the newest last.
    admitted_plans: Vec<AdmittedPlan>,
    /// Keys that were counted.
    counted_keys: HashSet<String>,
}

/// An admitted plan.
#[derive(Clone, Debug)]
struct AdmittedPlan {
    at: ChargedAt,
    counters: Vec<(Counter, String)>,
    charges: Vec<RedisCharge>,
}

/// A plan as pair stores get it.
struct PlanPair {
    kind: PlanKind,
    counters: Vec<(Counter, String)>,
    redis_plan: RedisPlan,
    charged_at: Option<ChargedAt>,
}

impl PlanCase {
    fn new(limits: &[&str], from_epoch: bool) -> Self {
        let now_us = if from_epoch { 0 } else { START_US };
        Self {
            limits: limits.iter().map(|text| limit(text)).collect(),
            memory: MemoryStore::unbounded(),
            now_us,
            limits_change: false,
            counts_from_by_key: HashMap::new(),
            admitted_plans: Vec::new(),
            counted_keys: HashSet::new(),
        }
    }

    fn run(&mut self, server: &mut ScriptServer, steps: &[PlanStep]) -> Result<(), TestCaseError> {
        for step in steps {
            self.advance(&step.time);
            let specs = step.plans.iter().flat_map(|spec| (0..spec.times).map(move |time| (spec, time)));
            let pairs: Vec<PlanPair> = specs.filter_map(|(spec, time)| self.plan_pair(spec, time)).collect();
            let plans: Vec<RedisPlan> = pairs.iter().map(|pair| pair.redis_plan.clone()).collect();
            if plans.is_empty() {
                continue;
            }
            let replies = server.call_at(self.now_us, plans);
            prop_assert_eq!(replies.len(), pairs.len());
            for (pair, reply) in pairs.iter().zip(replies) {
                let reply = reply.map_err(|error| TestCaseError::fail(format!("{error:?}")))?;
                let expected = self.run_in_memory(pair);
                if matches!(pair.kind, PlanKind::Check) && reply.admitted == OutcomeKind::Allowed {
                    self.record_admitted(pair, &expected, reply.at);
                }
                prop_assert_eq!(&reply.outcomes, &expected, "{:?} at {}", pair.redis_plan, self.now_us);
                // The outcomes computed from the states before the plan are the same.
                if let Some(states) =
                    reply.states.as_ref().filter(|_| !matches!(pair.kind, PlanKind::Count(_)))
                {
                    let previewed =
                        preview_outcomes(&pair.redis_plan.charges, states, reply.at, reply.admitted);
                    prop_assert_eq!(previewed, expected, "{:?} at {}", pair.redis_plan, self.now_us);
                    self.record_counts_from(pair, states, reply.at);
                }
            }
            // The fraction of a nanosecond, on which an expiry may depend, means something else under another
            // L.
            if !self.limits_change {
                // A count keeps an arrival time for longer.
                let is_counted = |pair: &&PlanPair| matches!(pair.kind, PlanKind::Count(_));
                let counted = pairs.iter().filter(is_counted).flat_map(|pair| &pair.counters);
                self.counted_keys.extend(counted.map(|(_, key)| key.clone()));
                let compared = pairs.iter().flat_map(|pair| &pair.counters);
                for (counter, key) in compared.filter(|(_, key)| !self.counted_keys.contains(key)) {
                    self.compare_expiry(server, counter, key)?;
                }
            }
        }
        Ok(())
    }

    /// A key exists until it equals one never seen, and at most until the end of that millisecond.
    fn compare_expiry(
        &self,
        server: &mut ScriptServer,
        counter: &Counter,
        key: &str,
    ) -> Result<(), TestCaseError> {
        let mut plan = Plan::new();
        plan.add(Charge::new(key.as_bytes(), counter, 0)).expect("there is room");
        let now = Timestamp::from_nanos(self.now_us * 1_000);
        let reset_after = self.memory.peek(&plan, now)[0].reset_after;
        if reset_after.get() > 0 {
            let resets_ns = u128::from(now.as_nanos()) + reset_after.get();
            let expected = i64::try_from(resets_ns.div_ceil(1_000_000).min(EXPIRES_MS_MAX)).ok();
            prop_assert_eq!(
                server.expires_ms(key.as_bytes()),
                expected,
                "{} at {}",
                counter.limit(),
                self.now_us
            );
        }
        Ok(())
    }

    fn advance(&mut self, time: &TimeMove) {
        let distance_us = |limit: &Index, scale: &TimeScale, thousandths: u64| {
            let rate = limit.get(&self.limits).rate();
            let scale_ns = match scale {
                TimeScale::Window => rate.window_ns(),
                TimeScale::Interval => rate.window_ns() / rate.limit().max(1),
                TimeScale::Micro => 1_000,
            };
            u64::try_from(u128::from(scale_ns) * u128::from(thousandths) / 1_000_000).unwrap_or(u64::MAX)
        };
        self.now_us = match time {
            TimeMove::None => self.now_us,
            TimeMove::Forward(limit, scale, thousandths) => {
                self.now_us + distance_us(limit, scale, *thousandths)
            }
            TimeMove::Back(limit, scale, thousandths) => {
                self.now_us.saturating_sub(distance_us(limit, scale, *thousandths))
            }
        };
        if self.now_us > LATEST_US {
            self.now_us = START_US;
        }
    }

    /// The plan for one repetition; none if it is empty.
    fn plan_pair(&self, spec: &PlanSpec, time: usize) -> Option<PlanPair> {
        if let PlanKind::RefundPlan(ago) = spec.kind {
            return self.refund_pair(ago);
        }
        let mut counters = Vec::new();
        let mut charges: Vec<RedisCharge> = Vec::new();
        for (index, limit) in self.limits.iter().enumerate() {
            let has = |bits: u8| bits >> index & 1 == 1;
            // The memory store keeps more of a fencing token over a reset than one key needs.
            let is_lease = matches!(limit.algorithm(), tidegate_core::Algorithm::Leases(_));
            if !has(spec.limits_used) || is_lease && matches!(spec.kind, PlanKind::Reset) {
                continue;
            }
            if matches!(spec.kind, PlanKind::Count(_)) && !can_count(limit) {
                continue;
            }
            let counter = Counter::new("random", index, limit.clone());
            let quarters = if self.limits_change { spec.quarters } else { QUARTERS };
            let units = u128::from(limit.rate().limit()) * u128::from(quarters) / u128::from(QUARTERS);
            let counter = counter.resized(u64::try_from(units).unwrap_or(UNITS_MAX));
            let units = counter.limit().rate().limit();
            let cost = match spec.costs[index] {
                Cost::Units(units) => units,
                Cost::Eighths(eighths) => units / 8 * eighths,
                Cost::OverLimit => units + 1,
                // The script counts no debt of centuries.
                Cost::Maximum if matches!(spec.kind, PlanKind::Count(_)) => 3,
                Cost::Maximum => u64::MAX,
            };
            let repetition = if spec.spread { time } else { 0 };
            let key = format!("{index}:{}:{repetition}", u8::from(has(spec.second_key)));
            let role = if has(spec.observed) { Role::Observed } else { Role::Enforced };
            let counts_from =
                if let PlanKind::Refund(Some(ago)) = spec.kind { self.counts_from(&key, ago) } else { None };
            charges.push(RedisCharge { role, counts_from, ..charge(&key, counter.limit(), cost) });
            counters.push((counter, key));
        }
        let op = match spec.kind {
            PlanKind::Check => Op::Check,
            PlanKind::Peek => Op::Peek,
            PlanKind::Deny { counted } => Op::Deny { counted },
            PlanKind::Refund(_) | PlanKind::RefundPlan(_) => Op::Refund { charged_at: None },
            PlanKind::Count(ago) => {
                let from =
                    counters.first().and_then(|(_, key)| self.counts_from(key, ago)).unwrap_or_default();
                let ago_ns = (self.now_us * 1_000).saturating_sub(from.as_nanos());
                Op::Count { ago: Nanos::new(ago_ns.into()) }
            }
            PlanKind::Reset => Op::Reset,
        };
        let plan = RedisPlan { returns_states: time.is_multiple_of(2), ..redis_plan(op, charges) };
        (!counters.is_empty()).then_some(PlanPair {
            kind: spec.kind,
            counters,
            redis_plan: plan,
            charged_at: None,
        })
    }

    /// The refund of an earlier plan; none if there is none, or if its calendar windows were not sent. The
    /// difference for past windows shows only if time steps back to them.
    fn refund_pair(&self, ago: usize) -> Option<PlanPair> {
        let AdmittedPlan { at, counters, charges } = self.admitted_plans.iter().rev().nth(ago)?.clone();
        let window_ns = self.limits.iter().map(|limit| limit.rate().window_ns()).min().unwrap_or(0);
        let (at_ns, now_ns) = (at.at.as_nanos(), self.now_us * 1_000);
        let has_calendar = charges.iter().any(|charge| calendar_of(&charge.algorithm).is_some());
        if at_ns > now_ns + window_ns || at_ns == 0 || has_calendar && at_ns + window_ns < now_ns {
            return None;
        }
        let counts_from = |charge: &RedisCharge| Some(whole_micros(at.counted_from(&charge.algorithm)));
        let charges =
            charges.iter().map(|charge| RedisCharge { counts_from: counts_from(charge), ..charge.clone() });
        let plan = redis_plan(Op::Refund { charged_at: Some(at) }, charges);
        Some(PlanPair { kind: PlanKind::RefundPlan(ago), counters, redis_plan: plan, charged_at: Some(at) })
    }

    fn record_admitted(&mut self, pair: &PlanPair, outcomes: &Outcomes, at: Timestamp) {
        let at = ChargedAt::from_outcomes(&plan_of(pair), outcomes, at);
        // The script gets whole microseconds.
        let at = ChargedAt { bucket_counts_from: whole_micros(at.bucket_counts_from), ..at };
        let (counters, charges) = (pair.counters.clone(), pair.redis_plan.charges.to_vec());
        self.admitted_plans.push(AdmittedPlan { at, counters, charges });
    }

    /// Records when the charges of a plan started to count.
    fn record_counts_from(&mut self, pair: &PlanPair, states: &[KeyState], at: Timestamp) {
        for (((_, key), charge), state) in pair.counters.iter().zip(&pair.redis_plan.charges).zip(states) {
            self.counts_from_by_key.entry(key.clone()).or_default().push(counts_from(charge, state, at));
        }
    }

    /// When the charge started to count that is `ago` charges back; if there is none, half a window ago.
    fn counts_from(&self, key: &str, ago: usize) -> Option<Timestamp> {
        let recorded =
            self.counts_from_by_key.get(key).and_then(|recorded| recorded.iter().rev().nth(ago).copied());
        // The calendar windows that are sent reach this far. A charge beyond them is distinguished from one
        // in the last of them only if it matters, which requires time to step back by a whole window.
        let window_us = self.limits.iter().map(|limit| limit.rate().window_ns()).min().unwrap_or(0) / 1_000;
        let sent_us = self.now_us.saturating_sub(window_us)..=self.now_us + window_us;
        let from_us =
            recorded.map_or(self.now_us.saturating_sub(window_us / 2), |from| from.as_nanos() / 1_000);
        // Zero means unknown.
        Some(Timestamp::from_nanos(from_us.clamp(*sent_us.start(), *sent_us.end()).max(1) * 1_000))
    }

    fn run_in_memory(&self, pair: &PlanPair) -> Outcomes {
        let plan = plan_of(pair);
        let now = Timestamp::from_nanos(self.now_us * 1_000);
        match pair.kind {
            PlanKind::Check => return self.memory.check(&plan, now),
            PlanKind::Peek => return self.memory.peek(&plan, now),
            PlanKind::Deny { counted } => return self.memory.deny(&plan, now, counted),
            PlanKind::Refund(None) => self.memory.refund(&plan, now),
            PlanKind::Refund(Some(_)) => {
                for (charge, redis_charge) in plan.charges().iter().zip(&pair.redis_plan.charges) {
                    self.memory.refund_charged_from(
                        charge,
                        redis_charge.counts_from.expect("it was recorded"),
                        now,
                    );
                }
            }
            PlanKind::RefundPlan(_) => {
                self.memory.refund_charged_at(&plan, pair.charged_at.expect("it was recorded"), now);
            }
            PlanKind::Count(_) => {
                let Op::Count { ago } = pair.redis_plan.op else { unreachable!("it counts") };
                for charge in plan.charges() {
                    self.memory.count_since(charge, now.saturating_sub(ago), now);
                }
            }
            PlanKind::Reset => self.memory.reset(&plan),
        }
        Outcomes::new()
    }
}

/// Whether the script can count units of a limit beyond the limit.
fn can_count(limit: &Limit) -> bool {
    match limit.algorithm() {
        Algorithm::Packed(PackedAlgorithm::Gcra(gcra)) => gcra.burst_span().whole_ns < 1 << 52,
        Algorithm::Packed(PackedAlgorithm::TokenBucket(bucket)) => {
            bucket.as_gcra().burst_span().whole_ns < 1 << 52
        }
        Algorithm::Packed(PackedAlgorithm::LeakyBucket(bucket)) => {
            bucket.as_gcra().burst_span().whole_ns < 1 << 52
        }
        Algorithm::Packed(_) => true,
        _ => false,
    }
}

fn plan_of(pair: &PlanPair) -> Plan<'_> {
    let mut plan = Plan::new();
    for ((counter, key), charge) in pair.counters.iter().zip(&pair.redis_plan.charges) {
        let charge = Charge { role: charge.role, ..Charge::new(key.as_bytes(), counter, charge.cost) };
        plan.add(charge).expect("there is room");
    }
    plan
}
