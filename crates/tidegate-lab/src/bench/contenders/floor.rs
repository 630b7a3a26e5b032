//! The floor: the least work of any limiter with keys and a clock.
//!
//! One clock reading, one keyed hash of good quality, one probe of a table that is large enough from the start, one
//! compare-and-swap of one word. It has no second word of state, no remainder, no growth, no eviction and no bound on
//! memory, and answers only yes or no. It is a lower bound, not a usable limiter.

use std::hash::Hasher;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::SharedSeed;
use foldhash::quality::FoldHasher;
use tidegate::{Clock, SystemClock};

use super::{Contender, FLOOR, Lap};
use crate::bench::workload::BenchLimit;

pub(super) struct Floor {
    slots: Box<[Slot]>,
    clock: SystemClock,
    seed: SharedSeed,
    interval_ns: u64,
    tolerance_ns: u64,
}

struct Slot {
    /// The key's hash; zero marks a free slot.
    tag: AtomicU64,
    /// When the next unit is due.
    due_ns: AtomicU64,
}

impl Floor {
    pub(super) fn new(BenchLimit { rate, per_s, burst, .. }: BenchLimit, keys: u64) -> Self {
        // Between a third and two thirds full.
        let slots = usize::try_from(keys + keys / 2).unwrap_or(usize::MAX).next_power_of_two();
        let slot = |_| Slot { tag: AtomicU64::new(0), due_ns: AtomicU64::new(0) };
        let interval_ns = u64::from(per_s) * 1_000_000_000 / u64::from(rate);
        Self {
            slots: (0..slots).map(slot).collect(),
            clock: SystemClock::new(),
            // `black_box` hides the constant from the compiler.
            seed: SharedSeed::from_u64(black_box(0x9E37_79B9_7F4A_7C15)),
            interval_ns,
            tolerance_ns: interval_ns * u64::from(burst),
        }
    }

    #[inline]
    fn is_admitted(&self, key: &str) -> bool {
        let now_ns = self.clock.now().as_nanos();
        let mut hasher = FoldHasher::with_seed(0, &self.seed);
        hasher.write(key.as_bytes());
        let tag = hasher.finish().max(1);
        let slot = self.slot(tag);
        let mut due_ns = slot.due_ns.load(Ordering::Acquire);
        loop {
            let next_ns = due_ns.max(now_ns) + self.interval_ns;
            if next_ns > now_ns + self.tolerance_ns {
                return false;
            }
            match slot.due_ns.compare_exchange(due_ns, next_ns, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(newer) => due_ns = newer,
            }
        }
    }

    /// The slot of `tag`, claimed if there is none.
    #[inline]
    fn slot(&self, tag: u64) -> &Slot {
        let mask = self.slots.len() - 1;
        #[allow(clippy::cast_possible_truncation, reason = "any bits of a hash will do")]
        let mut at = tag as usize & mask;
        loop {
            let slot = &self.slots[at];
            match slot.tag.load(Ordering::Acquire) {
                held if held == tag => return slot,
                0 => match slot.tag.compare_exchange(0, tag, Ordering::AcqRel, Ordering::Acquire) {
                    Err(held) if held != tag => {}
                    _ => return slot,
                },
                _ => {}
            }
            at = (at + 1) & mask;
        }
    }
}

impl Contender for Floor {
    fn name(&self) -> &str {
        FLOOR
    }

    fn note(&self) -> Option<&'static str> {
        Some("floor: one clock reading, one hash, one probe, one compare-and-swap; answers only yes or no.")
    }

    fn lap_shared(&self, lap: Lap<'_>) -> u64 {
        lap.admitted(|key| self.is_admitted(key))
    }
}
