//! Sends the trace through a real limiter or pacer and records every decision.

use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate::{Limiter, ManualClock, MemoryStore, Pacer, Timestamp};

use super::subjects::{Subject, SubjectKind};
use super::trace::{END_NS, LIMIT, START_NS, WINDOW_NS, arrivals};

/// How long an admitted request holds its unit of a concurrency limit.
pub const HELD_NS: u64 = 400_000_000;
/// One in this many leases is never released, as if its holder had crashed.
pub const CRASH_EVERY: u64 = 10;
/// The longest wait for a permit of a pacer. With a longer one, some requests would leave after the picture ends.
pub const TIMEOUT_MS: u64 = 500;
/// The bursty pacer saves the unused permits of this many seconds: its default.
pub const BURST_S: u64 = 1;
/// Shorter than the rest phase, after which the pacer is cold again.
pub const WARM_UP_MS: u64 = 1_500;

/// The level is sampled this often between requests: less than half a pixel.
const SAMPLE_NS: u64 = 5_000_000;
const KEY: &str = "pictured";

/// What happened to every request, and how full the limit was. All times count from the start of the trace.
#[derive(Clone, Debug)]
pub struct Run {
    /// What decided.
    pub subject: Subject,
    /// In order of arrival.
    pub requests: Vec<Request>,
    /// Every change of the level.
    pub levels: Vec<Level>,
    /// The highest possible level.
    pub level_max: u64,
    /// When each unreleased lease was held: from its request to the end of its ttl.
    pub unreleased: Vec<Range<u64>>,
}

/// A request and what happened to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When it arrived.
    pub at_ns: u64,
    /// When it went on to the upstream; `None` if it was denied.
    pub leaves_ns: Option<u64>,
}

/// The units in use, or the requests that wait for a pacer, from an instant on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// The instant.
    pub at_ns: u64,
    /// The number.
    pub units: u64,
}

impl Run {
    /// Sends the trace through a subject.
    pub fn of(subject: &Subject) -> Self {
        if subject.is_pacer() { Self::of_pacer(subject) } else { Self::of_limit(subject) }
    }

    fn of_limit(subject: &Subject) -> Self {
        let clock = ManualClock::at(instant(0));
        let store = Arc::new(MemoryStore::unbounded());
        let builder = Limiter::builder().limit(subject.limit()).store(store).clock(clock.clone());
        let limiter = builder.build().expect("the limits of subjects are valid");
        let mut run = Self::new(subject, limiter.peek(KEY, 0).remaining);
        let in_use = |run: &Self| run.level_max.saturating_sub(limiter.peek(KEY, 0).remaining);
        let (mut leases, mut leased) = (VecDeque::new(), 0);
        let samples = (0..=END_NS / SAMPLE_NS).map(|number| (number * SAMPLE_NS, false));
        let mut instants: Vec<(u64, bool)> = samples.chain(arrivals().map(|at_ns| (at_ns, true))).collect();
        instants.sort_unstable();
        for (now_ns, is_arrival) in instants {
            // All leases are held equally long, so the oldest is the first to end. A request that arrives in the same
            // instant finds its unit free.
            while leases.front().is_some_and(|(done_ns, _)| *done_ns <= now_ns) {
                let Some((done_ns, token)) = leases.pop_front() else { break };
                clock.set(instant(done_ns));
                let _ = limiter.release(KEY, &token);
                run.note(done_ns, in_use(&run));
            }
            clock.set(instant(now_ns));
            run.note(now_ns, in_use(&run));
            if !is_arrival {
                continue;
            }
            let (decision, lease) = match subject.kind {
                SubjectKind::Concurrency => limiter.lease(KEY, 1, None),
                _ => (limiter.check(KEY, 1), None),
            };
            let delay_ns = u64::try_from(decision.delay.get()).unwrap_or(u64::MAX);
            let leaves_ns = decision.is_allowed().then(|| now_ns.saturating_add(delay_ns));
            run.requests.push(Request { at_ns: now_ns, leaves_ns });
            if let Some(lease) = lease {
                leased += 1;
                if leased % CRASH_EVERY == 0 {
                    run.unreleased.push(now_ns..since_start(lease.expires));
                } else {
                    leases.push_back((now_ns + HELD_NS, lease.token));
                }
            }
            run.note(now_ns, in_use(&run));
        }
        run
    }

