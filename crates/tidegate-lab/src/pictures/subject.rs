//! What there is a picture of: each algorithm with the same limit, and what to see in it.

use tidegate::AlgorithmName;

use super::trace::LIMIT;

/// An algorithm as it is pictured.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// Which one.
    pub algorithm: AlgorithmName,
    /// What its limit says besides [`LIMIT`], and per second if units are spent.
    pub options: &'static str,
    /// One sentence that fits a line.
    pub see: &'static str,
    /// What becomes of the units that a request is given.
    pub units: Units,
    /// What bounds the level.
    pub room: Room,
    /// Where it cuts time.
    pub edges: Edges,
}

/// What becomes of the units that a request is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Units {
    /// They are spent; time brings new ones.
    Spent,
    /// They are held and given back.
    Held,
}

/// What bounds the level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// The limit itself.
    Limit,
    /// The burst.
    Burst,
    /// The queue, and the one that leaves.
    Queue,
}

/// Where an algorithm cuts time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edges {
    /// Nowhere.
    None,
    /// At each multiple of this many milliseconds.
    EveryMs(u64),
}

/// All of them: rates from what is rather even to what is rather exact, then what is no rate.
pub const SUBJECTS: [Subject; 8] = [
    // Half of the limit as burst: the default would be the picture of the token bucket once more.
    Subject {
        algorithm: AlgorithmName::Gcra,
        options: "burst: 5",
        see: "Five pass at once, then one every 100 ms: bursts are cut short, and the long \
              run is exactly the limit.",
        units: Units::Spent,
        room: Room::Burst,
        edges: Edges::None,
    },
    Subject {
        algorithm: AlgorithmName::TokenBucket,
        options: "burst: 10",
        see: "A full bucket of 10 goes at once and refills at 10 per second. Decides as gcra \
              does with the same burst.",
        units: Units::Spent,
        room: Room::Burst,
        edges: Edges::None,
    },
    Subject {
        algorithm: AlgorithmName::LeakyBucket,
        options: "queue: 10",
        see: "Bursts come in, an even stream goes out: up to 10 requests wait, and they leave \
              at least 100 ms apart.",
        units: Units::Spent,
        room: Room::Queue,
        edges: Edges::None,
    },
    Subject {
        algorithm: AlgorithmName::FixedWindow,
        options: "",
        see: "Each full second starts from zero. Simple, but a burst across the edge gets the \
              limit twice in a moment.",
        units: Units::Spent,
        room: Room::Limit,
        edges: Edges::EveryMs(1_000),
    },
    Subject {
        algorithm: AlgorithmName::SlidingWindow,
        options: "",
        see: "The last window's count fades as the new one goes on: no second burst at the \
              edge, room comes back gradually.",
        units: Units::Spent,
        room: Room::Limit,
        edges: Edges::EveryMs(1_000),
    },
    // Few enough for their edges to be seen.
    Subject {
        algorithm: AlgorithmName::SubWindows,
        options: "sub_windows: 5",
        see: "A log in slices, here of 200 ms. A slice counts until all of it is old: never \
              more than 10 in any second.",
        units: Units::Spent,
        room: Room::Limit,
        edges: Edges::EveryMs(200),
    },
    Subject {
        algorithm: AlgorithmName::SlidingLog,
        options: "",
        see: "Remembers each request for exactly one second: never more than 10 in any \
              second, and never one too few.",
        units: Units::Spent,
        room: Room::Limit,
        edges: Edges::None,
    },
    // Longer than anything is held, short enough for all that was lost in the flood to be back in the rest.
    Subject {
        algorithm: AlgorithmName::Concurrency,
        options: "ttl: 1500ms",
        see: "At most 10 in flight, however fast they come: each takes 400 ms. One in ten never \
              gives back; the ttl does.",
        units: Units::Held,
        room: Room::Limit,
        edges: Edges::None,
    },
];

impl Subject {
    /// The limit as it is written in a configuration.
    pub fn limit(&self) -> String {
        let Self { algorithm, options, .. } = self;
        let per = if self.units == Units::Spent { ", per: 1s" } else { "" };
        let comma = if options.is_empty() { "" } else { ", " };
        format!("{{algorithm: {algorithm}, limit: {LIMIT}{per}{comma}{options}}}")
    }
}
