//! "Admitted iff max(TAT,t) + c*W/L - B*W/L <= t; then TAT = max(TAT,t) + c*W/L."
//!
//! Every term is a multiple of 1/L ns, so the rationals are integers once multiplied by L.

use super::{Event, Model, signed};

#[derive(Debug)]
pub struct Gcra {
    pub limit: u64,
    pub window: u64,
    pub burst: u64,
}

impl Gcra {
    /// An instant in 1/L ns.
    fn ticks(&self, at: u128) -> i128 {
        signed(at) * signed(self.limit)
    }

    /// c*W/L in 1/L ns.
    fn span(&self, units: u64) -> i128 {
        signed(units) * signed(self.window)
    }
}

impl Model for Gcra {
    fn admits(&self, past: &[Event], request: Event) -> bool {
        if self.limit == 0 {
            return request.cost == 0;
        }
        // For a key that was never seen, any instant before the first request works.
        let tat = past.iter().fold(0, |tat, event| self.ticks(event.at).max(tat) + self.span(event.cost));
        let t = self.ticks(request.at);
        tat.max(t) + self.span(request.cost) - self.span(self.burst) <= t
    }

    fn capacity(&self) -> u64 {
        if self.limit == 0 { 0 } else { self.burst }
    }
}
