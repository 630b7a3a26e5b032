//! The network: how long a message takes, and whether it arrives.

use super::random::Random;
use super::scenario::NetworkSettings;

/// How much longer a message takes that is late for no special reason.
const LATE_FACTOR: u64 = 30;

pub(super) struct Network {
    settings: NetworkSettings,
    /// The faults that last: how much slower, and how many are lost.
    pub(super) slow_ns: Vec<u64>,
    pub(super) lost_one_in: Vec<u64>,
    random: Random,
    calm_ns: u64,
}

impl Network {
    pub(super) fn new(settings: NetworkSettings, random: Random, calm_ns: u64) -> Self {
        Self { settings, slow_ns: Vec::new(), lost_one_in: Vec::new(), random, calm_ns }
    }

    /// When a message arrives that is sent now, if it does.
    pub(super) fn arrival_ns(&mut self, now_ns: u64) -> Option<u64> {
        let random = &mut self.random;
        if self.lost_one_in.iter().any(|one_in| random.once_in(*one_in)) {
            return None;
        }
        let NetworkSettings { latency_ns, late_one_in, .. } = self.settings;
        let mut span_ns = random.between(latency_ns, 3 * latency_ns);
        if now_ns < self.calm_ns && late_one_in > 0 && random.once_in(late_one_in) {
            span_ns *= LATE_FACTOR;
        }
        for slow_ns in &self.slow_ns {
            span_ns += random.below(*slow_ns);
        }
        Some(now_ns + span_ns)
    }

    /// Whether the reply that is sent now is delivered twice.
    pub(super) fn duplicates(&mut self) -> bool {
        self.settings.duplicate_one_in > 0 && self.random.once_in(self.settings.duplicate_one_in)
    }
}
