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
//! `PROPTEST_CASES=100000 cargo test -p tidegate --test it pacer` tries more cases.

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

use tidegate::PermitsRefused;
use tidegate_testing::cases;

/// What a call that may be refused comes to: how long it waited.
type Acquired = Result<Duration, PermitsRefused>;
