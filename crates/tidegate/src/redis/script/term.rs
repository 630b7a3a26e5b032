//! A term: a limit with a cost, as the script reads it. What depends on nothing else is computed here, in
//! integers of any size.
//!
//! Each file in `lua/` documents its terms. All numbers in Lua are doubles. Those that are sent are whole and
//! at most 2^53, so nothing is rounded.

use smallvec::SmallVec;
use tidegate_core::algorithm::{
    Arrival, Calendar, CountDenied, Edges, FixedWindow, Gcra, PackedAlgorithm, SlidingWindow,
    UsageLogAlgorithm,
};
use tidegate_core::{Algorithm, Nanos, Rate, Role, Timestamp};

use crate::redis::plan::RedisCharge;

/// The bytes of a term.
pub(super) type Term = SmallVec<[u8; 64]>;

/// The edges of calendar windows, in microseconds: of the window around some instant, and of its neighbours.
pub(super) type EdgesUs = [u64; 4];

pub(super) const NANOS_PER_MICRO: u64 = 1_000;
pub(super) const NANOS_PER_DAY: u64 = 86_400 * 1_000_000_000;
/// Larger integers are not exact in a double.
pub(super) const F64_EXACT_MAX: u64 = 1 << 53;
/// Buckets with a longer burst span use terms in days.
const NARROW_US_MAX: u128 = 1 << 51;
/// More than every limit. A larger cost decides the same.
const COST_MAX: u64 = 1 << 42;
/// The same for leases, whose units are stored.
pub(super) const LEASE_UNITS_MAX: u64 = 1 << 40;

const OBSERVED: u8 = 1;
const COUNTS_DENIED: u8 = 2;
const ZERO_COST: u8 = 4;
const COUNTS_IF_OVER: u8 = 8;

const GCRA: u8 = 1;
const TOKEN_BUCKET: u8 = 2;
const LEAKY_BUCKET: u8 = 3;
const FIXED_WINDOW: u8 = 4;
const SLIDING_WINDOW: u8 = 5;
const SUB_WINDOWS: u8 = 6;
const SLIDING_LOG: u8 = 7;
const CONCURRENCY: u8 = 8;
const GCRA_WIDE: u8 = 9;
const ZERO_LIMIT: u8 = 10;

const ALIGN_EPOCH: u64 = 0;
const ALIGN_FIRST_HIT: u64 = 1;
const ALIGN_CALENDAR: u64 = 2;

/// The term of a charge. `edges` returns the edges of calendar windows.
pub(super) fn term(charge: &RedisCharge, edges: impl FnOnce(&Calendar) -> EdgesUs) -> Term {
    let mut writer = TermWriter::new(charge);
    let cost = charge.cost;
    match &charge.algorithm {
        Algorithm::Packed(PackedAlgorithm::Gcra(algorithm)) => writer.bucket(GCRA, algorithm, cost),
        Algorithm::Packed(PackedAlgorithm::TokenBucket(algorithm)) => {
            writer.bucket(TOKEN_BUCKET, algorithm.as_gcra(), cost);
        }
        Algorithm::Packed(PackedAlgorithm::LeakyBucket(algorithm)) => {
            writer.bucket(LEAKY_BUCKET, algorithm.as_gcra(), cost);
        }
        Algorithm::Packed(PackedAlgorithm::FixedWindow(algorithm)) => {
            writer.fixed_window(algorithm, cost, edges);
        }
        Algorithm::Packed(PackedAlgorithm::SlidingWindow(algorithm)) => {
            writer.sliding_window(algorithm, cost);
        }
        Algorithm::UsageLog(UsageLogAlgorithm::SubWindows(algorithm)) => {
            writer.units(SUB_WINDOWS, algorithm.rate(), cost.min(COST_MAX));
            writer.span(algorithm.rate().window_ns());
            writer.number(algorithm.sub_windows().into());
            writer.number(algorithm.is_strict().into());
        }
        Algorithm::UsageLog(UsageLogAlgorithm::SlidingLog(algorithm)) => {
            writer.units(SLIDING_LOG, algorithm.rate(), cost.min(COST_MAX));
            writer.number(algorithm.rate().window_ns().div_ceil(NANOS_PER_MICRO));
            writer.number(algorithm.min_interval_ns().div_ceil(NANOS_PER_MICRO));
        }
        Algorithm::Leases(algorithm) => {
            writer.units(CONCURRENCY, algorithm.rate(), cost.min(LEASE_UNITS_MAX));
            writer.span(algorithm.rate().window_ns());
        }
    }
    writer.bytes
}

/// The calendar of a limit's windows.
pub(super) fn calendar_of(algorithm: &Algorithm) -> Option<&Calendar> {
    match algorithm {
        Algorithm::Packed(PackedAlgorithm::FixedWindow(algorithm)) => match algorithm.edges() {
            Edges::Calendar(calendar) => Some(calendar),
            _ => None,
        },
        _ => None,
    }
}

