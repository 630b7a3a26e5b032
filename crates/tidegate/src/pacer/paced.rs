//! Permits that were handed out.

use std::time::Duration;

use tidegate_core::Nanos;

/// Permits that a [`Pacer`](super::Pacer) handed out, after a wait. They are used up: there is nothing to give back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permits {
    waited: Nanos,
}

impl Permits {
    pub(super) const IMMEDIATE: Self = Self { waited: Nanos::ZERO };

    pub(super) fn after_wait(waited: Nanos) -> Self {
        Self { waited }
    }

    /// How long it waited for them.
    pub fn waited(&self) -> Duration {
        self.waited.as_duration()
    }
}
