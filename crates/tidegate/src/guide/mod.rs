//! A guide to limits: which one to choose, what to count, and what to do other than deny.
//!
//! | page | answers |
//! |---|---|
//! | [`choosing`] | Which algorithm? What is the worst that each admits, and what does it cost? |
//! | [`keys`] | What is counted separately? |
//! | [`several_limits`] | Ten a second, and a thousand a day: how are limits combined? |
//! | [`waiting`] | Wait instead of being denied. |
//! | [`leases`] | How many at a time, instead of how many per time. Locks. |
//! | [`calendars`] | A quota for the month, in Paris. |
//! | [`fleet`] | One limit for many processes: counters in Redis, and locks. |
//! | [`restarts`] | What remains when the program restarts? |
//! | [`testing`] | How to test limits without sleeping. |
//!
//! Every example in the guide is compiled and run with the tests.

pub mod calendars {
    #![cfg_attr(any(feature = "calendar", not(doctest)), doc = include_str!("calendars.md"))]
}
pub mod choosing {
    #![doc = include_str!("choosing.md")]
    //!
    #![doc = include_str!("../../pictures/overview.svg")]
    //!
    #![doc = include_str!("choosing_table.md")]
    //!
    #![doc = include_str!("../../pictures/gcra.svg")]
    //!
    #![doc = include_str!("../../pictures/token_bucket.svg")]
    //!
    #![doc = include_str!("../../pictures/leaky_bucket.svg")]
    //!
    #![doc = include_str!("../../pictures/fixed_window.svg")]
    //!
    #![doc = include_str!("../../pictures/sliding_window.svg")]
    //!
    #![doc = include_str!("../../pictures/sub_windows.svg")]
    //!
    #![doc = include_str!("../../pictures/sliding_log.svg")]
    //!
    #![doc = include_str!("../../pictures/concurrency.svg")]
}
pub mod fleet {
    #![cfg_attr(any(feature = "redis", not(doctest)), doc = include_str!("fleet.md"))]
}
pub mod keys {
    #![doc = include_str!("keys.md")]
}
pub mod leases {
    #![doc = include_str!("leases.md")]
}
pub mod restarts {
    #![doc = include_str!("restarts.md")]
}
pub mod several_limits {
    #![doc = include_str!("several_limits.md")]
}
pub mod testing {
    #![doc = include_str!("testing.md")]
}
pub mod waiting {
    #![doc = include_str!("waiting.md")]
    //!
    #![doc = include_str!("../../pictures/pacer_bursty.svg")]
    //!
    #![doc = include_str!("../../pictures/pacer_warming_up.svg")]
}
