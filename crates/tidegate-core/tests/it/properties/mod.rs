//! Properties that hold for every limit and every sequence of requests.
//!
//! | file | property |
//! |---|---|
//! | `against_models` | each algorithm matches its model, in every field of every outcome |
//! | `fast_path` | the fast path of one unit decides as the algorithm does |
//! | `equivalences` | ways to decide that must agree do |
//! | `worst_cases` | the most that each algorithm admits, and the most that it stores |
//! | `worst_case_attacks` | the worst case that each limit states is exact |
//! | `calendars` | the days, weeks and months of time zones |
//! | `refunds` | a refund undoes a charge |
//! | `changed_limits` | counts survive a change of L or burst |
//! | `idle_states` | which states a store may drop |
//! | `observed` | observed limits: over their limit and never in debt |
//! | `release_rates` | a waiting request is released no earlier than forecast |
//! | `shares` | the shares of all nodes add up to the limit |
//! | `mode_bounds` | what all nodes together admit in each mode, and attacks with quota leases |
//! | `no_panics` | any call, with any number, on any state |
//!
//! `PROPTEST_CASES=100000 cargo test -p tidegate-core --test it properties` tries more cases.

#![cfg(feature = "calendar")]

mod against_models;
mod calendars;
mod changed_limits;
mod equivalences;
mod fast_path;
mod idle_states;
pub mod limits;
mod mode_bounds;
mod no_panics;
mod observed;
mod refunds;
mod release_rates;
mod requests;
mod shares;
mod worst_case_attacks;
mod worst_cases;

use tidegate_testing::proptest_config;
