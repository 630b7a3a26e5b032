//! What holds to the letter where an engine counts in its own store, and only there.

mod as_limiter;
mod kin;
mod past_the_line;
