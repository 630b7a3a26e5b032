//! `wrk`. It runs for a number of seconds and reports how many requests it sent.

use std::process::Command;

use super::super::target::ANY_NUMBER;
use super::{KEYS, LoadResult, LoadSpec, output};

/// The length of a turn.
const SECONDS_MIN: f64 = 1.0;
const SECONDS_MAX: f64 = 30.0;

/// Runs it for about as long as the requests take.
pub(super) fn run(spec: &LoadSpec<'_>, path: &str, body: &str) -> Result<LoadResult, String> {
    let script = spec.scratch.write("wrk.lua", script(path, body)).map_err(|error| error.to_string())?;
    let seconds = spec.per_second.map_or(SECONDS_MIN, |per_second| spec.requests as f64 / per_second);
    let seconds = seconds.clamp(SECONDS_MIN, SECONDS_MAX).ceil();
    let mut command = Command::new("wrk");
    command.args(["-t", "1", "-c", &spec.in_flight.connections.to_string(), "-d", &format!("{seconds:.0}s")]);
    command.arg("-s").arg(script).arg(format!("http://127.0.0.1:{}{path}", spec.port));
    parse(&output::of(command)?)
}

/// GET of one path, for a number of seconds.
pub(super) fn run_get(port: u16, path: &str, connections: u32, seconds: u32) -> Result<LoadResult, String> {
    let mut command = Command::new("wrk");
    command.args(["-t", "1", "-c", &connections.to_string(), "-d", &format!("{seconds}s")]);
    command.arg(format!("http://127.0.0.1:{port}{path}"));
    parse(&output::of(command)?)
}

/// Builds all requests before it sends the first, so that the load generator itself needs little CPU.
fn script(path: &str, body: &str) -> String {
    let body = body.replace('%', "%%").replace(ANY_NUMBER, "%012d");
    format!(
        "local requests, at = {{}}, 0\n\
         function init(args)\n\
         \x20 local headers = {{ [\"Content-Type\"] = \"application/json\" }}\n\
         \x20 for key = 0, {KEYS} - 1 do\n\
         \x20   requests[key] = wrk.format(\"POST\", \"{path}\", headers, string.format([[{body}]], key))\n\
         \x20 end\n\
         end\n\
         function request()\n\
         \x20 at = (at + 1) % {KEYS}\n\
         \x20 return requests[at]\n\
         end\n"
    )
}

fn parse(output: &str) -> Result<LoadResult, String> {
    let wrong = || format!("wrk printed {}", output::shortened(output));
    if output.contains("Socket errors") || output.contains("Non-2xx") {
        return Err(wrong());
    }
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let counted = output.lines().find(|line| line.contains(" requests in ")).map(words).ok_or_else(wrong)?;
    let rate = output.lines().find_map(|line| line.strip_prefix("Requests/sec:")).ok_or_else(wrong)?;
    let requests = counted.first().and_then(|count| count.parse().ok()).ok_or_else(wrong)?;
    Ok(LoadResult { requests, per_second: rate.trim().parse().map_err(|_| wrong())? })
}

#[cfg(test)]
mod tests {
    use super::{LoadResult, parse, script};

    const PRINTED: &str = "RunningServer 3s test @ http://127.0.0.1:1/v1/check\n  1 threads and 50 connections\n  \
        Thread Stats   Avg      Stdev     Max   +/- Stdev\n  120000 requests in 3.00s, 22.20MB read\n\
        Requests/sec:  40000.12\nTransfer/sec:      7.40MB\n";

    #[test]
    fn requests_and_their_rate_are_read() {
        assert_eq!(parse(PRINTED), Ok(LoadResult { requests: 120_000, per_second: 40_000.12 }));
    }

    #[test]
    fn error_answers_are_errors() {
        assert!(parse(&format!("{PRINTED}  Non-2xx or 3xx responses: 3\n")).is_err());
        assert!(
            parse(&format!("{PRINTED}  Socket errors: connect 0, read 1, write 0, timeout 0\n")).is_err()
        );
        assert!(parse("").is_err());
    }

    #[test]
    fn every_body_has_another_number() {
        assert!(
            script("/x", r#"{"user":"__rand_int__"}"#)
                .contains(r#"string.format([[{"user":"%012d"}]], key)"#)
        );
    }
}
