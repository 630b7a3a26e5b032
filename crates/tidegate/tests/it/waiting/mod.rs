//! Waiting for a limit, on a clock that only the test moves.

mod concurrency;
mod edge_cases;
mod dropping;
mod queue_groups;
mod order;
mod max_wait;
mod model;
mod real_time;
mod contention;
mod wakers;
