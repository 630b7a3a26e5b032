//! What is known of a line whose front asks without the line being locked; see [`later`](super::later).

use tidegate_core::Timestamp;

/// What the one in front goes by.
#[derive(Default)]
#[cfg_attr(not(feature = "rules"), allow(dead_code, reason = "a limiter has its line locked while it asks"))]
pub(super) struct Unlocked {
    /// How often units may have come back.
    pub nudges: u64,
    /// When the one in front fits, if that is known.
    pub due: Option<Timestamp>,
    /// The units that all in line wait for. As many as there may be in a line are fewer than this holds.
    pub units: u128,
}

/// Where in a line somebody is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Front,
    Behind,
}

impl Unlocked {
    pub fn enters(&mut self, cost: u64, place: Place) {
        self.units += u128::from(cost);
        self.changes(place);
    }

    pub fn leaves(&mut self, cost: u64, place: Place) {
        self.units -= u128::from(cost);
        self.changes(place);
    }

    /// Units may have come back.
    pub fn nudged(&mut self) {
        self.nudges += 1;
        self.due = None;
    }

    /// Somebody else is in front, of whom nothing is known yet.
    fn changes(&mut self, place: Place) {
        if place == Place::Front {
            self.due = None;
        }
    }
}
