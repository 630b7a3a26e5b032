//! `tidegate trace`: replays requests from a file against limits.
//!
//! ```text
//! input      file or pipe, decompressed      input.rs, zstd.rs, progress.rs
//! requests   lines -> Request                requests.rs, line.rs
//! rule       Request -> Decision             rule.rs
//! output     a line for each Decision        decisions.rs
//!            or what they come to            summary.rs, overshoot.rs -> report.rs
//! ```

mod decisions;
mod error;
mod input;
mod line;
mod overshoot;
mod progress;
mod report;
mod requests;
mod rule;
mod summary;
mod zstd;

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use tidegate::{Limit, MemoryStore};

use crate::text;
use crate::size::ByteSize;
use error::TraceError;
use progress::Progress;
use summary::Summary;

/// Written to standard output at once.
const OUTPUT_BUFFER_BYTES: usize = 64 << 10;

/// Replay a trace of requests against limits
///
/// Decides every request of a trace as a limiter would have at the time, and shows what it would have allowed and
/// denied, whom, how far any key got over a limit, and how often an exact sliding log would have decided otherwise.
#[derive(Args, Debug)]
#[command(after_long_help = include_str!("help.txt"))]
pub struct TraceArgs {
    /// A limit for each key, as in '10/s burst 20'; of several, a request needs all or none is charged
    #[arg(long = "limit", value_name = "SPEC", required = true)]
    limits: Vec<Limit>,

    /// Print only a line for each request: allowed (1 or 0), remaining, retry_after_ns (-1: never), delay_ns
    #[arg(long)]
    decisions: bool,

    /// Hold no more than this of counters, as in 64MiB, 1GiB, 500MB or plain bytes [default: no bound]
    #[arg(long, value_name = "SIZE", value_parser = crate::size::parse_memory_max)]
    memory_max: Option<ByteSize>,

    /// The trace, plain or compressed with xz, gzip or zstd; - is standard input
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
                Some(memory_max) => {
                    (format!("the memory of {memory_max}"), "raise --memory-max, or leave it out")
                }
                None => ("what memory the machine granted".to_owned(), "replay fewer keys at a time"),
            };
            let message = format!(
                "{memory} was full and {counters} live counters were evicted, so later decisions may allow too much \
                 (hint: {hint})"
            );
            (message, INEXACT)
        }
        Err(error) => (error.to_string(), FAILED),
    };
    // Where standard error is closed nobody can be told, and the exit code still says it.
    let _ = writeln!(io::stderr(), "error: {message}");
    ExitCode::from(code)
}

/// How a replay ended.
enum ReplayResult {
    Exact,
    /// Some counters were lost, and with them what their keys had used.
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
    let rule = rule::build_limiter(&args.limits, store)?;
    let mut counters = 0;
    let mut out = BufWriter::with_capacity(OUTPUT_BUFFER_BYTES, io::stdout().lock());
    if args.decisions {
        let progress = Progress::beside_decisions();
        let mut requests = input::open(&args.file, &progress)?;
        decisions::write(&mut requests, &rule, &mut out)?;
    } else {
        let progress = Progress::new();
        let mut requests = input::open(&args.file, &progress)?;
        let logs: Vec<Limit> = args.limits.iter().map(Limit::as_sliding_log).collect();
        let log = rule::build_limiter(&logs, MemoryStore::unbounded())?;
        let summary = Summary::replay(&mut requests, &args.limits, &rule, &log)?;
        counters += log.stats().live_evictions;
        drop(progress);
        report::write(&summary, &args.limits, &mut out)
            .and_then(|()| out.flush())
            .map_err(TraceError::Write)?;
    }
    counters += rule.stats().live_evictions;
    match counters {
        0 => Ok(ReplayResult::Exact),
        _ => Ok(ReplayResult::Evicted { counters, memory_max: args.memory_max }),
    }
}
