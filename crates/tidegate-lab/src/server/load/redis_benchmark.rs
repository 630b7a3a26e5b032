//! `redis-benchmark`.

use std::process::Command;

use super::{KEYS, LoadResult, LoadSpec, output};

/// Without `-e`, redis-benchmark counts error replies as answers and does not report them.
pub(super) fn run(spec: &LoadSpec<'_>, words: &[&str]) -> Result<LoadResult, String> {
    let mut command = Command::new("redis-benchmark");
    command.args(["-h", "127.0.0.1", "-p", &spec.port.to_string(), "-e", "--csv"]);
    command.args(["-n", &spec.requests.to_string(), "-r", &KEYS.to_string()]);
    command.args([
        "-c",
        &spec.in_flight.connections.to_string(),
        "-P",
        &spec.in_flight.per_connection.to_string(),
    ]);
    command.args(words);
    parse(&output::of(command)?, spec.requests)
}

/// Reads the line of figures below the heading.
fn parse(output: &str, requests: u64) -> Result<LoadResult, String> {
    let wrong = || format!("redis-benchmark printed {}", output::shortened(output));
    if output.contains("Error from server") {
        return Err(wrong());
    }
    let mut lines = output.lines().skip_while(|line| !line.starts_with("\"test\",\"rps\""));
    let figures = lines.nth(1).ok_or_else(wrong)?;
    // The first field is the command in quotes, which may contain commas.
    let (_, after) = figures.split_once("\",\"").ok_or_else(wrong)?;
    let per_second = after.split('"').next().and_then(|figure| figure.parse().ok()).ok_or_else(wrong)?;
    Ok(LoadResult { requests, per_second })
}

#[cfg(test)]
mod tests {
    use super::{LoadResult, parse};

    const PRINTED: &str = "WARNING: Could not fetch server CONFIG\n\
        \"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\"\n\
        \"CL.THROTTLE user:__rand_int__ 1 1 1\",\"53475.94\",\"0.512\",\"0.120\"\n";

    #[test]
    fn the_rate_is_read() {
        assert_eq!(parse(PRINTED, 7), Ok(LoadResult { requests: 7, per_second: 53_475.94 }));
    }

    #[test]
    fn error_replies_and_missing_figures_are_errors() {
        assert!(parse(&format!("Error from server: ERR no\n{PRINTED}"), 7).is_err());
        assert!(parse("\"test\",\"rps\"\n", 7).is_err());
        assert!(parse("", 7).is_err());
    }
}
