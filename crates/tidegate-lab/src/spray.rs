//! A flood of keys, far more than fit into memory, each seen once and never again.
//!
//! What an attacker does who makes up a new key for every request: the store has to stay within `memory_max`,
//! so it gives up live state, and the question is whose. All the while one hot key asks far more often than its
//! limit allows. It must get exactly what its limit allows: neither may the flood push its state out, which
//! would hand it a fresh allowance, nor may it be denied what is its own.
//!
//! Time is handed in, so a run takes as long as the work takes, whatever span it plays.

use std::fmt;
use std::sync::Arc;

use tidegate::{AlgorithmName, Limiter, LimiterError, MemoryStore, Timestamp};

use crate::hourly::hourly;
use crate::process::{self, Resident};
use crate::stopwatch::ThreadTime;
use crate::{Bytes, table::Table};

/// How far above `memory_max` the whole process may be. The store's own bytes have to stay below `memory_max`
/// itself; the rest is the program, the allocator's rounding and its slack.
pub const RESIDENT_RATIO_MAX: f64 = 1.25;

/// When it starts: a moment well inside every aligned minute, hour and day.
const START_NS: u64 = 1_700_000_000 * 1_000_000_000;
/// Keys between two reports of progress.
const PROGRESS_EVERY_KEYS: u64 = 1 << 16;

/// What to do.
#[derive(Clone, Debug)]
pub struct Spray {
    /// Distinct keys.
    pub keys: u64,
    /// How often each of them asks, in a row.
    pub asks_per_key: u64,
    /// The bound of the store.
    pub memory_max: Bytes,
    /// The limit of each of those keys.
    pub limit: String,
    /// The limit of the hot key.
    pub hot_limit: String,
    /// The hot key asks once after this many other keys.
    pub hot_every_keys: u64,
    /// How much later each ask is than the one before.
    pub step_ns: u64,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Report {
    /// What was done.
    pub spray: Spray,
    /// How often the distinct keys were admitted. If each asks once, it is, for none was ever seen before.
    pub admitted: u64,
    /// Bytes in the store at the end, as it counts them.
    pub store_bytes: u64,
    /// States given up while they still mattered.
    pub live_evictions: u64,
    /// How the hot key fared.
    pub hot: HotKey,
    /// This process's memory before and after, where it can be told.
    pub resident: Option<[Resident; 2]>,
    /// Processor time, the hot key's included.
    pub cpu_ns: u64,
}

/// How the hot key fared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HotKey {
    /// How often it asked.
    pub asked: u64,
    /// How often it was admitted.
    pub admitted: u64,
    /// How often it would have been if it had been alone in a store without a bound.
    pub allowed: u64,
}

impl Spray {
    /// A spray at `10 per hour` a key by the given algorithm, one ask a key and a microsecond, with a hot key of `1000 per
    /// day` that asks a thousand times a second.
    ///
    /// The hot key's allowance takes longer to come back than theirs. That is a condition and not a detail: a
    /// full store gives up what is nearest its reset, and of a key whose limit resets sooner than those of the
    /// flood that would be its own.
    pub fn new(keys: u64, memory_max: Bytes, algorithm: AlgorithmName) -> Self {
        Self {
            keys,
            asks_per_key: 1,
            memory_max,
            limit: hourly(algorithm, 10),
            hot_limit: "1000 per day".to_owned(),
            hot_every_keys: 1_000,
            step_ns: 1_000,
        }
    }

