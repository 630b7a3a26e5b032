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
