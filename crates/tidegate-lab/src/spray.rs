//! A flood of keys, far more than fit into memory, each seen once.
//!
//! An attacker can invent a new key for every request. The store must stay within `memory_max`, so it evicts live
//! state. Meanwhile one hot key sends far more requests than its limit allows, and must get exactly what its limit
//! allows. If the flood evicted the hot key's state, it would get a fresh allowance.
//!
//! The run passes the time in, so it does not wait for simulated time.

use std::fmt;
use std::sync::Arc;

use tidegate::{AlgorithmName, Limiter, LimiterError, MemoryStore, Timestamp};

use crate::measure::ThreadTime;
use crate::process::{self, Resident};
use crate::{Bytes, table::Table};

/// The most resident memory of the process, relative to `memory_max`. The store itself must stay below `memory_max`;
/// the rest is the program and the overhead of the allocator.
pub const RESIDENT_RATIO_MAX: f64 = 1.25;

/// The start time, well inside every aligned minute, hour and day.
const START_NS: u64 = 1_700_000_000 * 1_000_000_000;
/// Keys between two reports of progress.
const PROGRESS_EVERY_KEYS: u64 = 1 << 16;

/// What to run.
#[derive(Clone, Debug)]
pub struct Spray {
    /// Distinct keys.
    pub keys: u64,
    /// Requests per key, in a row.
    pub requests_per_key: u64,
    /// The memory bound of the store.
    pub memory_max: Bytes,
    /// The limit of each distinct key.
    pub limit: String,
    /// The limit of the hot key.
    pub hot_limit: String,
    /// The hot key sends one request per this many distinct keys.
    pub hot_every_keys: u64,
    /// The time from one request to the next.
    pub step_ns: u64,
}

/// The results.
#[derive(Clone, Debug)]
pub struct SprayReport {
    /// What was run.
    pub spray: Spray,
    /// Admitted requests of the distinct keys. With one request per key, all are admitted, but for leases that find no
    /// memory.
    pub admitted: u64,
    /// Bytes in the store at the end, by its own count.
    pub store_bytes: u64,
    /// Evicted states that still counted.
    pub live_evictions: u64,
    /// Leases that were refused because memory was full.
    pub lease_refusals: u64,
    /// The decisions about the hot key.
    pub hot: HotKey,
    /// The memory of this process before and after, where the system reports it.
    pub resident: Option<[Resident; 2]>,
    /// CPU time, including the hot key's.
    pub cpu_ns: u64,
}

/// The decisions about the hot key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HotKey {
    /// Its requests.
    pub requests: u64,
    /// Its admitted requests.
    pub admitted: u64,
    /// The requests that an unbounded store admits with no other keys.
    pub allowed: u64,
}

impl Spray {
    /// A spray at `10 per hour` with the given algorithm: one request per key, one key per microsecond. The hot key has
    /// `1000 per day` and sends a thousand requests per second.
    pub fn new(keys: u64, memory_max: Bytes, algorithm: AlgorithmName) -> Self {
        Self {
            keys,
            requests_per_key: 1,
            memory_max,
            limit: hourly_limit(algorithm, 10),
            hot_limit: "1000 per day".to_owned(),
            hot_every_keys: 1_000,
            step_ns: 1_000,
        }
    }

    /// Runs the spray. It calls `progress` now and then with the number of keys done.
    pub fn run(self, mut progress: impl FnMut(u64)) -> Result<SprayReport, LimiterError> {
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
                hot.requests += 1;
                hot.admitted += u64::from(hot_limiter.check_at("hot", 1, now).is_allowed());
                hot.allowed += u64::from(reference.check_at("hot", 1, now).is_allowed());
            }
            for _ in 0..self.requests_per_key {
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
        Ok(SprayReport {
            spray: self,
            admitted,
            store_bytes: stats.bytes_used,
            live_evictions: stats.live_evictions,
            lease_refusals: stats.lease_refusals,
            hot,
            resident: before.zip(process::resident()).map(|(before, after)| [before, after]),
            cpu_ns,
        })
    }
}

impl SprayReport {
    /// The violated bounds, one sentence each.
    pub fn broken(&self) -> Vec<String> {
        let mut broken = Vec::new();
        let HotKey { admitted, allowed, .. } = self.hot;
        if admitted != allowed {
            broken.push(format!("the hot key was admitted {admitted} times, but its limit allows {allowed}"));
        }
        if self.store_bytes > self.spray.memory_max.0 {
            let held = Bytes(self.store_bytes);
            broken.push(format!("the store counts {held}, more than its bound of {}", self.spray.memory_max));
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

    /// The peak memory of this process, relative to the store's bound.
    pub fn resident_ratio(&self) -> Option<f64> {
        self.resident.map(|[_, after]| after.peak_bytes as f64 / self.spray.memory_max.0 as f64)
    }
}

impl fmt::Display for SprayReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Spray { keys, requests_per_key, memory_max, limit, hot_limit, .. } = &self.spray;
        let each = if *requests_per_key == 1 {
            String::new()
        } else {
            format!(", {requests_per_key} requests each")
        };
        let mut table = Table::without_heading(format!("{keys} keys at {limit}{each} into {memory_max}"));
        let mut row = |what: &str, figure: String| table.row([what.to_owned(), figure]);
        row("requests admitted", self.admitted.to_string());
        row("store", Bytes(self.store_bytes).to_string());
        if let (Some([before, after]), Some(ratio)) = (self.resident, self.resident_ratio()) {
            row("resident before", Bytes(before.now_bytes).to_string());
            row("resident after", Bytes(after.now_bytes).to_string());
            row("resident peak", Bytes(after.peak_bytes).to_string());
            row("peak / memory_max", format!("{ratio:.3}"));
        }
        row("live evictions", self.live_evictions.to_string());
        if self.lease_refusals > 0 {
            row("leases refused", self.lease_refusals.to_string());
        }
        row(&format!("hot key ({hot_limit}) requests"), self.hot.requests.to_string());
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

/// A limit of `units` per hour, or held for an hour.
pub(crate) fn hourly_limit(algorithm: AlgorithmName, units: u64) -> String {
    let span = if algorithm == AlgorithmName::Concurrency { "ttl" } else { "per" };
    format!("{{algorithm: {algorithm}, limit: {units}, {span}: 1h}}")
}
