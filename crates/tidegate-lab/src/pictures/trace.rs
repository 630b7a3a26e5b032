//! The one trace that every picture shows.
//!
//! Made by hand so that each part asks one question of a limit of [`LIMIT`] per [`WINDOW_NS`]; all of the
//! algorithms answer some of them alike, and no two answer all of them alike.

/// Units per window of the limits that are pictured.
pub const LIMIT: u64 = 10;
/// The window of the limits that are pictured: a second.
pub const WINDOW_NS: u64 = 1_000_000_000;
/// When the trace begins: on a full second, so that windows begin on the full seconds of the pictures.
pub const START_NS: u64 = 1_700_000_000 * 1_000_000_000;
/// How long a picture goes on: until the last of a queue has left.
pub const END_NS: u64 = 9_500_000 * NS_PER_US;

const NS_PER_US: u64 = 1_000;

/// A part of the trace: requests at even distances.
#[derive(Clone, Copy, Debug)]
pub struct Phase {
    /// What it is, in a word or two.
    pub name: &'static str,
    /// How much it is.
    pub measure: &'static str,
    /// Its first request, if it has one, in microseconds since the trace began.
    from_us: u64,
    /// It is over when this moment comes.
    until_us: u64,
    requests: u64,
}

/// The whole trace.
pub const PHASES: [Phase; 6] = [
    // Below the limit and even: nobody who behaves like this is ever denied, by any algorithm.
    Phase { name: "steady", measure: "8/s", from_us: 0, until_us: 2_000_000, requests: 16 },
    // More than the limit in the same instant, after a pause of half a second: how much may a rested key take
    // at once, and who still remembers the steady stream?
    Phase { name: "burst", measure: "15 at once", from_us: 2_500_000, until_us: 2_500_000, requests: 15 },
    // Almost five times the limit for longer than a window: who lets requests through evenly, who in lumps?
    Phase { name: "flood", measure: "48/s", from_us: 3_250_000, until_us: 4_750_000, requests: 72 },
    // Longer than two windows: every algorithm forgets, every queue drains.
    Phase { name: "rest", measure: "", from_us: 4_750_000, until_us: 6_875_000, requests: 0 },
    // More than the limit just before a full second and again just after it: a counter that starts anew at
    // the edge lets twice the limit through in a moment.
    Phase { name: "edge", measure: "12 + 12", from_us: 6_875_000, until_us: 7_125_000, requests: 24 },
    // At the limit, right after that burst: when is the burst forgotten, gradually or all at once?
    Phase { name: "drip", measure: "10/s", from_us: 7_200_000, until_us: 8_400_000, requests: 12 },
];

impl Phase {
    /// When its requests come, in nanoseconds since the trace began.
    pub fn arrivals(&self) -> impl Iterator<Item = u64> {
        let Self { from_us, until_us, requests, .. } = *self;
        (0..requests).map(move |number| (from_us + (until_us - from_us) * number / requests) * NS_PER_US)
    }

    /// Its middle, in nanoseconds since the trace began.
    pub fn middle_ns(&self) -> u64 {
        (self.from_us + self.until_us) / 2 * NS_PER_US
    }
}

/// When all requests come, in nanoseconds since the trace began, in order.
pub fn arrivals() -> impl Iterator<Item = u64> {
    PHASES.iter().flat_map(Phase::arrivals)
}
