//! [`Limit::worst_case`] is exact: no requests get more from an algorithm, and an attack on its model gets that much.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::select;
use tidegate_core::algorithm::{Align, CalendarSpec, CountDenied, SUB_WINDOWS_DEFAULT, WorstCaseScope};
use tidegate_core::{AlgorithmName, Limit, LimitSpec};

use crate::models::{Event, ModelKey};
use crate::properties::requests::requests;
use crate::properties::worst_cases::{admitted, most_in};
use crate::properties::{limits, proptest_config};

const MS: u64 = 1_000_000;
const DAY: u64 = 86_400_000 * MS;
/// The end of a day: what comes this close to it comes within moments.
const MOMENTS_NS: u128 = 1_000_000_000;

fn build(spec: &LimitSpec) -> Limit {
    spec.clone().build().expect("a valid spec")
}

/// The length of the spans that a worst case is about.
fn span_ns(limit: &Limit) -> u128 {
    match limit.worst_case().scope {
        WorstCaseScope::AnyWindow { window_ns } => window_ns.into(),
        WorstCaseScope::CalendarEdge { .. } => MOMENTS_NS,
        // Leases that are not released are a log. What is held is what came within the ttl.
        _ => limit.rate().window_ns().into(),
    }
}

/// What the model admits if as much as possible is asked for at each of these instants, after one unit at `before`.
fn attack(spec: &LimitSpec, before: Option<u128>, instants: &BTreeSet<u128>) -> Vec<Event> {
    let (mut key, mut admitted) = (ModelKey::new(spec), Vec::new());
    let mut send = |at, cost| {
        let request = Event { at, cost };
        let fits = key.admits(request);
        if fits {
            key = key.after(request, true);
            admitted.push(request);
        }
        fits
    };
    before.into_iter().for_each(|at| _ = send(at, 1));
    let capacity = ModelKey::new(spec).capacity();
    for at in instants {
        // The largest cost first: a request that must keep its distance to the last one comes only once.
        (1..=capacity).rev().for_each(|cost| while send(*at, cost) {});
    }
    admitted
}

/// Floods at the edges of windows and of parts of windows, and whenever a unit may be free again.
fn most_of_all_attacks(spec: &LimitSpec) -> u128 {
    let window = u128::from(build(spec).rate().window_ns());
    let parts = match spec.algorithm {
        Some(AlgorithmName::SubWindows) => u128::from(spec.sub_windows.unwrap_or(SUB_WINDOWS_DEFAULT.into())),
        _ => 1,
    };
    let limit = u128::from(spec.limit);
    let epoch = 1_000 * window;
    let mut most = 0;
    for start in [epoch, epoch + window - 1, epoch + window.div_ceil(parts) - 1] {
        // Each unit before may have come up to a nanosecond late, because time is whole nanoseconds.
        let earliest = |unit: u128| start + (unit * window).div_ceil(limit);
        let units = (1..=limit).flat_map(|unit| (0..=unit).map(move |late| earliest(unit) + late));
        let edges = (1..=2 * parts).map(|part| epoch + (part * window).div_ceil(parts));
        let instants: BTreeSet<u128> =
            units.chain(edges).chain([start, start + 1]).filter(|at| *at >= start).collect();
        for before in [None, Some(start + 1 - window)] {
            most = most.max(most_in(span_ns(&build(spec)), &attack(spec, before, &instants)));
        }
    }
    most
}

fn counting(counts: bool) -> CountDenied {
    if counts { CountDenied::Always } else { CountDenied::Never }
}

/// Limits that are small enough to attack their models.
fn small_limit() -> impl Strategy<Value = LimitSpec> {
    let rate = (select(AlgorithmName::ALL.to_vec()), 0..9_u64, select(vec![MS, MS + 1, 7 * MS, 60_000 * MS]));
    let options = (1..9_u64, select(vec![None, Some(1), Some(2), Some(7)]), any::<bool>(), 0..3_u64);
    (rate, options).prop_map(|((algorithm, limit, per_ns), (units, sub_windows, flag, part))| {
        let spec = LimitSpec { algorithm: Some(algorithm), ..LimitSpec::new(limit, per_ns) };
        match algorithm {
            AlgorithmName::Gcra | AlgorithmName::TokenBucket => LimitSpec { burst: Some(units), ..spec },
            AlgorithmName::LeakyBucket => LimitSpec { queue: Some(units), ..spec },
            AlgorithmName::FixedWindow if part == 2 => {
                let calendar = CalendarSpec { tz: "UTC".to_owned(), ..CalendarSpec::default() };
                LimitSpec { align: Some(Align::Calendar(calendar)), per_ns: DAY, ..spec }
            }
            AlgorithmName::FixedWindow => {
                let align = if flag { Align::FirstHit } else { Align::Epoch };
                LimitSpec { align: Some(align), count_denied: Some(counting(part == 1)), ..spec }
            }
            AlgorithmName::SlidingLog => LimitSpec {
                count_denied: Some(counting(flag)),
                min_interval_ns: (part > 0).then_some(per_ns / 10 * part),
                ..spec
            },
            AlgorithmName::SubWindows => LimitSpec { sub_windows, strict: Some(flag), ..spec },
            AlgorithmName::SlidingWindow => spec,
            AlgorithmName::Concurrency => LimitSpec { ttl_ns: Some(per_ns), per_ns: 0, ..spec },
        }
    })
}

proptest! {
    #![proptest_config(proptest_config(400))]

    /// Limits with a window: leases are released, so they have no window.
    #[test]
    fn no_requests_get_more(spec in limits::refundable(), requests in requests()) {
        let limit = build(&spec);
        let most = most_in(span_ns(&limit), &admitted(&spec, requests));
        prop_assert!(most <= u128::from(limit.worst_case().units), "{most}");
    }

    #[test]
    fn an_attack_gets_the_worst_case(spec in small_limit()) {
        prop_assert_eq!(most_of_all_attacks(&spec), u128::from(build(&spec).worst_case().units));
    }
}