/// The edges of the window that contains `at`, and of the windows before and after it.
pub(super) fn edges_around(calendar: &Calendar, at: Timestamp) -> EdgesUs {
    let window = calendar.window(at);
    let end = Timestamp::from_nanos(u64::try_from(window.end_ns).unwrap_or(u64::MAX));
    // A window that began with the epoch has none before it.
    let before = window.start.as_nanos().checked_sub(1).map(Timestamp::from_nanos);
    let before = before.map_or(window.start, |before| calendar.window(before).start);
    let after_ns = u64::try_from(calendar.window(end).end_ns).unwrap_or(u64::MAX);
    [before, window.start, end, Timestamp::from_nanos(after_ns)]
        .map(|edge| (edge.as_nanos() / NANOS_PER_MICRO).min(F64_EXACT_MAX))
}

/// Appends a number as the script reads it.
pub(super) fn write_double(bytes: &mut impl Extend<u8>, number: u64) {
    bytes.extend((number as f64).to_le_bytes());
}

/// Appends a span as whole microseconds and the remaining nanoseconds.
pub(super) fn write_span(bytes: &mut impl Extend<u8>, span: Nanos) {
    let nanos = u64::try_from(span.get()).unwrap_or(u64::MAX);
    write_double(bytes, nanos / NANOS_PER_MICRO);
    write_double(bytes, nanos % NANOS_PER_MICRO);
}

struct TermWriter {
    bytes: Term,
}

impl TermWriter {
    fn new(charge: &RedisCharge) -> Self {
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let flags = flag(charge.role == Role::Observed, OBSERVED)
            | flag(charge.algorithm.counts_denied(), COUNTS_DENIED)
            | flag(charge.cost == 0, ZERO_COST)
            | flag(charge.algorithm.count_denied() == CountDenied::IfOver, COUNTS_IF_OVER);
        // The algorithm's number is written later, with the rest.
        Self { bytes: SmallVec::from_slice(&[0, flags]) }
    }

    fn number(&mut self, number: u64) {
        write_double(&mut self.bytes, number);
    }

    fn span(&mut self, nanos: u64) {
        write_span(&mut self.bytes, Nanos::new(nanos.into()));
    }

    /// How most terms start.
    fn units(&mut self, algorithm: u8, rate: Rate, cost: u64) {
        self.bytes[0] = algorithm;
        self.number(rate.limit());
        self.number(cost);
    }

    fn bucket(&mut self, algorithm: u8, gcra: &Gcra, cost: u64) {
        let (limit, reach) = (gcra.rate().limit(), gcra.burst_span());
        if limit == 0 {
            self.bytes[0] = ZERO_LIMIT;
        } else if reach.whole_ns / u128::from(NANOS_PER_MICRO) >= NARROW_US_MAX {
            self.bytes[0] = GCRA_WIDE;
            self.number(limit);
            // A cost of more than the burst never fits, so twice the burst decides the same, and its days are
            // still exact.
            self.wide_span(gcra.span(cost.min(2 * gcra.burst())));
            self.wide_span(reach);
        } else {
            self.bytes[0] = algorithm;
            self.number(limit);
            self.narrow_span(gcra.span(cost), limit);
            self.narrow_span(reach, limit);
        }
    }

    /// Whole microseconds and a fraction over 1000·L. A span beyond the exact range is longer than any burst
    /// span.
    fn narrow_span(&mut self, span: Arrival, limit: u64) {
        match u64::try_from(span.whole_ns) {
            Ok(nanos) if nanos / NANOS_PER_MICRO < F64_EXACT_MAX => {
                self.number(nanos / NANOS_PER_MICRO);
                self.number(nanos % NANOS_PER_MICRO * limit + span.remainder);
            }
            _ => {
                self.number(F64_EXACT_MAX);
                self.number(0);
            }
        }
    }

    /// Days, nanoseconds of a day and a remainder over L.
    fn wide_span(&mut self, span: Arrival) {
        let day = u128::from(NANOS_PER_DAY);
        self.number(u64::try_from(span.whole_ns / day).unwrap_or(F64_EXACT_MAX));
        self.number(u64::try_from(span.whole_ns % day).unwrap_or(0));
        self.number(span.remainder);
    }

    fn fixed_window(&mut self, algorithm: &FixedWindow, cost: u64, edges: impl FnOnce(&Calendar) -> EdgesUs) {
        self.units(FIXED_WINDOW, algorithm.rate(), cost.min(COST_MAX));
        match algorithm.edges() {
            Edges::Calendar(calendar) => {
                self.number(ALIGN_CALENDAR);
                edges(calendar).into_iter().for_each(|edge| self.number(edge));
                return;
            }
            Edges::Epoch => self.number(ALIGN_EPOCH),
            Edges::FirstHit => self.number(ALIGN_FIRST_HIT),
        }
        self.span(algorithm.rate().window_ns());
    }

    fn sliding_window(&mut self, algorithm: &SlidingWindow, cost: u64) {
        self.units(SLIDING_WINDOW, algorithm.rate(), cost.min(COST_MAX));
        self.span(algorithm.rate().window_ns());
    }
}
