//! `--decisions`: one line per request, `allowed remaining retry_after_ns delay_ns`.

use std::io::{self, Write};

use tidegate::Decision;

use super::TraceLimiter;
use super::error::TraceError;
use super::input::TraceInput;

/// Decides every request and writes the decisions.
///
/// If a line of the trace is invalid, the decisions before that line have been written.
pub fn write(
    requests: &mut TraceInput,
    limiter: &TraceLimiter,
    out: &mut impl Write,
) -> Result<(), TraceError> {
    let result = write_until_end(requests, limiter, out);
    let flushed = out.flush().map_err(TraceError::Write);
    result.and(flushed)
}

fn write_until_end(
    requests: &mut TraceInput,
    limiter: &TraceLimiter,
    out: &mut impl Write,
) -> Result<(), TraceError> {
    while let Some(request) = requests.next_request()? {
        write_line(&limiter.check_at(request.key, request.cost, request.at), out)
            .map_err(TraceError::Write)?;
    }
    Ok(())
}

fn write_line(decision: &Decision, out: &mut impl Write) -> io::Result<()> {
    let mut digits = itoa::Buffer::new();
    out.write_all(if decision.is_allowed() { b"1 " } else { b"0 " })?;
    out.write_all(digits.format(decision.remaining).as_bytes())?;
    out.write_all(b" ")?;
    match decision.retry_after.span() {
        Some(wait) => out.write_all(digits.format(wait.get()).as_bytes())?,
        None => out.write_all(b"-1")?,
    }
    out.write_all(b" ")?;
    out.write_all(digits.format(decision.delay.get()).as_bytes())?;
    out.write_all(b"\n")
}
