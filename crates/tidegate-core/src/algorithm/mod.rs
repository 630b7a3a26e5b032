//! The algorithms, one per file. Each is a handful of pure functions from a state and a
//! [`TimedCost`](crate::TimedCost) to numbers. None of them knows about keys, stores or clocks.
//!
//! Decisions use integers only, never floating point. In the descriptions L is the limit, W the window, B the burst, Q
//! the queue, n the number of sub-windows, t the time of a request and c its cost.
//!
//! | algorithm | state | at most, in any window W |
//! |---|---|---|
//! | [`Gcra`], [`TokenBucket`] | 16 bytes | B + L |
//! | [`LeakyBucket`] | 16 bytes | L leave, evenly spaced |
//! | [`FixedWindow`] | 16 bytes | 2L (in a calendar, around a window shorter than W, 3L) |
//! | [`SlidingWindow`] | 16 bytes | just under 2L; L per W in the long run |
//! | [`SubWindows`] | up to n + 1 entries | L (strict), 2L (not strict) |
//! | [`SlidingLog`] | up to L + 1 entries | L |
//! | [`Concurrency`] | one lease per holder | L in flight |
//!
//! Rules that hold for all of them:
//!
//! - If a caller's time is older than the state's own time, windows and logs decide by the state's time. Waits are
//!   still counted from the caller's time.
//! - A cost of zero passes if and only if the admission rule holds with zero, `min_interval` included.
//! - A limit with `count_denied: true` counts every attempt, also one that another limit of the same plan denied. With
//!   `count_denied: if_over` it counts an attempt unless only other limits of the plan are over.

mod align;
mod by_state;
#[cfg(feature = "calendar")]
mod calendar;
mod concurrency;
mod count_denied;
mod fast_path;
mod fixed_window;
mod gcra;
mod leaky_bucket;
mod limit_algorithm;
#[cfg(not(feature = "calendar"))]
mod no_calendar;
mod sliding_log;
mod sliding_window;
mod sub_windows;
mod token_bucket;
mod worst_case;

pub use align::{Align, CalendarSpec, Weekday};
pub use by_state::{Algorithm, PackedAlgorithm, UsageLogAlgorithm};
pub use concurrency::Concurrency;
pub use count_denied::CountDenied;
pub use fast_path::{FastCharge, FastPath};
pub use fixed_window::{CalendarWindow, Edges, FixedWindow, Window};
pub use gcra::{Arrival, Gcra};
pub use leaky_bucket::LeakyBucket;
pub use limit_algorithm::LimitAlgorithm;
pub use sliding_log::SlidingLog;
pub use sliding_window::{SlidingWindow, WindowPair};
pub use sub_windows::{SUB_WINDOWS_DEFAULT, SUB_WINDOWS_MAX, SubWindows};
pub use token_bucket::TokenBucket;
pub(crate) use worst_case::WorstCaseDetail;
pub use worst_case::{WorstCase, WorstCaseScope};

#[cfg(feature = "calendar")]
pub use calendar::Calendar;
#[cfg(feature = "calendar")]
pub(crate) use calendar::CalendarUnit;
#[cfg(not(feature = "calendar"))]
pub use no_calendar::Calendar;
