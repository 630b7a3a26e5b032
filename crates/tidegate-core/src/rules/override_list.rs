//! The overrides of a key, as decisions use them: with what most decisions need in the first 128 bytes.
//!
//! Most overrides only set numbers, as those of a customer's plan do. Then a decision needs the numbers and the limit that
//! was compiled with them, and reads nothing else.

use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

use super::overrides::{Override, OverrideValues};

/// The overrides of a key or of a wildcard. Keys with equal overrides share them.
#[derive(Debug, Default)]
pub struct OverrideList {
    /// The limit that was last compiled with these values. 0 if none was.
    kept: AtomicU64,
    /// The numbers, if there is one override that sets nothing else.
    plain: Option<OverrideValues>,
    all: Box<[Override]>,
}

impl OverrideList {
    /// The numbers, if there is one override that sets numbers and nothing else, for all limits, and always did.
    #[inline]
    pub(super) fn plain_values(&self) -> Option<&OverrideValues> {
        self.plain.as_ref()
    }

    /// What [`remember_kept`](Self::remember_kept) was called with last, or 0. Rules may have changed since.
    #[inline]
    pub(super) fn kept(&self) -> u64 {
        self.kept.load(Ordering::Relaxed)
    }

    pub(super) fn remember_kept(&self, kept: u64) {
        self.kept.store(kept, Ordering::Relaxed);
    }
}

impl From<Vec<Override>> for OverrideList {
    fn from(all: Vec<Override>) -> Self {
        let plain = match all.as_slice() {
            [one] if one.is_plain() => Some(one.values),
            _ => None,
        };
        Self { kept: AtomicU64::new(0), plain, all: all.into() }
    }
}

impl Deref for OverrideList {
    type Target = [Override];

    fn deref(&self) -> &[Override] {
        &self.all
    }
}

impl PartialEq for OverrideList {
    fn eq(&self, other: &Self) -> bool {
        self.all == other.all
    }
}

impl Eq for OverrideList {}

impl Hash for OverrideList {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.all.hash(hasher);
    }
}
