//! Between any two calls no more permits are handed out than the rate allows, and what was kept, and the last call.

use std::task::Poll;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate::{ManualClock, Pacer, Timestamp};

use crate::pacer::proptest_config;
use crate::pacer::polling::{Task, nanos};

use super::PacerTestExt as _;

/// Permits that were handed out, and when.
#[derive(Clone, Copy, Debug)]
struct Grant {
    at_ns: u64,
    permits: u64,
}

#[derive(Clone, Copy, Debug)]
struct PermitRequest {
    pause_ns: u64,
    permits: u64,
}

fn permit_requests() -> impl Strategy<Value = Vec<PermitRequest>> {
    let pause_ns = prop_oneof![
        3 => Just(0),
        3 => 0..1_000_u64,
        3 => 0..2_000_000_000_u64,
        1 => 0..100_000_000_000_u64,
    ];
    let permits = prop_oneof![3 => 1..5_u64, 1 => 1..500_u64];
    vec((pause_ns, permits).prop_map(|(pause_ns, permits)| PermitRequest { pause_ns, permits }), 2..80)
}

/// Asks without waiting for the answers, which come in order.
fn grants(pacer: &Pacer<ManualClock>, clock: &ManualClock, asks: &[PermitRequest]) -> Vec<Grant> {
    let mut waiting = Vec::new();
    let mut grants = Vec::new();
    let mut collect = |waiting: &mut Vec<(Task<'_, Duration>, u64)>| {
        waiting.retain_mut(|(task, permits)| match task.poll() {
            Poll::Pending => true,
            Poll::Ready(_) => {
                grants.push(Grant { at_ns: nanos(clock), permits: *permits });
                false
            }
        });
    };
    let mut ask_at_ns = 0;
    for ask in asks.iter().map(Some).chain([None]) {
        ask_at_ns += ask.map_or(0, |ask| ask.pause_ns);
        let until =
            if ask.is_some() { Timestamp::from_nanos(ask_at_ns) } else { Timestamp::from_nanos(u64::MAX) };
        while let Some(wake) = clock.next_wake().filter(|wake| *wake <= until) {
            clock.set(wake);
            collect(&mut waiting);
        }
        if let Some(ask) = ask {
            clock.set(until);
            waiting.push((Task::new(pacer.wait_for(ask.permits)), ask.permits));
            collect(&mut waiting);
        }
    }
    grants
}

/// So many permits in so long, and those of some time more.
#[derive(Clone, Copy, Debug)]
struct Bound {
    limit: u64,
    window_ns: u64,
    kept_ns: u64,
}

/// From one grant to another, without the latter: no more than in that time and in the time kept.
fn check(grants: &[Grant], bound: Bound) -> Result<(), TestCaseError> {
    let Bound { limit, window_ns, kept_ns } = bound;
    for (first, from) in grants.iter().enumerate() {
        let mut permits = 0_u128;
        for to in &grants[first..] {
            let span_ns = u128::from(to.at_ns - from.at_ns + kept_ns);
            prop_assert!(permits * u128::from(window_ns) <= u128::from(limit) * span_ns, "{from:?} {to:?}");
            permits += u128::from(to.permits);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(proptest_config(125))]

    #[test]
    fn a_bursty_pacer_adds_what_it_kept(
        limit in 1..2_000_u64,
        window_ms in 1..5_000_u64,
        burst_ms in 0..10_000_u64,
        asks in permit_requests(),
    ) {
        let clock = ManualClock::default();
        let builder = Pacer::builder().rate(format!("{limit} per {window_ms}ms"));
        let pacer = builder.max_burst(Duration::from_millis(burst_ms)).clock(clock.clone()).build().unwrap();
        let grants = grants(&pacer, &clock, &asks);
        prop_assert_eq!(grants.len(), asks.len());
        // A wait is whole nanoseconds, so a grant may be late by a part of one, and the next one not.
        let kept_ns = burst_ms * 1_000_000 + 1;
        check(&grants, Bound { limit, window_ns: window_ms * 1_000_000, kept_ns })?;
    }

    /// What it kept is slower than new permits, not faster.
    #[test]
    fn a_warming_pacer_adds_nothing(
        limit in 1..2_000_u64,
        window_ms in 1..5_000_u64,
        warm_up_ms in 1..10_000_u64,
        cold_factor in 1..20_u32,
        asks in permit_requests(),
    ) {
        let clock = ManualClock::default();
        let builder = Pacer::builder().rate(format!("{limit} per {window_ms}ms")).cold_factor(cold_factor);
        let pacer = builder.warm_up(Duration::from_millis(warm_up_ms)).clock(clock.clone()).build().unwrap();
        let grants = grants(&pacer, &clock, &asks);
        prop_assert_eq!(grants.len(), asks.len());
        check(&grants, Bound { limit, window_ns: window_ms * 1_000_000, kept_ns: 1 })?;
    }
}
