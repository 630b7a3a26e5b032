//! Measures Tidegate: its speed compared with other rate limiters, the memory of a key, and its bounds when there are
//! far more keys than memory. Also draws how each algorithm handles the same requests.
//!
//! ```text
//! tidegate-lab bench     the cost of a decision and of a key; with `--features peers` also of other rate limiters
//! tidegate-lab matching  the cost of finding the rules of a request
//! tidegate-lab server    the cost of a request to `tidegate serve` and to other servers
//! tidegate-lab proxy     the cost of a limiter in the path of requests: in axum programs and in nginx
//! tidegate-lab fleet     the cost of a decision with counters in Redis
//! tidegate-lab rss       memory per key only
//! tidegate-lab spray     more keys than fit into memory: does memory stay bounded, does a hot key stay limited?
//! tidegate-lab snapshot  the cost of a snapshot, also for decisions made while it is written
//! tidegate-lab config-store  overrides by the million in the config store: disk, load time, look-ups, memory
//! tidegate-lab overrides  the cost of a decision with overrides, and of their import
//! tidegate-lab apply-times  how soon all nodes of a fleet apply an override
//! tidegate-lab caches  with `--features caches`: caches that overrides could be in
//! tidegate-lab simulate  a simulated fleet with faults: do the modes keep to their bounds?
//! tidegate-lab pictures  one SVG per algorithm and pacer, in docs/pictures
//! ```
//!
//! # Layout
//!
//! Each subcommand has a module with its name; `rss` is in [`mod@bench`]. [`snapshot_child`] and [`config_store_child`] are
//! processes that a test kills while they write. The other modules are shared: the command line ([`cli`]), stopwatches, the memory
//! and CPU time of processes, tables, goals.
//!
//! A benchmark compares all contenders in one run and prints ratios: an absolute figure means little on another
//! machine, or on the same machine while something else runs. It reports missed goals but does not fail. A check does
//! fail: `spray` and `simulate` exit with status 1 if a bound was broken.

pub mod apply_times;
pub mod bench;
mod bytes;
#[cfg(feature = "caches")]
pub mod caches;
pub mod cli;
pub mod config_store;
pub mod config_store_child;
mod cpu;
pub mod fleet;
mod goals;
mod latency;
pub mod matching;
mod measure;
pub mod modes;
pub mod overrides;
pub mod pictures;
pub mod process;
mod protobuf;
pub mod proxy;
mod scratch;
pub mod server;
pub mod simulate;
pub mod snapshot;
pub mod snapshot_child;
pub mod spray;
mod table;

pub use bytes::Bytes;
pub use latency::Latencies;
