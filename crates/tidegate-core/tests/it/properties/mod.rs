//! What has to hold for every limit and every sequence of requests.
//!
//! | file | what it holds the algorithms to |
//! |---|---|
//! | `against_models` | the plainest model of each, in every field of every outcome |
//! | `equivalences` | each other, where the design says that two decide alike |
//! | `worst_cases` | the most that each may let through, and the most it may keep |
//! | `calendars` | the days, weeks and months of time zones |
//! | `refunds` | a refund undoes a charge |
//! | `changed_limits` | counts survive a change of L or burst |
//! | `idle_states` | what a store may forget |
//! | `observed` | limits that look on: over their limit and never in debt |
//! | `lines` | who stands in line leaves no sooner than was said |
//! | `shares` | what processes have each of a limit adds up to it |
//! | `no_panics` | any call, with any number, on any state |
//!
//! `PROPTEST_CASES=100000 cargo test -p tidegate-core --test it properties` tries more cases.

#![cfg(feature = "calendar")]

mod against_models;
mod calendars;
mod changed_limits;
mod equivalences;
mod idle_states;
pub mod limits;
mod release_rates;
mod no_panics;
mod observed;
mod refunds;
mod requests;
mod shares;
mod worst_cases;

use tidegate_testing::proptest_config;
