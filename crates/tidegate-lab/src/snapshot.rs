//! The cost of a snapshot: decisions while one is written, compared with decisions while none is.
//!
//! One thread decides and times every decision: on a few hot keys, on keys of the store, and on new keys. In the first
//! phase another thread writes a snapshot. The second phase makes the same number of decisions without one. The longest
//! decision is mostly due to the operating system: when all cores are busy, a thread loses its core for milliseconds.
//! So decisions are also counted without the time in which the thread waited for a core.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tidegate::snapshot::{RestoreStatus, SnapshotError, SnapshotReport};
use tidegate::{AlgorithmName, Limiter, LimiterError, MemoryStore, Timestamp};

use crate::latency::Latencies;
use crate::measure::{WallTime, waited_ns};
use crate::spray::hourly_limit;
use crate::{Bytes, table::Table};

/// The start time, well inside every aligned minute, hour and day.
const START_NS: u64 = 1_700_000_000 * 1_000_000_000;
/// From one decision to the next. It is short enough that no key becomes idle during a run.
const STEP_NS: u64 = 10;
const HOT_KEYS: u64 = 1_000;
/// After a longer decision, check whether the thread waited for a core.
const SLOW_NS: u64 = 10_000;
/// Decisions between two checks whether the snapshot is done.
const BATCH_DECISIONS: u64 = 64;
const PROGRESS_EVERY_KEYS: u64 = 1 << 16;
/// More than a key takes with any algorithm at this limit, with room for the same number of new keys.
const MEMORY_BYTES_PER_KEY: u64 = 768;
const MEMORY_BYTES_MIN: u64 = 256 << 20;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// Keys in the store before the snapshot.
    pub keys: u64,
    /// The algorithm of their limit.
    pub algorithm: AlgorithmName,
    /// Where to write the file, which is removed at the end.
    pub directory: PathBuf,
}

/// The results.
#[derive(Clone, Debug)]
pub struct MeasurementReport {
    /// What was measured.
    pub measurement: Measurement,
    /// Decisions while a snapshot was written.
    pub during: PhaseTimes,
    /// The same number of decisions while none was written.
    pub alone: PhaseTimes,
    /// What was written.
    pub written: SnapshotReport,
    /// How long writing took.
    pub write_ns: u64,
    /// What was restored.
    pub found: RestoreStatus,
    /// How long restoring took.
    pub restore_ns: u64,
}

/// The times of the decisions of one phase.
#[derive(Clone, Debug, Default)]
pub struct PhaseTimes {
    /// How long each took.
    pub latencies: Latencies,
    /// How long each took, without waiting for a core.
    pub on_core: Latencies,
    /// How long the thread waited for a core in total.
    pub waited_ns: u64,
}

/// Why a measurement failed.
#[derive(Debug)]
pub enum MeasurementError {
    /// The limit is not valid for the algorithm.
    Limit(LimiterError),
    /// The snapshot was not written.
    Snapshot(SnapshotError),
}

/// Makes the decisions.
struct TrafficSource {
    keys: Limiter,
    hot: Limiter,
    random: SmallRng,
    keys_before: u64,
    decisions: u64,
    clock: quanta::Clock,
}

impl Measurement {
    /// Runs the measurement. It calls `progress` now and then with the number of keys in the store.
    pub fn run(self, progress: impl FnMut(u64)) -> Result<MeasurementReport, MeasurementError> {
        let memory_max = self.keys.saturating_mul(MEMORY_BYTES_PER_KEY).max(MEMORY_BYTES_MIN);
        let store = Arc::new(MemoryStore::bounded(memory_max));
        let mut traffic = TrafficSource::new(&self, &store).map_err(MeasurementError::Limit)?;
        traffic.fill(progress);
        let path = self.directory.join(format!("tidegate-lab-{}.snapshot", std::process::id()));
        let report = self.measure(&mut traffic, &store, &path, memory_max);
        // There is no file if writing failed.
        let _ = std::fs::remove_file(&path);
        report.map_err(MeasurementError::Snapshot)
    }

    fn measure(
        self,
        traffic: &mut TrafficSource,
        store: &MemoryStore,
        path: &Path,
        memory_max: u64,
    ) -> Result<MeasurementReport, SnapshotError> {
        let (now, is_done) = (traffic.now(), AtomicBool::new(false));
        let ((written, write_ns), during) = thread::scope(|scope| {
            let writing = scope.spawn(|| {
                let watch = WallTime::start();
                let written = store.snapshot(path, now);
                let write_ns = watch.elapsed_ns();
                is_done.store(true, Ordering::Release);
                (written, write_ns)
            });
            let during = traffic.decide_while(|_| !is_done.load(Ordering::Acquire));
            (writing.join().expect("a snapshot does not panic"), during)
        });
        let decisions = during.latencies.count;
        let alone = traffic.decide_while(|decided| decided < decisions);
        let watch = WallTime::start();
        let found = MemoryStore::restore(path, memory_max, now).status;
        let restore_ns = watch.elapsed_ns();
        Ok(MeasurementReport {
            measurement: self,
            during,
            alone,
            written: written?,
            write_ns,
            found,
            restore_ns,
        })
    }
}

