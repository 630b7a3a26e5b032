//! `h2load`. It sends the same message every time, so all requests have the same key.

use std::process::Command;

use super::{LoadResult, LoadSpec, output};

/// A good answer has a message with at least its prefix. A failed call has only a gRPC status, which h2load does not
/// check.
const ANSWER_BYTES_MIN: u64 = 5;

pub(super) fn run(spec: &LoadSpec<'_>, path: &str, message: &[u8]) -> Result<LoadResult, String> {
    let mut body = vec![0];
    body.extend(u32::try_from(message.len()).unwrap_or(0).to_be_bytes());
    body.extend(message);
    let body = spec.scratch.write("h2load.bin", body).map_err(|error| error.to_string())?;
    let mut command = Command::new("h2load");
    command.args(["-t", "1", "-n", &spec.requests.to_string()]);
    command.args([
        "-c",
        &spec.in_flight.connections.to_string(),
        "-m",
        &spec.in_flight.per_connection.to_string(),
    ]);
    command.args(["-H", "content-type: application/grpc", "-H", "te: trailers", "-d"]).arg(body);
    command.arg(format!("http://127.0.0.1:{}{path}", spec.port));
    parse(&output::of(command)?, spec.requests)
}

fn parse(output: &str, requests: u64) -> Result<LoadResult, String> {
    let wrong = || format!("h2load printed {}", output::shortened(output));
    let line = |start: &str| output.lines().find_map(|line| line.strip_prefix(start)).ok_or_else(wrong);
    let rate = line("finished in ")?.split(',').nth(1).and_then(|part| part.trim().strip_suffix(" req/s"));
    let succeeded = line("requests: ")?.split(", ").find_map(|part| part.strip_suffix(" succeeded"));
    // `traffic: 5.7MB (6000000) total, 2.1MB (2200000) headers (space savings 90%), 1.0MB (1100000) data`
    let data = line("traffic: ")?.strip_suffix(") data").and_then(|text| text.rsplit('(').next());
    let data_bytes: u64 = data.and_then(|bytes| bytes.parse().ok()).ok_or_else(wrong)?;
    if succeeded.and_then(|count| count.parse().ok()) != Some(requests)
        || data_bytes < requests * ANSWER_BYTES_MIN
    {
        return Err(wrong());
    }
    Ok(LoadResult { requests, per_second: rate.and_then(|rate| rate.parse().ok()).ok_or_else(wrong)? })
}

#[cfg(test)]
mod tests {
    use super::{LoadResult, parse};

    fn printed(succeeded: u64, data_bytes: u64) -> String {
        format!(
            "progress: 100% done\n\nfinished in 2.50s, 40000.50 req/s, 2.29MB/s\n\
             requests: 100 total, 100 started, 100 done, {succeeded} succeeded, 0 failed, 0 errored, 0 timeout\n\
             status codes: 100 2xx, 0 3xx, 0 4xx, 0 5xx\n\
             traffic: 5.7KB (6000) total, 2.1KB (2200) headers (space savings 90.00%), 1.0KB ({data_bytes}) data\n"
        )
    }

    #[test]
    fn the_rate_is_read() {
        assert_eq!(parse(&printed(100, 1100), 100), Ok(LoadResult { requests: 100, per_second: 40_000.5 }));
    }

    #[test]
    fn failed_requests_and_answers_without_a_message_are_errors() {
        assert!(parse(&printed(99, 1100), 100).is_err());
        assert!(parse(&printed(100, 0), 100).is_err());
        assert!(parse("", 100).is_err());
    }
}
