//! The pacer: who waits how long, to the microsecond, on a clock that the test moves.
//!
//! | file | what it holds the pacer to |
//! |---|---|
//! | `bursty`, `warming_up`, `changed_rate`, `timeouts`, `rates` | tables of calls and waits |
//! | `against_model` | Guava's formulas, in floating point, for any calls in any order |
//! | `long_run` | the rate, between any two calls |
//! | `tasks`, `threads` | waits are waited, given back, and handed out one by one |
//! | `building` | what is refused, and with which hint |
//!
//! `PROPTEST_CASES=100000 cargo test -p tidegate --test it pacer` looks longer.

mod against_model;
mod building;
mod bursty;
mod changed_rate;
mod long_run;
mod model;
mod polling;
mod rates;
mod table;
mod tasks;
mod threads;
mod timeouts;
mod warming_up;

use std::time::Duration;

use proptest::test_runner::Config;
use tidegate::PermitsRefused;

/// What a call that may be refused comes to: how long it waited.
type Acquired = Result<Duration, PermitsRefused>;

/// So many cases, unless the environment asks for another number.
fn cases(number: u32) -> Config {
    let from_environment = Config::default();
    if std::env::var_os("PROPTEST_CASES").is_some() {
        return from_environment;
    }
    Config { cases: number, ..from_environment }
}