    /// Runs it. `progress` hears from time to time how many keys are done.
    pub fn run(self, mut progress: impl FnMut(u64)) -> Result<Report, LimiterError> {
        let before = process::resident();
        let store = Arc::new(MemoryStore::bounded(self.memory_max.0));
        let limiter =
            Limiter::builder().rule("sprayed").limit(&self.limit).store(Arc::clone(&store)).build()?;
        let hot_limiter = Limiter::builder().rule("hot").limit(&self.hot_limit).store(store).build()?;
        let alone = Arc::new(MemoryStore::unbounded());
        let reference = Limiter::builder().rule("hot").limit(&self.hot_limit).store(alone).build()?;

        let mut hot = HotKey::default();
        let mut admitted = 0;
        let mut now_ns = START_NS;
        let watch = ThreadTime::start();
        for number in 0..self.keys {
            if number % self.hot_every_keys == 0 {
                let now = Timestamp::from_nanos(now_ns);
                hot.asked += 1;
                hot.admitted += u64::from(hot_limiter.check_at("hot", 1, now).is_allowed());
                hot.allowed += u64::from(reference.check_at("hot", 1, now).is_allowed());
            }
            for _ in 0..self.asks_per_key {
                let now = Timestamp::from_nanos(now_ns);
                admitted += u64::from(limiter.check_at(number.to_le_bytes(), 1, now).is_allowed());
                now_ns += self.step_ns;
            }
            if number % PROGRESS_EVERY_KEYS == 0 {
                progress(number);
            }
        }
        let cpu_ns = watch.elapsed_ns();
        progress(self.keys);

        let stats = limiter.stats();
        Ok(Report {
            spray: self,
            admitted,
            store_bytes: stats.bytes_used,
            live_evictions: stats.live_evictions,
            hot,
            resident: before.zip(process::resident()).map(|(before, after)| [before, after]),
            cpu_ns,
        })
    }
}

impl Report {
    /// What was broken, one sentence each; nothing if all is well.
    pub fn broken(&self) -> Vec<String> {
        let mut broken = Vec::new();
        let HotKey { admitted, allowed, .. } = self.hot;
        if admitted != allowed {
            broken
                .push(format!("the hot key was admitted {admitted} times where its limit allows {allowed}"));
        }
        if self.store_bytes > self.spray.memory_max.0 {
            let held = Bytes(self.store_bytes);
            broken.push(format!("the store counts {held}, more than its {}", self.spray.memory_max));
        }
        if let Some(ratio) = self.resident_ratio()
            && ratio >= RESIDENT_RATIO_MAX
        {
            broken.push(format!(
                "resident memory was {ratio:.2} of memory_max, not below {RESIDENT_RATIO_MAX}"
            ));
        }
        broken
    }

    /// The most this process ever had in memory, as a share of the store's bound.
    pub fn resident_ratio(&self) -> Option<f64> {
        self.resident.map(|[_, after]| after.peak_bytes as f64 / self.spray.memory_max.0 as f64)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Spray { keys, asks_per_key, memory_max, limit, hot_limit, .. } = &self.spray;
        let each = if *asks_per_key == 1 { String::new() } else { format!(", {asks_per_key} asks each") };
        let mut table = Table::without_heading(format!("{keys} keys at {limit}{each} into {memory_max}"));
        let mut row = |what: &str, figure: String| table.row([what.to_owned(), figure]);
        row("asks admitted", self.admitted.to_string());
        row("store", Bytes(self.store_bytes).to_string());
        if let (Some([before, after]), Some(ratio)) = (self.resident, self.resident_ratio()) {
            row("resident before", Bytes(before.now_bytes).to_string());
            row("resident after", Bytes(after.now_bytes).to_string());
            row("resident peak", Bytes(after.peak_bytes).to_string());
            row("peak / memory_max", format!("{ratio:.3}"));
        }
        row("live evictions", self.live_evictions.to_string());
        row(&format!("hot key ({hot_limit}) asked"), self.hot.asked.to_string());
        row("hot key admitted", self.hot.admitted.to_string());
        row("hot key allowed", self.hot.allowed.to_string());
        row("CPU ns per key", format!("{:.1}", self.cpu_ns as f64 / (*keys).max(1) as f64));
        match self.broken() {
            broken if broken.is_empty() => table.note("every bound held"),
            broken => broken.into_iter().for_each(|what| table.note(format!("BROKEN: {what}"))),
        }
        table.fmt(f)
    }
}
