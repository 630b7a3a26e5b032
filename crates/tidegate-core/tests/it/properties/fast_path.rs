//! The fast path of one unit: whatever it decides, the algorithm decides too, to the last bit of state and outcome.

use proptest::prelude::*;
use proptest::sample::select;
use tidegate_core::algorithm::LimitAlgorithm;
use tidegate_core::{
    Algorithm, AlgorithmName, Counter, Limit, LimitSpec, OutcomeKind, PackedState, TimedCost, Timestamp,
};

use crate::properties::no_panics::change_of_limit;
use crate::properties::requests::requests;
use crate::properties::{limits, proptest_config};
use crate::subject::Subject;

const WITH_FAST_PATH: [AlgorithmName; 5] = [
    AlgorithmName::Gcra,
    AlgorithmName::TokenBucket,
    AlgorithmName::LeakyBucket,
    AlgorithmName::FixedWindow,
    AlgorithmName::SlidingWindow,
];

/// Whether the fast path decided. Fails if it decided otherwise than the algorithm.
fn is_decided_alike(limit: &Limit, state: PackedState, now: Timestamp) -> Result<bool, TestCaseError> {
    let counter = Counter::new("rule", 0, limit.clone());
    let Some(path) = counter.fast_path() else { return Ok(false) };
    let unprepared = path.charge(state, now);
    path.refresh(now);
    let (charge, denial) = (path.charge(state, now), path.denial(state, now));
    prop_assert!(
        unprepared.is_none_or(|early| charge.is_some_and(|charge| charge.state == early.state)),
        "{} decides {:?} otherwise before a refresh",
        limit,
        state
    );
    prop_assert!(charge.is_none() || denial.is_none(), "{} both admits and denies {:?}", limit, state);
    let (fast_state, fast_outcome) = match (charge, denial) {
        (Some(charge), _) => (charge.state, path.outcome(&charge)),
        (None, Some(denial)) => (state, denial),
        (None, None) => return Ok(false),
    };
    let Algorithm::Packed(algorithm) = limit.algorithm() else { panic!("{limit} has no fast path") };
    let mut expected = state;
    let outcome = algorithm.decide(&mut expected, TimedCost { now, cost: 1 });
    prop_assert_eq!(fast_state, expected, "the state of {} after {:?} at {:?}", limit, state, now);
    prop_assert_eq!(fast_outcome, outcome, "the outcome of {} after {:?} at {:?}", limit, state, now);
    Ok(true)
}

/// Words that a state may have, and others, near the numbers that matter.
fn words(limit: u64, now_ns: u64) -> impl Strategy<Value = [u64; 2]> {
    let instant = prop_oneof![
        3 => (-3..=3_i64).prop_map(move |off| now_ns.saturating_add_signed(off)),
        3 => (0..1_u64 << 40).prop_map(move |off| now_ns.saturating_add(off)),
        1 => (0..1_u64 << 62).prop_map(move |off| now_ns.saturating_add(off)),
        1 => any::<u64>(),
    ];
    let detail = prop_oneof![
        4 => (-2..=2_i64).prop_map(move |off| limit.saturating_add_signed(off)),
        2 => 0..1_u64 << 41,
        2 => (0..1_u64 << 21, 0..8_u64).prop_map(|(cur, prev)| cur << 40 | prev),
        1 => any::<u64>(),
    ];
    (instant, detail).prop_map(|(instant, detail)| [instant, detail])
}

fn limit_instant_and_words() -> impl Strategy<Value = (LimitSpec, u64, [u64; 2])> {
    let limit = select(WITH_FAST_PATH.to_vec()).prop_flat_map(limits::of);
    let now_ns = prop_oneof![Just(0), Just(1_750_000_000_123_456_789), any::<u64>()];
    (limit, now_ns).prop_flat_map(|(spec, now_ns)| {
        let words = words(spec.limit, now_ns);
        (Just(spec), Just(now_ns), words)
    })
}

proptest! {
    #![proptest_config(proptest_config(1_500))]

    /// With any requests, clocks that step back, and a limit that changes meanwhile.
    #[test]
    fn it_equals_the_algorithm(
        (before, after) in select(WITH_FAST_PATH.to_vec()).prop_flat_map(change_of_limit),
        requests in requests(),
        changes_at in 1..24_usize,
    ) {
        let mut subject = Subject::from_spec(&before);
        let mut driver = requests.driver(&before);
        for number in 0.. {
            if number == changes_at {
                subject.change_limit(&after);
            }
            let Some(request) = driver.next_request() else { break };
            is_decided_alike(subject.limit(), subject.packed(), request.now)?;
            driver.observe(subject.decide(request));
        }
    }

    /// On any words, even those that no limit writes.
    #[test]
    fn it_equals_the_algorithm_on_any_words((spec, now_ns, words) in limit_instant_and_words()) {
        let subject = Subject::from_spec(&spec);
        is_decided_alike(subject.limit(), PackedState::from_words(words), Timestamp::from_nanos(now_ns))?;
    }
}

/// The second unit of a key takes the fast path, with each algorithm and many rates.
#[test]
fn it_decides_common_limits() {
    for algorithm in WITH_FAST_PATH {
        for rate in [
            "3, per: 1ms",
            "10, per: 1s",
            "7, per: 10s",
            "1000000, per: 1s",
            "100, per: 1m",
            "1000, per: 30d",
        ] {
            let limit: Limit = format!("{{algorithm: {algorithm}, limit: {rate}}}").parse().unwrap();
            let mut subject = Subject::new(limit.clone());
            // The first unit opens a window.
            let now = Timestamp::from_nanos(1_750_000_000_123_456_789);
            let _ = subject.decide(TimedCost { now, cost: 1 });
            assert!(is_decided_alike(&limit, subject.packed(), now).unwrap(), "{limit}");
        }
    }
}

/// A unit that does not fit is denied without a change.
#[test]
fn it_decides_common_denials() {
    for algorithm in WITH_FAST_PATH {
        let limit: Limit = format!("{{algorithm: {algorithm}, limit: 3, per: 1s}}").parse().unwrap();
        let mut subject = Subject::new(limit.clone());
        let now = Timestamp::from_nanos(1_750_000_000_123_456_789);
        while subject.decide(TimedCost { now, cost: 1 }).kind == OutcomeKind::Allowed {}
        assert!(is_decided_alike(&limit, subject.packed(), now).unwrap(), "{algorithm}");
    }
}
