//! What is known of a line whose front asks without the line being locked.

use tidegate_core::{Pace, Timestamp};

use super::queue::Ticket;

/// What the one in front goes by, and those who come.
#[derive(Default)]
#[cfg_attr(not(feature = "rules"), allow(dead_code, reason = "a limiter has its line locked while it asks"))]
pub(super) struct Unlocked {
    /// How often units may have come back.
    pub nudges: u64,
    /// When all in line leave at the least, if it is known when one in front did, or will.
    pub foretold: Option<Foretold>,
    /// Those up to this one need not be in front to ask: there was room for all of them when somebody was admitted, and
    /// none of them was put off since.
    pub asks_up_to: Option<Ticket>,
}

/// When all in line leave at the least.
#[derive(Clone, Copy)]
#[cfg_attr(not(feature = "rules"), allow(dead_code, reason = "a limiter has its line locked while it asks"))]
pub(super) struct Foretold {
    /// When the one fits, or fitted, that was in front when it was worked out.
    pub due: Timestamp,
    /// Those who follow it, before any is asked about.
    pub pace: Pace,
    /// Those who follow all that are in line.
    pub tail: Pace,
    pub precision: Precision,
}

/// How good what was worked out still is.
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "rules"), allow(dead_code, reason = "a limiter has its line locked while it asks"))]
pub(super) enum Precision {
    /// As good as it was.
    Exact,
    /// Somebody left the line since. Good enough to let a newcomer in, not to refuse one.
    MaybeSooner,
}

/// Where in a line somebody is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Front,
    Behind,
}

impl Unlocked {
    /// Units may have come back.
    pub fn nudged(&mut self) {
        self.nudges += 1;
        self.foretold = None;
    }

    /// Somebody leaves the line without having taken anything. If all was worked out from when that one fits, it has to
    /// be worked out anew.
    pub fn leaves_in_vain(&mut self, place: Place) {
        match (&mut self.foretold, place) {
            (Some(foretold), Place::Behind) => foretold.precision = Precision::MaybeSooner,
            (foretold, _) => *foretold = None,
        }
    }
}
