//! The request trace that every picture shows.
//!
//! Each phase tests one property of a limit of [`LIMIT`] per [`WINDOW_NS`]. No two algorithms handle all phases in the
//! same way.

/// Units per window of every pictured limit.
pub const LIMIT: u64 = 10;
/// The window of every pictured limit.
pub const WINDOW_NS: u64 = 1_000_000_000;
/// The trace starts on a full second, so windows start on the full seconds of the time axis.
pub const START_NS: u64 = 1_700_000_000 * 1_000_000_000;
/// A picture ends when the last waiting request has left.
pub const END_NS: u64 = 9_500_000 * NS_PER_US;

const NS_PER_US: u64 = 1_000;

/// Requests at even distances. Times are microseconds since the start of the trace.
pub(super) struct Phase {
    pub name: &'static str,
    /// The rate or number of requests, as text.
    pub measure: &'static str,
    from_us: u64,
    /// Exclusive.
    until_us: u64,
    requests: u64,
}

pub(super) const PHASES: [Phase; 6] = [
    // Even and below the limit: no algorithm denies a request.
    Phase { name: "steady", measure: "8/s", from_us: 0, until_us: 2_000_000, requests: 16 },
    // More than the limit in one instant, half a second after the last request: how large a burst passes?
    Phase { name: "burst", measure: "15 together", from_us: 2_500_000, until_us: 2_500_000, requests: 15 },
    // Almost five times the limit for longer than a window: are requests admitted evenly or in groups?
    Phase { name: "flood", measure: "48/s", from_us: 3_250_000, until_us: 4_750_000, requests: 72 },
    // Longer than two windows: counters expire and queues drain.
    Phase { name: "rest", measure: "", from_us: 4_750_000, until_us: 6_875_000, requests: 0 },
    // More than the limit just before a full second and again just after it: a counter that resets at the edge admits
    // twice the limit.
    Phase { name: "edge", measure: "12 + 12", from_us: 6_875_000, until_us: 7_125_000, requests: 24 },
    // Exactly the limit, right after that burst: is the burst forgotten gradually or in one step?
    Phase { name: "drip", measure: "10/s", from_us: 7_200_000, until_us: 8_400_000, requests: 12 },
];

impl Phase {
    pub fn middle_ns(&self) -> u64 {
        (self.from_us + self.until_us) / 2 * NS_PER_US
    }

    fn arrivals(&self) -> impl Iterator<Item = u64> {
        let Self { from_us, until_us, requests, .. } = *self;
        (0..requests).map(move |number| (from_us + (until_us - from_us) * number / requests) * NS_PER_US)
    }
}

/// The arrival times of all requests in order, in nanoseconds since the start of the trace.
pub fn arrivals() -> impl Iterator<Item = u64> {
    PHASES.iter().flat_map(Phase::arrivals)
}
