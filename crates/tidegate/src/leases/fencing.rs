//! Fencing: refusing a holder whose lease is over and whose successor was already seen.

use std::fmt;

use tidegate_core::FencingToken;

use crate::sync::{AtomicU64, Ordering};

/// Admits the holder of the newest lease that it has seen, and refuses every earlier holder.
///
/// It belongs to the protected resource, where changes are made. A holder that was paused for longer than its lease
/// cannot know that another holder has the lease now, but it presents a lower fencing token.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{FencingGuard, Locks, ManualClock, MemoryStore};
/// # use std::sync::Arc;
///
/// let clock = ManualClock::default();
/// let locks = Locks::with_store_and_clock(Arc::new(MemoryStore::bounded(1 << 20)), clock.clone());
/// let file = FencingGuard::default();
///
/// let paused = locks.try_lock("file", Duration::from_secs(10)).expect("free");
/// clock.advance(Duration::from_secs(11));
/// let other = locks.try_lock("file", Duration::from_secs(10)).expect("free again");
/// assert!(file.admit(other.fencing_token()).is_ok());
/// assert!(file.admit(paused.fencing_token()).is_err());
/// ```
#[derive(Debug, Default)]
pub struct FencingGuard {
    highest: AtomicU64,
}

/// The token of a holder whose lease is over: a later holder was already seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StaleFencingToken {
    /// The token that was presented.
    pub presented: FencingToken,
    /// The highest token seen.
    pub highest: FencingToken,
}

impl FencingGuard {
    /// A guard that has seen `highest`, for a program that restarts and has kept that token.
    pub fn with_highest(highest: FencingToken) -> Self {
        Self { highest: AtomicU64::new(highest.get()) }
    }

    /// Admits `fence` unless a higher token has been seen.
    pub fn admit(&self, fence: FencingToken) -> Result<(), StaleFencingToken> {
        let highest = FencingToken::new(self.highest.fetch_max(fence.get(), Ordering::AcqRel));
        if fence < highest { Err(StaleFencingToken { presented: fence, highest }) } else { Ok(()) }
    }

    /// The highest token seen.
    pub fn highest(&self) -> FencingToken {
        FencingToken::new(self.highest.load(Ordering::Acquire))
    }
}

impl fmt::Display for StaleFencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { presented, highest } = self;
        write!(
            f,
            "fencing token {presented} is stale: {highest} has been seen (hint: acquire the lease again)"
        )
    }
}

impl std::error::Error for StaleFencingToken {}
