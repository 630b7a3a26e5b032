//! Guava's formulas from its documentation, in floating-point microseconds.
//!
//! Guava itself drops the fraction of a microsecond of each cost. The formulas do not, and with [`Fractions::Dropped`]
//! this model does.

/// How Guava creates one.
#[derive(Clone, Copy, Debug)]
pub enum ModelShape {
    Bursty { max_burst_seconds: f64 },
    WarmingUp { warm_up_us: f64, cold_factor: f64 },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fractions {
    Kept,
    Dropped,
}

/// Permits per second.
#[derive(Clone, Copy, Debug)]
pub struct PerSecond(pub f64);

pub struct Model {
    form: ModelShape,
    fractions: Fractions,
    stored_permits: f64,
    max_permits: f64,
    stable_interval_us: f64,
    next_free_ticket_us: f64,
}

impl Model {
    pub fn new(form: ModelShape, fractions: Fractions, rate: PerSecond) -> Self {
        let mut model = Self {
            form,
            fractions,
            stored_permits: 0.0,
            max_permits: 0.0,
            stable_interval_us: 0.0,
            next_free_ticket_us: 0.0,
        };
        model.apply_rate(rate);
        if let ModelShape::WarmingUp { .. } = form {
            model.stored_permits = model.max_permits;
        }
        model
    }

    pub fn wait_us(&self, now_us: f64) -> f64 {
        (self.next_free_ticket_us - now_us).max(0.0)
    }

    /// The wait is determined before the caller's own cost is added.
    pub fn acquire(&mut self, permits: u64, now_us: f64) -> f64 {
        let permits = permits as f64;
        let wait_us = self.wait_us(now_us);
        self.resync(now_us);
        let from_store = permits.min(self.stored_permits);
        let cost_us =
            self.cost_of_stored(from_store) + self.rounded((permits - from_store) * self.stable_interval_us);
        self.next_free_ticket_us += cost_us;
        self.stored_permits -= from_store;
        wait_us
    }

    pub fn set_rate(&mut self, rate: PerSecond, now_us: f64) {
        self.resync(now_us);
        let old_max = self.max_permits;
        self.apply_rate(rate);
        self.stored_permits =
            if old_max == 0.0 { 0.0 } else { self.stored_permits * self.max_permits / old_max };
    }

    fn apply_rate(&mut self, PerSecond(permits_per_second): PerSecond) {
        self.stable_interval_us = 1_000_000.0 / permits_per_second;
        self.max_permits = match self.form {
            ModelShape::Bursty { max_burst_seconds } => max_burst_seconds * permits_per_second,
            ModelShape::WarmingUp { warm_up_us, cold_factor } => {
                let cold_interval_us = self.stable_interval_us * cold_factor;
                self.threshold_permits() + 2.0 * warm_up_us / (self.stable_interval_us + cold_interval_us)
            }
        };
    }

    fn threshold_permits(&self) -> f64 {
        match self.form {
            ModelShape::Bursty { .. } => 0.0,
            ModelShape::WarmingUp { warm_up_us, .. } => 0.5 * warm_up_us / self.stable_interval_us,
        }
    }

    fn resync(&mut self, now_us: f64) {
        if now_us <= self.next_free_ticket_us {
            return;
        }
        let cool_down_interval_us = match self.form {
            ModelShape::Bursty { .. } => self.stable_interval_us,
            ModelShape::WarmingUp { warm_up_us, .. } => warm_up_us / self.max_permits,
        };
        let new_permits = (now_us - self.next_free_ticket_us) / cool_down_interval_us;
        self.stored_permits = (self.stored_permits + new_permits).min(self.max_permits);
        self.next_free_ticket_us = now_us;
    }

    /// The area under the line, left of what is stored.
    fn cost_of_stored(&self, taken: f64) -> f64 {
        let ModelShape::WarmingUp { cold_factor, .. } = self.form else { return 0.0 };
        let stable_us = self.stable_interval_us;
        let threshold = self.threshold_permits();
        let slope = (cold_factor - 1.0) * stable_us / (self.max_permits - threshold);
        let above = (self.stored_permits - threshold).max(0.0);
        let cold = above.min(taken);
        let (first_us, last_us) = (stable_us + above * slope, stable_us + (above - cold) * slope);
        self.rounded(cold * (first_us + last_us) / 2.0) + self.rounded((taken - cold) * stable_us)
    }

    fn rounded(&self, span_us: f64) -> f64 {
        if self.fractions == Fractions::Dropped { span_us.trunc() } else { span_us }
    }
}
