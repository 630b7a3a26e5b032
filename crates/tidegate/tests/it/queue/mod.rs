//! Waiting for a limit, on a clock that only the test moves.

mod concurrency;
mod contention;
mod dropping;
mod edge_cases;
mod max_wait;
mod model;
mod order;
mod queue_groups;
mod real_time;
mod wakers;
