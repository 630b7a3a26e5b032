//! Clocks of nodes and of servers, as functions of true time.
//!
//! True time is nanoseconds since the start of the run. A node's clock is like [`tidegate::SystemClock`]: it never goes
//! back, it may run fast or slow by [`DRIFT_PPM_MAX`], and a large step forward is followed at once. A server's clock runs
//! true but may be set in both directions, as that of a Redis server may.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate::{Clock, Timestamp};

pub(super) const MS: u64 = 1_000_000;
pub(super) const SECOND: u64 = 1_000 * MS;
/// What the clocks show about when a run starts: some day in 2026, at no special position in a window.
const EPOCH_NS: u64 = 1_790_000_123_457_000_000;
/// As far as [`tidegate::SystemClock`] runs slow or fast to follow wall time.
pub(super) const DRIFT_PPM_MAX: i64 = 500;

/// The clock of a node.
#[derive(Clone, Debug)]
pub(super) struct NodeClock {
    /// True time and shown time when the drift last changed.
    anchor_ns: u64,
    shown_ns: u64,
    drift_ppm: i64,
}

impl NodeClock {
    pub(super) fn new(offset_ns: u64, drift_ppm: i64) -> Self {
        Self { anchor_ns: 0, shown_ns: EPOCH_NS + offset_ns, drift_ppm }
    }

    pub(super) fn at(&self, true_ns: u64) -> u64 {
        let elapsed = i128::from(true_ns.saturating_sub(self.anchor_ns));
        let shown = i128::from(self.shown_ns) + elapsed + elapsed * i128::from(self.drift_ppm) / 1_000_000;
        u64::try_from(shown).unwrap_or(0)
    }

    /// Steps forward, or, if set back, runs as slow as the clock may.
    pub(super) fn step(&mut self, true_ns: u64, by_ns: i64) {
        let shown = self.at(true_ns);
        (self.anchor_ns, self.shown_ns) = (true_ns, shown.saturating_add_signed(by_ns.max(0)));
        if by_ns < 0 {
            self.drift_ppm = -DRIFT_PPM_MAX;
        }
    }
}

/// The clock of a server.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerClock {
    offset_ns: u64,
    /// True time and size of each step, in order of time.
    pub(super) steps: Vec<(u64, i64)>,
}

impl ServerClock {
    pub(super) fn new(offset_ns: u64) -> Self {
        Self { offset_ns: EPOCH_NS + offset_ns, steps: Vec::new() }
    }

    pub(super) fn at(&self, true_ns: u64) -> u64 {
        let steps = self.steps.iter().take_while(|(at, _)| *at <= true_ns);
        steps.fold(self.offset_ns + true_ns, |shown, (_, by)| shown.saturating_add_signed(*by))
    }

    /// How far the clock has moved forward up to `true_ns`: a bucket refills by this much.
    pub(super) fn forward_at(&self, true_ns: u64) -> u64 {
        let steps = self.steps.iter().take_while(|(at, _)| *at <= true_ns);
        steps.fold(self.offset_ns + true_ns, |shown, (_, by)| shown.saturating_add_signed((*by).max(0)))
    }

    /// When the clock shows this, by the last time that it was set.
    pub(super) fn true_of(&self, shown_ns: u64) -> u64 {
        let unset = self.steps.iter().fold(shown_ns, |shown, (_, by)| shown.saturating_add_signed(-by));
        unset.saturating_sub(self.offset_ns)
    }
}

/// What a node's code reads. The simulation sets it before it runs the node.
#[derive(Clone, Debug, Default)]
pub(super) struct ShownTime(Arc<AtomicU64>);

impl ShownTime {
    pub(super) fn set(&self, shown_ns: u64) {
        self.0.store(shown_ns, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Clock for ShownTime {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.get())
    }
}
