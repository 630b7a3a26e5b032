//! What a lease protects, keeping old holders out.

use std::fmt;

use tidegate_core::FencingToken;

use crate::sync::{AtomicU64, Ordering};

/// Lets pass who holds the newest lease it has heard of, and refuses all that came before.
///
/// It belongs to what is protected, where changes are made: a holder that was stopped for longer than its lease lasts
/// cannot know that somebody else has it by now, but shows a lower number.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{FenceGate, Locks, ManualClock, MemoryStore};
/// # use std::sync::Arc;
///
/// let clock = ManualClock::default();
/// let locks = Locks::over_with_clock(Arc::new(MemoryStore::bounded(1 << 20)), clock.clone());
/// let file = FenceGate::default();
///
/// let paused = locks.try_lock("file", Duration::from_secs(10)).expect("free");
/// clock.advance(Duration::from_secs(11));
/// let other = locks.try_lock("file", Duration::from_secs(10)).expect("free again");
/// assert!(file.admit(other.fence()).is_ok());
/// assert!(file.admit(paused.fence()).is_err());
/// ```
#[derive(Debug, Default)]
pub struct FencingGuard {
    highest: AtomicU64,
}

/// A holder whose lease is over, and somebody newer has been here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StaleFencingToken {
    /// The number that was shown.
    pub presented: FencingToken,
    /// The highest number seen.
    pub highest: FencingToken,
}

impl FencingGuard {
    /// A gate that has seen this number, as a program does that comes back and has kept it.
    pub fn with_highest(highest: FencingToken) -> Self {
        Self { highest: AtomicU64::new(highest.get()) }
    }

    /// Lets `fence` pass unless a higher one has been seen.
    pub fn admit(&self, fence: FencingToken) -> Result<(), StaleFencingToken> {
        let highest = FencingToken::new(self.highest.fetch_max(fence.get(), Ordering::AcqRel));
        if fence < highest { Err(StaleFencingToken { presented: fence, highest }) } else { Ok(()) }
    }

    /// The highest number seen.
    pub fn highest(&self) -> FencingToken {
        FencingToken::new(self.highest.load(Ordering::Acquire))
    }
}

impl fmt::Display for StaleFencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { presented: shown, highest } = self;
        write!(
            f,
            "fence {shown} is from a lease that is over: {highest} has been seen (hint: acquire it again)"
        )
    }
}

impl std::error::Error for StaleFencingToken {}
