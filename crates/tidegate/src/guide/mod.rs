//! A guide to limits: which to choose, what to count, and what to do besides saying no.
//!
//! | page | answers |
//! |---|---|
//! | [`choosing`] | Which algorithm? What is the worst that each lets through, and what does it cost? |
//! | [`keys`] | What is counted apart from what? |
//! | [`several_limits`] | Ten a second, and a thousand a day: how do limits go together? |
//! | [`waiting`] | Not "no" but "not yet": how does a program wait its turn? |
//! | [`leases`] | How many at a time, instead of how many in a time? And locks. |
//! | [`calendars`] | A quota for the month, in Paris. |
//! | [`fleet`] | One limit for many processes: counters in Redis, and locks. |
//! | [`restarts`] | What of all this is left when the program starts again? |
//! | [`testing`] | How are limits tested without sleeping? |
//!
//! Every example here is compiled and run with the tests.

pub mod calendars {
    #![cfg_attr(any(feature = "calendar", not(doctest)), doc = include_str!("calendars.md"))]
}
pub mod choosing;
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
