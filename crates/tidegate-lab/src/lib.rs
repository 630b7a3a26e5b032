//! Tidegate measured: how fast it is beside its peers, how much memory a key takes, and whether its bounds
//! hold when there are far more keys than memory. And pictured: what each algorithm makes of the same
//! requests.
//!
//! ```text
//! tidegate-lab bench     every table; with `--features peers` beside other rate limiters
//! tidegate-lab matching  what finding the rules of a request costs, by the number of rules
//! tidegate-lab server    what a request costs `tidegate serve`, beside other servers
//! tidegate-lab rss       memory per key alone
//! tidegate-lab spray     more keys than fit: does memory stay bounded, does a hot key stay limited?
//! tidegate-lab snapshot  what does a snapshot cost, and the decisions made while it is written?
//! tidegate-lab pictures  an SVG of each algorithm and pacer on the same bursty trace, into docs/pictures
//! ```
//!
//! # Layout
//!
//! | module | what it answers |
//! |---|---|
//! | [`mod@bench`] | what does a decision cost, and a key? |
//! | [`matching`] | what does it cost to find the rules of a request? |
//! | [`server`] | what does a request cost a server? |
//! | [`spray`] | what happens to the bounds under a flood of keys? |
//! | [`snapshot`] | what does a snapshot cost? |
//! | [`snapshot_child`] | what does a process leave that is killed while it writes one? |
//! | [`pictures`] | what does each algorithm, and each pacer, make of the same requests? |
//! | [`process`] | how much memory does this process use? |
//! | [`cli`] | the subcommands |
//!
//! A benchmark compares side by side in one run and prints ratios: an absolute figure is worth little on
//! another machine, or on the same one while something else runs. It says whether a goal was met and fails
//! nothing. A check does fail: `spray` ends with status 1 if a bound was broken.

pub mod bench;
mod bytes;
pub mod cli;
mod hourly;
mod latency;
pub mod matching;
pub mod pictures;
pub mod process;
mod protobuf;
pub mod server;
pub mod snapshot;
pub mod snapshot_child;
pub mod spray;
mod stopwatch;
mod table;

pub use bytes::Bytes;
pub use latency::Latencies;
