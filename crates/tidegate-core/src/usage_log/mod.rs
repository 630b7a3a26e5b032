//! The usage log: how many units a key used, and when, oldest first. Its size varies.
//!
//! An entry holds the running total up to and including itself. So the usage since any entry is one subtraction, and a
//! binary search finds the entry after which enough units are free. Neither a decision nor its retry time depends on
//! the number of entries. Totals wrap around; their differences never do, because a log holds fewer than 2^42 units.

mod copy;
mod entries;
mod log;

pub use copy::{CopyProgress, UsageLogCopy};
pub use entries::{UsageEntry, UsageLogError};
pub use log::UsageLog;

pub(crate) use log::Horizon;
