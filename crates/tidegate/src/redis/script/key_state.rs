//! Reads the states that the script writes into those of the core. Each file in `lua/` documents its format.

use smallvec::SmallVec;
use tidegate_core::algorithm::{
    Arrival, Edges, FixedWindow, Gcra, PackedAlgorithm, SlidingWindow, UsageLogAlgorithm, Window, WindowPair,
};
use tidegate_core::{
    Algorithm, FencingToken, Grant, LeaseEntry, Leases, PackedState, Timestamp, UsageEntry, UsageLog,
};

use super::term::{NANOS_PER_DAY, NANOS_PER_MICRO};
use crate::redis::plan::LeaseOwner;

/// The state of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeyState {
    /// Of buckets and windows.
    Packed(PackedState),
    /// Of logs and sub-windows.
    UsageLog(UsageLog),
    /// Of concurrency limits.
    Leases(Leases),
}

/// The states of a plan's keys, one for each charge.
pub(crate) type KeyStates = SmallVec<[KeyState; 2]>;

/// The owners of a key's leases, by fencing token. No key hands out a fencing token twice.
pub(super) type LeaseOwners = Vec<(FencingToken, LeaseOwner)>;

/// The factor of the count's digits, where the rest is a window's end in milliseconds, its end in
/// microseconds, or its number.
const COUNT_WITH_END_MS: u64 = 1_000_000;
const COUNT_WITH_END_US: u64 = 1_000;
const COUNT_WITH_NUMBER: u64 = 10_000;

const MICROS_PER_MILLI: u64 = 1_000;

/// The totals of a usage log wrap here.
const USAGE_LOG_TOTAL_END: u64 = 1 << 48;
const USAGE_LOG_HEAD_BYTES: usize = 12;
const USAGE_LOG_ENTRY_BYTES: usize = 13;
const LEASES_HEAD_BYTES: usize = 22;
const LEASE_BYTES: usize = 38;

impl KeyState {
    /// The state of a key never seen.
    pub fn never_seen(algorithm: &Algorithm) -> Self {
        match algorithm {
            Algorithm::Packed(_) => Self::Packed(PackedState::NEVER_SEEN),
            Algorithm::UsageLog(_) => Self::UsageLog(UsageLog::default()),
            Algorithm::Leases(_) => Self::Leases(Leases::default()),
        }
    }

    /// The state, if it is packed.
    pub fn packed(&self) -> Option<PackedState> {
        match self {
            Self::Packed(state) => Some(*state),
            _ => None,
        }
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        match self {
            Self::Packed(_) => 0,
            Self::UsageLog(usage_log) => usage_log.heap_bytes(),
            Self::Leases(leases) => leases.heap_bytes(),
        }
    }

    /// Parses these bytes; none if the script did not write them for such a limit.
    pub(super) fn read(algorithm: &Algorithm, bytes: &[u8]) -> Option<Self> {
        match algorithm {
            Algorithm::Packed(algorithm) => match algorithm {
                PackedAlgorithm::Gcra(algorithm) => read_arrival(algorithm, bytes),
                PackedAlgorithm::TokenBucket(algorithm) => read_arrival(algorithm.as_gcra(), bytes),
                PackedAlgorithm::LeakyBucket(algorithm) => read_arrival(algorithm.as_gcra(), bytes),
                PackedAlgorithm::FixedWindow(algorithm) => read_window(algorithm, bytes),
                PackedAlgorithm::SlidingWindow(algorithm) => read_windows(algorithm, bytes),
            }
            .map(Self::Packed),
            Algorithm::UsageLog(algorithm) => read_usage_log(algorithm, bytes).map(Self::UsageLog),
            Algorithm::Leases(_) => read_leases(bytes).map(Self::Leases),
        }
    }
}

/// The owners of the leases in these bytes.
pub(super) fn read_owners(bytes: &[u8]) -> LeaseOwners {
    let Some((_, leases)) = bytes.split_at_checked(LEASES_HEAD_BYTES) else { return LeaseOwners::new() };
    let owner = |mut entry: &[u8]| {
        let (_, fence) = (take_be(&mut entry, 9)?, take_be(&mut entry, 7)?);
        let (_, owner) = entry.split_last_chunk()?;
        Some((FencingToken::new(fence), *owner))
    };
    leases.chunks_exact(LEASE_BYTES).filter_map(owner).collect()
}

/// `"1750000000000000"` microseconds, `"-1750000000000000100"` nanoseconds, `f` with a remainder, `w` in days.
fn read_arrival(gcra: &Gcra, bytes: &[u8]) -> Option<PackedState> {
    let arrival = match bytes {
        [b'f', rest @ ..] if rest.len() == 14 => {
            let mut rest = rest;
            let (us, ns, remainder) =
                (take_be(&mut rest, 7)?, take_be(&mut rest, 2)?, take_be(&mut rest, 5)?);
            Arrival { whole_ns: u128::from(us) * u128::from(NANOS_PER_MICRO) + u128::from(ns), remainder }
        }
        [b'w', rest @ ..] if rest.len() == 18 => {
            let mut rest = rest;
            let (days, ns, remainder) =
                (take_be(&mut rest, 7)?, take_be(&mut rest, 6)?, take_be(&mut rest, 5)?);
            Arrival { whole_ns: u128::from(days) * u128::from(NANOS_PER_DAY) + u128::from(ns), remainder }
        }
        [b'-', digits @ ..] => Arrival { whole_ns: read_digits(digits)?.into(), remainder: 0 },
        digits => {
            let us = read_digits(digits)?;
            Arrival { whole_ns: u128::from(us) * u128::from(NANOS_PER_MICRO), remainder: 0 }
        }
    };
    gcra.state(arrival)
}

