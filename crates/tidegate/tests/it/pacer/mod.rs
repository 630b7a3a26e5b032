//! The pacer: how long each call waits, to the microsecond, on a clock that the test moves.
//!
//! | file | what it checks |
//! |---|---|
//! | `bursty`, `warming_up`, `set_rate`, `timeouts`, `rates` | tables of calls and waits |
//! | `against_model` | Guava's formulas, in floating point, for random calls in any order |
//! | `long_run` | the rate, between any two calls |
//! | `tasks`, `threads` | waiting, returning permits, and one turn per caller |
//! | `builder` | errors and their hints |
//!
//! `PROPTEST_CASES=100000 cargo test -p tidegate --test it pacer` tries more cases.

mod against_model;
mod builder;
mod bursty;
mod long_run;
mod model;
mod polling;
mod rates;
mod set_rate;
mod table;
mod tasks;
mod threads;
mod timeouts;
mod warming_up;

use std::time::Duration;

use tidegate::pacer::Permits;
use tidegate::{Pacer, Refused, Timer};
use tidegate_testing::proptest_config;

/// The result of a call that may be refused: how long it waited.
type Acquired = Result<Duration, PermitsRefused>;

/// A refused call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PermitsRefused {
    /// How long it would have had to wait.
    would_wait: Duration,
}

/// The methods of a pacer, with waits as plain values.
trait PacerTestExt {
    fn wait_for(&self, permits: u64) -> impl Future<Output = Duration>;
    fn wait_within(&self, permits: u64, max_wait: Duration) -> impl Future<Output = Acquired>;
    fn try_now(&self, permits: u64) -> Acquired;
}

impl<C: Timer> PacerTestExt for Pacer<C> {
    async fn wait_for(&self, permits: u64) -> Duration {
        self.acquire(permits).await.expect("a pacer that may wait refuses nothing").waited()
    }

    async fn wait_within(&self, permits: u64, max_wait: Duration) -> Acquired {
        acquired(self.acquire_within(permits, max_wait).await)
    }

    fn try_now(&self, permits: u64) -> Acquired {
        acquired(self.try_acquire(permits))
    }
}

fn acquired(paced: Result<Permits, Refused>) -> Acquired {
    match paced {
        Ok(paced) => Ok(paced.waited()),
        Err(Refused::TooLong { wait: Some(wait) }) => Err(PermitsRefused { would_wait: wait.as_duration() }),
        Err(other) => panic!("unexpected: {other:?}"),
    }
}
