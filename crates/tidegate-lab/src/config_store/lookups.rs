//! The times of look-ups and of single writes.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::engine::Engine;
use super::{absent_key, present_key};
use crate::latency::Latencies;

/// Look-ups of each kind, each of another key.
const LOOKUPS: usize = 10_000;
/// Commits of one entry, one after the other.
const SINGLE_WRITES: u64 = 100;

/// The keys to look up.
pub(super) struct Lookups {
    present: Vec<String>,
    absent: Vec<String>,
}

/// Which keys to look up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    Present,
    Absent,
}

impl Lookups {
    pub(super) fn choose(entries: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(18);
        let mut keys = |key: fn(u64) -> String| -> Vec<String> {
            (0..LOOKUPS).map(|_| key(random.random_range(0..entries.max(1)))).collect()
        };
        Self { present: keys(present_key), absent: keys(absent_key) }
    }

    /// Looks every key up, and checks what it finds.
    pub(super) fn run(&self, engine: &dyn Engine, keys: Keys) -> Result<Latencies, String> {
        let (clock, mut times) = (quanta::Clock::new(), Latencies::default());
        let chosen = match keys {
            Keys::Present => &self.present,
            Keys::Absent => &self.absent,
        };
        for key in chosen {
            let start = clock.raw();
            let found = engine.get(key)?;
            times.add(clock.delta_as_nanos(start, clock.raw()));
            if found.is_some() != (keys == Keys::Present) {
                return Err(format!("the store is wrong about the key `{key}`: {found:?}"));
            }
        }
        Ok(times)
    }
}

/// Writes one entry per commit, at random positions.
pub(super) fn measure_single_writes(engine: &dyn Engine, entries: u64) -> Result<Latencies, String> {
    let (mut random, clock) = (SmallRng::seed_from_u64(19), quanta::Clock::new());
    let mut times = Latencies::default();
    for _ in 0..SINGLE_WRITES {
        let number = random.random_range(0..entries.max(1));
        let start = clock.raw();
        engine.load(number..number + 1)?;
        times.add(clock.delta_as_nanos(start, clock.raw()));
    }
    Ok(times)
}
