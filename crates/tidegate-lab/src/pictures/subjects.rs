//! The limits and pacers to draw.

use super::run::TIMEOUT_MS;
use super::trace::LIMIT;

/// What one picture shows.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// The algorithm or pacer; also the name of the file.
    pub name: &'static str,
    /// What decides.
    pub kind: SubjectKind,
    /// The options of the limit or pacer, as users write them.
    pub options: &'static str,
    /// The label of the highest level.
    pub bound: &'static str,
    /// How often a window or sub-window starts, if the algorithm has windows.
    pub window_ms: Option<u64>,
    /// What to look for, in one line.
    pub caption: &'static str,
}

/// What decides about the requests of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubjectKind {
    /// A limit whose units are spent.
    Rate,
    /// A limit whose units are held and released.
    Concurrency,
    /// A pacer that saves unused permits.
    BurstyPacer,
    /// A pacer that starts slowly when it is cold.
    WarmingUpPacer,
}

/// Rate limits from the most even to the most exact, then the concurrency limit, then pacers.
pub const SUBJECTS: [Subject; 10] = [
    // Half the limit: with its default burst, gcra decides like the token bucket below.
    Subject {
        caption: "Five requests pass together, then one every 100 ms: short bursts, and exactly the limit in the long run.",
        ..rate("gcra", "burst: 5", "burst 5")
    },
    Subject {
        caption: "A full bucket admits 10 together and refills at 10 per second. gcra with this burst decides the same.",
        ..rate("token_bucket", "burst: 10", "burst 10")
    },
    Subject {
        caption: "Bursts come in, an even stream goes out: up to 10 requests wait, and they leave at least 100 ms apart.",
        ..rate("leaky_bucket", "queue: 10", "queue 10 + 1")
    },
    Subject {
        caption: "Each second starts from zero. Simple, but a burst across the edge gets twice the limit.",
        window_ms: Some(1_000),
        ..rate("fixed_window", "", "limit 10")
    },
    Subject {
        caption: "The count of the previous window fades gradually, so there is no second burst at the edge.",
        window_ms: Some(1_000),
        ..rate("sliding_window", "", "limit 10")
    },
    // Few sub-windows, so that the picture can show their edges.
    Subject {
        caption: "Counts per 200 ms. A sub-window counts until all of it is a second old: at most 10 in any second.",
        window_ms: Some(200),
        ..rate("sub_windows", "sub_windows: 5", "limit 10")
    },
    Subject {
        caption: "Remembers each request for exactly one second: at most 10 in any second, and no needless denial.",
        ..rate("sliding_log", "", "limit 10")
    },
    // The ttl is longer than a request takes, and short enough for all leases of the flood to expire in the rest.
    Subject {
        caption: "At most 10 in flight at any rate; each takes 400 ms. One in ten is never released, so its ttl frees it.",
        kind: SubjectKind::Concurrency,
        ..rate("concurrency", "ttl: 1500ms", "limit 10")
    },
    Subject {
        caption: "Saved permits are used first and together, new ones come 100 ms apart. A wait over 500 ms is refused.",
        kind: SubjectKind::BurstyPacer,
        ..rate("pacer_bursty", "max_burst_seconds 1", "5 in 500 ms")
    },
    Subject {
        caption: "Cold at the start and after the rest: permits come almost 300 ms apart, then faster. A wait over 500 ms is refused.",
        kind: SubjectKind::WarmingUpPacer,
        ..rate("pacer_warming_up", "warm_up 1500ms", "5 in 500 ms")
    },
];

const fn rate(name: &'static str, options: &'static str, bound: &'static str) -> Subject {
    Subject { name, kind: SubjectKind::Rate, options, bound, window_ms: None, caption: "" }
}

impl Subject {
    /// The limit as rules write it, or the pacer in short.
    pub fn limit(&self) -> String {
        let Self { name, options, .. } = self;
        let comma = if options.is_empty() { "" } else { ", " };
        match self.kind {
            SubjectKind::Rate => format!("{{algorithm: {name}, limit: {LIMIT}, per: 1s{comma}{options}}}"),
            SubjectKind::Concurrency => format!("{{algorithm: {name}, limit: {LIMIT}{comma}{options}}}"),
            _ => format!("Pacer {LIMIT}/s, {options}, acquire_within(1, {TIMEOUT_MS}ms)"),
        }
    }

    pub(super) fn is_pacer(&self) -> bool {
        matches!(self.kind, SubjectKind::BurstyPacer | SubjectKind::WarmingUpPacer)
    }
}
