//! Between any two calls, no more permits are handed out than the rate allows, plus the stored ones and the last call.

use std::task::Poll;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate::{ManualClock, Pacer, Timestamp};

use crate::pacer::polling::{Task, nanos};
use crate::pacer::proptest_config;

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

/// Calls without waiting for the results, which come in order.
fn grants(pacer: &Pacer<ManualClock>, clock: &ManualClock, requests: &[PermitRequest]) -> Vec<Grant> {
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
    let mut request_at_ns = 0;
    for request in requests.iter().map(Some).chain([None]) {
        request_at_ns += request.map_or(0, |request| request.pause_ns);
        let until = if request.is_some() {
            Timestamp::from_nanos(request_at_ns)
        } else {
            Timestamp::from_nanos(u64::MAX)
        };
        while let Some(wake) = clock.next_wake().filter(|wake| *wake <= until) {
            clock.set(wake);
            collect(&mut waiting);
        }
        if let Some(request) = request {
            clock.set(until);
            waiting.push((Task::new(pacer.wait_for(request.permits)), request.permits));
            collect(&mut waiting);
        }
    }
    grants
}

/// A number of permits per time, plus those of some extra time.
#[derive(Clone, Copy, Debug)]
struct Bound {
    limit: u64,
    window_ns: u64,
    stored_ns: u64,
}

/// From one grant to another (excluded), at most the permits of that time plus the stored time.
fn check(grants: &[Grant], bound: Bound) -> Result<(), TestCaseError> {
    let Bound { limit, window_ns, stored_ns } = bound;
    for (first, from) in grants.iter().enumerate() {
        let mut permits = 0_u128;
        for to in &grants[first..] {
            let span_ns = u128::from(to.at_ns - from.at_ns + stored_ns);
            prop_assert!(permits * u128::from(window_ns) <= u128::from(limit) * span_ns, "{from:?} {to:?}");
            permits += u128::from(to.permits);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(proptest_config(125))]

    #[test]
    fn a_bursty_pacer_adds_what_it_stored(
        limit in 1..2_000_u64,
        window_ms in 1..5_000_u64,
        burst_ms in 0..10_000_u64,
        requests in permit_requests(),
    ) {
        let clock = ManualClock::default();
        let builder = Pacer::builder().rate(format!("{limit} per {window_ms}ms"));
        let pacer = builder.max_burst(Duration::from_millis(burst_ms)).clock(clock.clone()).build().unwrap();
        let grants = grants(&pacer, &clock, &requests);
        prop_assert_eq!(grants.len(), requests.len());
        // Waits are whole nanoseconds, so one grant may be late by a fraction of one, and the next not.
        let stored_ns = burst_ms * 1_000_000 + 1;
        check(&grants, Bound { limit, window_ns: window_ms * 1_000_000, stored_ns })?;
    }

    /// Its stored permits come more slowly than new ones, not faster.
    #[test]
    fn a_warming_pacer_adds_nothing(
        limit in 1..2_000_u64,
        window_ms in 1..5_000_u64,
        warm_up_ms in 1..10_000_u64,
        cold_factor in 1..20_u32,
        requests in permit_requests(),
    ) {
        let clock = ManualClock::default();
        let builder = Pacer::builder().rate(format!("{limit} per {window_ms}ms")).cold_factor(cold_factor);
        let pacer = builder.warm_up(Duration::from_millis(warm_up_ms)).clock(clock.clone()).build().unwrap();
        let grants = grants(&pacer, &clock, &requests);
        prop_assert_eq!(grants.len(), requests.len());
        check(&grants, Bound { limit, window_ns: window_ms * 1_000_000, stored_ns: 1 })?;
    }
}