impl TrafficSource {
    fn new(measurement: &Measurement, store: &Arc<MemoryStore>) -> Result<Self, LimiterError> {
        let limiter = |rule: &str, units: u64| {
            let limit = hourly_limit(measurement.algorithm, units);
            Limiter::builder().rule(rule).limit(limit).store(Arc::clone(store)).build()
        };
        Ok(Self {
            keys: limiter("keys", 10)?,
            hot: limiter("hot", 1_000)?,
            random: SmallRng::seed_from_u64(1),
            keys_before: measurement.keys,
            decisions: 0,
            clock: quanta::Clock::new(),
        })
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(START_NS + self.decisions * STEP_NS)
    }

    fn fill(&mut self, mut progress: impl FnMut(u64)) {
        for number in 0..self.keys_before {
            self.decisions += 1;
            let _ = self.keys.check_at(number.to_le_bytes(), 1, self.now());
            if number % PROGRESS_EVERY_KEYS == 0 {
                progress(number);
            }
        }
    }

    /// Decides and measures as long as `goes_on`, which it calls after every batch.
    fn decide_while(&mut self, goes_on: impl Fn(u64) -> bool) -> PhaseTimes {
        let mut phase = PhaseTimes::default();
        let waited_before_ns = waited_ns();
        let (mut waited_last_ns, mut end) = (waited_before_ns, self.clock.raw());
        while goes_on(phase.latencies.count) {
            for _ in 0..BATCH_DECISIONS {
                let start = self.clock.raw();
                if self.clock.delta_as_nanos(end, start) > SLOW_NS {
                    // The thread waited between two decisions, which counts for neither.
                    waited_last_ns = waited_ns();
                }
                let start = self.clock.raw();
                self.decide();
                end = self.clock.raw();
                let took_ns = self.clock.delta_as_nanos(start, end);
                let mut on_core_ns = took_ns;
                if took_ns > SLOW_NS {
                    let waited_now_ns = waited_ns();
                    on_core_ns = took_ns.saturating_sub(waited_now_ns.saturating_sub(waited_last_ns));
                    (waited_last_ns, end) = (waited_now_ns, self.clock.raw());
                }
                phase.latencies.add(took_ns);
                phase.on_core.add(on_core_ns);
            }
        }
        phase.waited_ns = waited_ns().saturating_sub(waited_before_ns);
        phase
    }

    #[inline]
    fn decide(&mut self) {
        self.decisions += 1;
        let (number, now) = (self.decisions, self.now());
        let (limiter, key) = match number % 4 {
            0 => (&self.keys, self.keys_before + number),
            1 => (&self.keys, self.random.random_range(0..self.keys_before.max(1))),
            _ => (&self.hot, number % HOT_KEYS),
        };
        let _ = std::hint::black_box(limiter.check_at(key.to_le_bytes(), 1, now));
    }
}

impl fmt::Display for MeasurementReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Measurement { keys, algorithm, .. } = self.measurement;
        let title = format!("{keys} keys, {algorithm}: nanoseconds per decision, one thread");
        let mut table = Table::new(title, ["", "no snapshot", "while one is written", "ratio"]);
        let mut row = |what: &str, figure: &dyn Fn(&PhaseTimes) -> u64| {
            let [alone, during] = [&self.alone, &self.during].map(figure);
            let ratio = format!("{:.2}x", during as f64 / alone.max(1) as f64);
            table.row([what.to_owned(), alone.to_string(), during.to_string(), ratio]);
        };
        row("median", &|phase| phase.latencies.all_but_one_in(2));
        row("99 %", &|phase| phase.latencies.all_but_one_in(100));
        row("99.9 %", &|phase| phase.latencies.all_but_one_in(1_000));
        row("99.99 %", &|phase| phase.latencies.all_but_one_in(10_000));
        row("longest", &|phase| phase.latencies.max_ns);
        row("99.99 % on a core", &|phase| phase.on_core.all_but_one_in(10_000));
        row("longest on a core", &|phase| phase.on_core.max_ns);
        table.note(format!("{} decisions in each phase.", self.during.latencies.count));
        let waited = [&self.alone, &self.during].map(|phase| phase.waited_ns as f64 / 1e6);
        table.note(format!("The thread waited for a core for {:.1} ms and {:.1} ms.", waited[0], waited[1]));
        table.fmt(f)?;

        let SnapshotReport { entries, bytes, .. } = self.written;
        let mut table = Table::without_heading("the snapshot");
        let mut row = |what: &str, figure: String| table.row([what.to_owned(), figure]);
        row("counters", entries.to_string());
        row("size", Bytes(bytes).to_string());
        row("bytes per counter", format!("{:.2}", bytes as f64 / entries.max(1) as f64));
        row("written in", format!("{:.2} s", self.write_ns as f64 / 1e9));
        row("restored in", format!("{:.2} s", self.restore_ns as f64 / 1e9));
        table.note(self.found.to_string());
        table.fmt(f)
    }
}

impl fmt::Display for MeasurementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit(error) => error.fmt(f),
            Self::Snapshot(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for MeasurementError {}