/// The end in milliseconds and six digits of count; negated in microseconds and three digits; `e` if neither
/// fits.
fn read_window(window: &FixedWindow, bytes: &[u8]) -> Option<PackedState> {
    let (end_us, used) = match bytes {
        [b'e', rest @ ..] if rest.len() == 13 => {
            let mut rest = rest;
            (take_be(&mut rest, 7)?, take_be(&mut rest, 6)?)
        }
        [b'-', digits @ ..] => {
            let digits = read_digits(digits)?;
            (digits / COUNT_WITH_END_US, digits % COUNT_WITH_END_US)
        }
        digits => {
            let digits = read_digits(digits)?;
            (digits / COUNT_WITH_END_MS * MICROS_PER_MILLI, digits % COUNT_WITH_END_MS)
        }
    };
    let (late_ns, window_ns) = (u128::from(end_us) * u128::from(NANOS_PER_MICRO), window.rate().window_ns());
    // The end was rounded up to a microsecond.
    let end_ns = match window.edges() {
        Edges::Calendar(_) => late_ns,
        Edges::Epoch => late_ns - late_ns % u128::from(window_ns),
        Edges::FirstHit => {
            let short_ns = window_ns.next_multiple_of(NANOS_PER_MICRO) - window_ns;
            late_ns.checked_sub(short_ns.into())?
        }
    };
    window.state(Window { end_ns, used })
}

/// The window's number, four digits of the count before and four of its own; `s` if that does not fit.
fn read_windows(windows: &SlidingWindow, bytes: &[u8]) -> Option<PackedState> {
    let (number, prev, cur) = match bytes {
        [b's', rest @ ..] if rest.len() == 16 => {
            let mut rest = rest;
            (take_be(&mut rest, 6)?, take_be(&mut rest, 5)?, take_be(&mut rest, 5)?)
        }
        digits => {
            let digits = read_digits(digits)?;
            let (rest, cur) = (digits / COUNT_WITH_NUMBER, digits % COUNT_WITH_NUMBER);
            (rest / COUNT_WITH_NUMBER, rest % COUNT_WITH_NUMBER, cur)
        }
    };
    windows.state(WindowPair { number, prev, cur })
}

fn read_usage_log(algorithm: &UsageLogAlgorithm, bytes: &[u8]) -> Option<UsageLog> {
    let (mut head, entries) = bytes.split_at_checked(USAGE_LOG_HEAD_BYTES)?;
    let (base, mut before) = (take_be(&mut head, 6)?, take_be(&mut head, 6)?);
    if entries.is_empty() || entries.len() % USAGE_LOG_ENTRY_BYTES != 0 {
        return None;
    }
    // Stamps are relative to the base; the core counts them from the epoch.
    let stamp_of = |stamp: u64| match algorithm {
        UsageLogAlgorithm::SlidingLog(_) => (base == 0).then(|| stamp.checked_mul(NANOS_PER_MICRO))?,
        UsageLogAlgorithm::SubWindows(algorithm) => {
            base.checked_mul(algorithm.sub_windows().into())?.checked_add(stamp)
        }
    };
    let read = |mut entry: &[u8]| {
        let (stamp, total) = (take_be(&mut entry, 7)?, take_be(&mut entry, 6)?);
        let units = total.wrapping_sub(before) % USAGE_LOG_TOTAL_END;
        before = total;
        Some(UsageEntry { stamp: stamp_of(stamp)?, units })
    };
    let entries: Option<Vec<UsageEntry>> = entries.chunks_exact(USAGE_LOG_ENTRY_BYTES).map(read).collect();
    UsageLog::from_entries(entries?).ok()
}

fn read_leases(bytes: &[u8]) -> Option<Leases> {
    let (mut head, leases) = bytes.split_at_checked(LEASES_HEAD_BYTES)?;
    let (fence, written_us) = (take_be(&mut head, 7)?, take_be(&mut head, 7)?);
    if leases.len() % LEASE_BYTES != 0 {
        return None;
    }
    let read = |mut entry: &[u8]| {
        let (us, ns) = (take_be(&mut entry, 7)?, take_be(&mut entry, 2)?);
        let (fence, units) = (take_be(&mut entry, 7)?, take_be(&mut entry, 6)?);
        let expires = Timestamp::from_nanos(us.checked_mul(NANOS_PER_MICRO)?.checked_add(ns)?);
        Some(LeaseEntry { grant: Grant { expires, fencing_token: FencingToken::new(fence) }, units })
    };
    let entries: Option<Vec<LeaseEntry>> = leases.chunks_exact(LEASE_BYTES).map(read).collect();
    let written = Timestamp::from_nanos(written_us.checked_mul(NANOS_PER_MICRO)?);
    Leases::from_entries(written, FencingToken::new(fence), entries?).ok()
}

/// The next `count` bytes, at most eight, as a big-endian number.
fn take_be(bytes: &mut &[u8], count: usize) -> Option<u64> {
    let (number, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(number.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// A number of decimal digits and nothing else.
fn read_digits(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, digit| match digit {
        b'0'..=b'9' => number.checked_mul(10)?.checked_add(u64::from(digit - b'0')),
        _ => None,
    })
}
