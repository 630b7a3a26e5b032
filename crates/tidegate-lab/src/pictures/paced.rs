//! The pacers there is a picture of.

use std::time::Duration;

use tidegate::{ManualClock, Pacer, PacerError};

use super::run::instant;
use super::trace::LIMIT;

/// How long a request is ready to wait for its permit: less than what a flood would bring about, which would not
/// be over within the picture.
pub const TIMEOUT_MS: u64 = 500;
/// How long unused permits are kept: what a pacer does by itself.
pub const BURST_S: u64 = 1;
/// How long a pacer that was cold takes to get to its rate: no longer than the rest of the trace, after which it
/// is all cold again.
pub const WARM_UP_MS: u64 = 1_500;

/// A pacer as it is pictured.
#[derive(Clone, Copy, Debug)]
pub struct Paced {
    /// The name of the picture.
    pub name: &'static str,
    /// What it does with permits that nobody asked for.
    pub form: Form,
    /// One sentence that fits a line.
    pub see: &'static str,
    /// How requests leave, in a word or two.
    pub leave: &'static str,
}

/// What a pacer does with permits that nobody asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Hands them out at once.
    Bursty,
    /// Takes them for a sign that it has become cold.
    WarmingUp,
}

/// Both forms.
pub const PACERS: [Paced; 2] = [
    Paced {
        name: "pacer_bursty",
        form: Form::Bursty,
        see: "Kept permits go at once, new ones 100 ms apart. Who would wait for longer than \
              500 ms is refused.",
        leave: "kept at once",
    },
    Paced {
        name: "pacer_warming_up",
        form: Form::WarmingUp,
        see: "Cold at the start and after the rest: permits come almost 300 ms apart, then \
              faster. Over 500 ms wait: refused.",
        leave: "slow if cold",
    },
];

impl Paced {
    /// The pacer and what is asked of it, in short.
    pub fn limit(&self) -> String {
        let form = match self.form {
            Form::Bursty => format!("max_burst_seconds {BURST_S}"),
            Form::WarmingUp => format!("warm_up {WARM_UP_MS}ms"),
        };
        format!("Pacer {LIMIT}/s, {form}, acquire_within(1, {TIMEOUT_MS}ms)")
    }

    /// The pacer, on a clock that begins with the trace.
    pub fn pacer(&self, clock: &ManualClock) -> Result<Pacer<ManualClock>, PacerError> {
        clock.set(instant(0));
        let builder = Pacer::builder().rate(format!("{LIMIT}/s").as_str()).clock(clock.clone());
        match self.form {
            Form::Bursty => builder.max_burst_seconds(BURST_S),
            Form::WarmingUp => builder.warm_up(Duration::from_millis(WARM_UP_MS)),
        }
        .build()
    }

    /// How long a request is ready to wait.
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(TIMEOUT_MS)
    }

    /// The most that can wait: as many permits as come within the timeout.
    pub fn room(&self) -> u64 {
        LIMIT * TIMEOUT_MS / 1_000
    }
}
