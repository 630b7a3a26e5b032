//! `redis-benchmark`.

use std::process::Command;

use super::{Done, KEYS, Order, output};

/// Runs it. Without `-e` it would count errors as answers and say nothing.
pub(super) fn run(order: &Order<'_>, words: &[&str]) -> Result<Done, String> {
    let mut command = Command::new("redis-benchmark");
    command.args(["-h", "127.0.0.1", "-p", &order.port.to_string(), "-e", "--csv"]);
    command.args(["-n", &order.requests.to_string(), "-r", &KEYS.to_string()]);
    command.args(["-c", &order.width.connections.to_string(), "-P", &order.width.at_once.to_string()]);
    command.args(words);
    done(&output::of(command)?, order.requests)
}

/// The line of figures, which follows the one of names.
fn done(output: &str, requests: u64) -> Result<Done, String> {
    let wrong = || format!("redis-benchmark printed {}", output::shortened(output));
    if output.contains("Error from server") {
        return Err(wrong());
    }
    let mut lines = output.lines().skip_while(|line| !line.starts_with("\"test\",\"rps\""));
    let figures = lines.nth(1).ok_or_else(wrong)?;
    // The command, in quotes, may have commas in it.
    let (_, after) = figures.split_once("\",\"").ok_or_else(wrong)?;
    let per_second = after.split('"').next().and_then(|figure| figure.parse().ok()).ok_or_else(wrong)?;
    Ok(Done { requests, per_second })
}

#[cfg(test)]
mod tests {
    use super::{Done, done};

    const PRINTED: &str = "WARNING: Could not fetch server CONFIG\n\
        \"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\"\n\
        \"CL.THROTTLE user:__rand_int__ 1 1 1\",\"53475.94\",\"0.512\",\"0.120\"\n";

    #[test]
    fn the_rate_is_read() {
        assert_eq!(done(PRINTED, 7), Ok(Done { requests: 7, per_second: 53_475.94 }));
    }

    #[test]
    fn errors_of_the_server_and_figures_that_are_missing_are_errors() {
        assert!(done(&format!("Error from server: ERR no\n{PRINTED}"), 7).is_err());
        assert!(done("\"test\",\"rps\"\n", 7).is_err());
        assert!(done("", 7).is_err());
    }
}
