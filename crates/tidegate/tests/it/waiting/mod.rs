//! Waiting for a limit, on a clock that only the test moves.

mod concurrency;
mod corners;
mod dropping;
mod kin;
mod line;
mod max_wait;
mod model;
mod real_time;
mod thieves;
mod wakers;
