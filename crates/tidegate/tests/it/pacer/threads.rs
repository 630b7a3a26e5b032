//! Waiting in threads. The test moves the clock once all of them sleep.

use std::sync::Mutex;
use std::time::Duration;

use tidegate::{Clock, ManualClock, Pacer, SystemClock, Timestamp};

use crate::pacer::polling::{Task, nanos, take_now};

use super::{PacerTestExt as _, PermitsRefused, acquired};

const THREADS: usize = 16;
const INTERVAL: Duration = Duration::from_millis(200);

fn five_a_second(clock: &ManualClock) -> Pacer<ManualClock> {
    Pacer::builder().rate("5/s").clock(clock.clone()).build().unwrap()
}

/// Waits for the threads, which can only sleep on the clock. If they do not, the test releases them all and fails,
/// because a test that hangs shows nothing.
fn until(clock: &ManualClock, condition: impl Fn() -> bool) {
    const TIMEOUT_NS: u64 = 60_000_000_000;
    let timeout_clock = SystemClock::new();
    let began_ns = timeout_clock.now().as_nanos();
    while timeout_clock.now().as_nanos() - began_ns < TIMEOUT_NS {
        if condition() {
            return;
        }
        std::thread::yield_now();
    }
    clock.set(Timestamp::from_nanos(u64::MAX));
    panic!("threads do not wait as they should");
}

fn until_asleep(clock: &ManualClock, sleepers: usize) {
    until(clock, || clock.sleepers() == sleepers);
}

#[test]
fn a_thread_waits_until_the_clock_is_there() {
    let clock = ManualClock::default();
    let pacer = five_a_second(&clock);
    take_now(&pacer, 1);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| (pacer.acquire_blocking(1).unwrap().waited(), nanos(&clock)));
        until_asleep(&clock, 1);
        clock.advance(INTERVAL / 2);
        until_asleep(&clock, 1);
        assert!(!waiting.is_finished());
        clock.advance(INTERVAL / 2);
        assert_eq!(waiting.join().unwrap(), (INTERVAL, 200_000_000));
    });
}

#[test]
fn a_try_in_a_thread() {
    let clock = ManualClock::default();
    let pacer = five_a_second(&clock);
    let try_now = |timeout| acquired(pacer.acquire_within_blocking(1, timeout));
    assert_eq!(try_now(Duration::ZERO), Ok(Duration::ZERO));
    // If it was not refused, this would hang, and the table of timeouts would fail too.
    assert_eq!(try_now(INTERVAL / 2), Err(PermitsRefused { would_wait: INTERVAL }));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| try_now(INTERVAL));
        until_asleep(&clock, 1);
        clock.advance(INTERVAL);
        assert_eq!(waiting.join().unwrap(), Ok(INTERVAL));
    });
}

/// All ask at the same instant. Each gets a different wait, one interval apart, and no thread continues before its
/// time.
#[test]
fn waits_are_handed_out_one_interval_apart() {
    let clock = ManualClock::default();
    let pacer = five_a_second(&clock);
    let waits = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let waited = pacer.acquire_blocking(1).unwrap().waited();
                waits.lock().unwrap().push((waited, clock.now()));
            });
        }
        // One continues immediately.
        until_asleep(&clock, THREADS - 1);
        for sleepers in (0..THREADS - 1).rev() {
            clock.advance(INTERVAL);
            // The thread whose turn it is has to record the time before the clock moves on.
            until_asleep(&clock, sleepers);
            until(&clock, || waits.lock().unwrap().len() == THREADS - sleepers);
        }
    });
    let expected = (0..).map(|position| INTERVAL * position).take(THREADS);
    let expected: Vec<_> = expected.map(|wait| (wait, nanos_of(wait))).collect();
    let waits = waits.into_inner().unwrap();
    assert_eq!(waits.iter().map(|(wait, at)| (*wait, at.as_nanos())).collect::<Vec<_>>(), expected);
}

/// Each thread starts many waits, and none gets the wait of another.
#[test]
fn many_threads_and_many_calls_take_exactly_what_they_ask_for() {
    const CALLS: u32 = 50;
    let clock = ManualClock::default();
    let pacer = five_a_second(&clock);
    let all_tasks = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let tasks: Vec<_> = (0..CALLS).map(|_| Task::new(pacer.wait_for(1)).polled_once()).collect();
                all_tasks.lock().unwrap().extend(tasks);
            });
        }
    });
    let total = CALLS * u32::try_from(THREADS).unwrap();
    // One continued immediately.
    assert_eq!(clock.sleepers(), total as usize - 1);
    let refused = acquired(pacer.acquire_within_blocking(1, Duration::ZERO));
    assert_eq!(refused, Err(PermitsRefused { would_wait: INTERVAL * total }));
    let mut waits: Vec<_> =
        all_tasks.into_inner().unwrap().into_iter().map(|task| task.finish(&clock)).collect();
    waits.sort_unstable();
    assert!(waits.into_iter().eq((0..total).map(|position| INTERVAL * position)));
}

/// Only checks that on the machine's clock the thread really waited.
#[test]
fn on_the_system_clock() {
    let pacer = Pacer::new("1000/s").unwrap();
    let clock = SystemClock::new();
    let before = clock.now();
    let waited = pacer.acquire_blocking(5).unwrap().waited() + pacer.acquire_blocking(1).unwrap().waited();
    assert!(waited <= Duration::from_millis(5));
    assert!(clock.now().as_nanos() - before.as_nanos() >= nanos_of(waited));
}

fn nanos_of(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap()
}