    /// Polls the futures by hand whenever the clock moves.
    fn of_pacer(subject: &Subject) -> Self {
        let clock = ManualClock::at(instant(0));
        let builder = Pacer::builder().rate(format!("{LIMIT}/s").as_str()).clock(clock.clone());
        let builder = match subject.kind {
            SubjectKind::WarmingUpPacer => builder.warm_up(Duration::from_millis(WARM_UP_MS)),
            _ => builder.max_burst_seconds(BURST_S),
        };
        let pacer = builder.build().expect("the pacers of subjects are valid");
        let mut run = Self::new(subject, LIMIT * TIMEOUT_MS / 1_000);
        run.note(0, 0);
        let mut context = Context::from_waker(Waker::noop());
        let mut waiting = Vec::new();
        for (number, at_ns) in arrivals().chain([END_NS]).enumerate() {
            // A request whose permit is due leaves before the next one arrives.
            loop {
                let wake = clock.next_wake().filter(|wake| *wake <= instant(at_ns));
                let now = wake.unwrap_or(instant(at_ns));
                clock.set(now);
                if wake.is_none() && at_ns < END_NS {
                    run.requests.push(Request { at_ns, leaves_ns: None });
                    let permit = pacer.acquire_within(1, Duration::from_millis(TIMEOUT_MS));
                    waiting.push((number, Box::pin(permit)));
                }
                waiting.retain_mut(|(number, permit)| match permit.as_mut().poll(&mut context) {
                    Poll::Pending => true,
                    Poll::Ready(permit) => {
                        run.requests[*number].leaves_ns = permit.ok().map(|_| since_start(now));
                        false
                    }
                });
                run.note(since_start(now), waiting.len() as u64);
                if wake.is_none() {
                    break;
                }
            }
        }
        run
    }

    fn new(subject: &Subject, level_max: u64) -> Self {
        let (requests, levels, unreleased) = (Vec::new(), Vec::new(), Vec::new());
        Self { subject: *subject, requests, levels, level_max, unreleased }
    }

    fn note(&mut self, at_ns: u64, units: u64) {
        if self.levels.last().is_none_or(|last| last.units != units) {
            self.levels.push(Level { at_ns, units });
        }
    }

    /// When the admitted requests arrived.
    pub fn admitted_ns(&self) -> impl Iterator<Item = u64> {
        self.requests.iter().filter(|request| request.leaves_ns.is_some()).map(|request| request.at_ns)
    }

    /// When they went on.
    pub fn departures_ns(&self) -> impl Iterator<Item = u64> {
        self.requests.iter().filter_map(|request| request.leaves_ns)
    }

    /// How many requests were admitted.
    pub fn admitted(&self) -> usize {
        self.admitted_ns().count()
    }

    /// How many of them had to wait.
    pub fn delayed(&self) -> usize {
        self.admitted_ns().zip(self.departures_ns()).filter(|(came_ns, left_ns)| came_ns < left_ns).count()
    }

    /// How many requests were denied.
    pub fn denied(&self) -> usize {
        self.requests.len() - self.admitted()
    }

    /// The admitted requests of the window in which the most arrived.
    pub fn worst_ns(&self) -> Vec<u64> {
        worst_window(&self.admitted_ns().collect::<Vec<_>>())
    }

    /// The most requests that left within a window, if any had to wait.
    pub fn leaving_max(&self) -> Option<usize> {
        (self.delayed() > 0).then(|| worst_window(&self.departures_ns().collect::<Vec<_>>()).len())
    }

    /// The part of the level that consists of unreleased leases.
    pub fn unreleased_levels(&self) -> Vec<Level> {
        let changes: BTreeSet<u64> = self.unreleased.iter().flat_map(|held| [held.start, held.end]).collect();
        let units = |at_ns| self.unreleased.iter().filter(|held| held.contains(at_ns)).count() as u64;
        changes.iter().map(|at_ns| Level { at_ns: *at_ns, units: units(at_ns) }).collect()
    }
}

/// The largest group of instants within a window. Of equally large groups, it is the shortest, then the first.
fn worst_window(instants_ns: &[u64]) -> Vec<u64> {
    let window = |first: usize| {
        let rest = &instants_ns[first..];
        &rest[..rest.partition_point(|at_ns| at_ns - rest[0] < WINDOW_NS)]
    };
    let crowding = |window: &&[u64]| (window.len(), Reverse(window[window.len() - 1] - window[0]));
    (0..instants_ns.len()).rev().map(window).max_by_key(crowding).unwrap_or_default().to_vec()
}

fn instant(at_ns: u64) -> Timestamp {
    Timestamp::from_nanos(START_NS + at_ns)
}

fn since_start(at: Timestamp) -> u64 {
    at.as_nanos().saturating_sub(START_NS)
}
