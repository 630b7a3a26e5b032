//! `tidegate trace`: replays requests from a file against limits.
//!
//! ```text
//! input      file or pipe -> bytes           input.rs, zstd.rs, progress.rs
//! requests   lines -> TraceRequest           reader.rs, line.rs
//! decisions  TraceRequest -> Decision        a Limiter over a manual clock
//! output     a line for each Decision        decisions.rs
//!            or a summary                    summary.rs, overshoot.rs -> report.rs
//! ```

mod decisions;
mod error;
mod input;
mod line;
mod overshoot;
mod progress;
mod reader;
mod report;
mod summary;
mod zstd;

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use tidegate::{Limit, Limiter, ManualClock, MemoryStore};

use crate::size::ByteSize;
use crate::text;
use error::TraceError;
pub(crate) use progress::Progress;
use summary::Summary;

/// The size of one write to standard output.
const OUTPUT_BUFFER_BYTES: usize = 64 << 10;

/// Replay a trace of requests against limits
///
/// Decides every request of a trace as a limiter would have decided it at that time. Shows how many requests and which
/// keys are allowed and denied, the worst overshoot of a limit, and how often an exact sliding log decides differently.
#[derive(Args, Debug)]
#[command(after_long_help = include_str!("../help/trace.txt"))]
pub struct TraceArgs {
    /// A limit per key, such as '10/s burst 20'; may be repeated: a request must pass all limits, or none is charged
    #[arg(long = "limit", value_name = "SPEC", required = true)]
    limits: Vec<Limit>,

    /// Print one line per request: allowed (1 or 0), remaining, retry_after_ns (-1: never), delay_ns
    #[arg(long)]
    decisions: bool,

    /// Maximum memory for counters: 64MiB, 1GiB, 500MB or plain bytes [default: unlimited]
    #[arg(long, value_name = "SIZE", value_parser = crate::size::parse_memory_max)]
    memory_max: Option<ByteSize>,

    /// The trace file, plain or compressed with xz, gzip or zstd; - reads standard input
    file: PathBuf,
}

/// Runs the command.
pub fn main(args: &TraceArgs) -> ExitCode {
    const INEXACT: u8 = 1;
    const FAILED: u8 = 2;
    let (message, code) = match run(args) {
        Ok(ReplayResult::Exact) => return ExitCode::SUCCESS,
        Err(error) if error.is_closed_output() => return ExitCode::SUCCESS,
        Ok(ReplayResult::Evicted { counters, memory_max }) => {
            let counters = text::grouped_number(counters);
            let (memory, hint) = match memory_max {
                Some(memory_max) => (format!("the memory of {memory_max}"), "raise --memory-max, or omit it"),
                None => ("the memory of the machine".to_owned(), "replay fewer keys at a time"),
            };
            let message = format!(
                "{memory} was full and {counters} live counters were evicted, so later decisions may allow too much \
                 (hint: {hint})"
            );
            (message, INEXACT)
        }
        Err(error) => (error.to_string(), FAILED),
    };
    // If standard error is closed, only the exit code reports the error.
    let _ = writeln!(io::stderr(), "error: {message}");
    ExitCode::from(code)
}

/// A limiter with a manual clock, because the time comes from the trace.
type TraceLimiter = Limiter<ManualClock>;

/// How a replay ended.
enum ReplayResult {
    Exact,
    /// Live counters were evicted, so their keys started again from zero.
    Evicted {
        counters: u64,
        memory_max: Option<ByteSize>,
    },
}

fn run(args: &TraceArgs) -> Result<ReplayResult, TraceError> {
    let store = match args.memory_max {
        Some(size) => MemoryStore::bounded(size.bytes()),
        None => MemoryStore::unbounded(),
    };
    let limiter = build_limiter(&args.limits, store)?;
    let mut counters = 0;
    let mut out = BufWriter::with_capacity(OUTPUT_BUFFER_BYTES, io::stdout().lock());
    if args.decisions {
        let progress = Progress::beside_decisions();
        let mut requests = input::open(&args.file, &progress)?;
        decisions::write(&mut requests, &limiter, &mut out)?;
    } else {
        let progress = Progress::new();
        let mut requests = input::open(&args.file, &progress)?;
        let logs: Vec<Limit> = args.limits.iter().map(Limit::as_sliding_log).collect();
        let log = build_limiter(&logs, MemoryStore::unbounded())?;
        let summary = Summary::replay(&mut requests, &args.limits, &limiter, &log)?;
        counters += log.stats().live_evictions;
        drop(progress);
        report::write(&summary, &args.limits, &mut out)
            .and_then(|()| out.flush())
            .map_err(TraceError::Write)?;
    }
    counters += limiter.stats().live_evictions;
    match counters {
        0 => Ok(ReplayResult::Exact),
        _ => Ok(ReplayResult::Evicted { counters, memory_max: args.memory_max }),
    }
}

/// Builds a limiter with these limits over its own store.
fn build_limiter(limits: &[Limit], store: MemoryStore) -> Result<TraceLimiter, TraceError> {
    let builder = limits.iter().cloned().fold(Limiter::builder(), |builder, limit| builder.limit(limit));
    builder.store(Arc::new(store)).clock(ManualClock::default()).build().map_err(TraceError::Limits)
}
