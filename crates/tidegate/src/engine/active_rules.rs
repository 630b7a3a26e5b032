//! The active rules, as a decision and its answer hold them.

use std::ops::Deref;
use std::sync::Arc;

use arc_swap::Guard;
use tidegate_core::rules::Ruleset;

/// The rules that were active when this was taken. Replacing the rules does not change them.
///
/// A decision that is made immediately holds them without a reference count. A clone, or a decision that waits, holds a
/// reference count.
pub struct ActiveRules(Handle);

enum Handle {
    Guard(Guard<Arc<Ruleset>>),
    Owned(Arc<Ruleset>),
}

impl ActiveRules {
    #[inline]
    pub(super) fn new(guard: Guard<Arc<Ruleset>>) -> Self {
        Self(Handle::Guard(guard))
    }

    /// Converts to a reference count, to hold the rules for long: a thread has few guards.
    pub(super) fn into_owned(self) -> Self {
        match self.0 {
            Handle::Guard(guard) => Self(Handle::Owned(Guard::into_inner(guard))),
            counted @ Handle::Owned(_) => Self(counted),
        }
    }

    /// As [`into_owned`](Self::into_owned), in place.
    pub(super) fn make_owned(&mut self) {
        if let Handle::Guard(guard) = &self.0 {
            self.0 = Handle::Owned(Arc::clone(guard));
        }
    }
}

impl Deref for ActiveRules {
    type Target = Ruleset;

    #[inline]
    fn deref(&self) -> &Ruleset {
        match &self.0 {
            Handle::Guard(guard) => guard,
            Handle::Owned(rules) => rules,
        }
    }
}

impl Clone for ActiveRules {
    fn clone(&self) -> Self {
        Self(Handle::Owned(match &self.0 {
            Handle::Guard(guard) => Arc::clone(guard),
            Handle::Owned(rules) => Arc::clone(rules),
        }))
    }
}

impl std::fmt::Debug for ActiveRules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ActiveRules")
    }
}
