//! `CL.THROTTLE`, byte for byte.

use tidegate::Clock as _;

use crate::resp::server::encode_array;
use crate::resp::{Client, Options, Server};

fn encode_reply(numbers: [i64; 5]) -> String {
    numbers.iter().fold("*5\r\n".to_owned(), |reply, number| reply + &format!(":{number}\r\n"))
}

/// Calls to a server, with the time of the first one.
struct Calls<'s> {
    server: &'s Server,
    began_ns: u64,
}

impl<'s> Calls<'s> {
    fn begin(server: &'s Server) -> Self {
        Self { server, began_ns: server.app.engine.clock().now().as_nanos() }
    }

    /// Asserts the reply. Its seconds may be lower by the time that the calls took, which matters on a slow machine.
    #[track_caller]
    fn assert_next(&self, client: &mut Client, expected: [i64; 5]) {
        let answer = client.read_reply();
        let took_ns = self.server.app.engine.clock().now().as_nanos() - self.began_ns;
        let took = i64::try_from(took_ns.div_ceil(1_000_000_000)).expect("a time");
        let numbers: Vec<i64> =
            answer.split("\r\n").filter_map(|line| line.strip_prefix(':')?.parse().ok()).collect();
        assert_eq!((answer.lines().next(), &numbers[..3]), (Some("*5"), &expected[..3]), "{answer}");
        for (number, expected) in numbers[3..].iter().zip(&expected[3..]) {
            let min = if *expected < 0 { *expected } else { expected - took };
            assert!((min..=*expected).contains(number), "{answer} after {took} s, not {expected}");
        }
    }
}

/// The same replies as redis-cell's.
#[test]
fn matches_redis_cell() {
    let server = Server::start(&Options::default());
    for version in ["2", "3"] {
        let mut client = server.connect();
        client.call(&["HELLO", version]);
        let calls = Calls::begin(&server);
        let key = format!("user{version}");
        let throttle = |numbers: &[&'static str]| {
            let command: Vec<&str> =
                ["CL.THROTTLE", key.as_str()].into_iter().chain(numbers.iter().copied()).collect();
            encode_array(&command)
        };
        for (numbers, answer) in [
            (&["2", "1", "60"] as &[&'static str], [0, 3, 2, -1, 60]),
            (&["2", "1", "60"], [0, 3, 1, -1, 120]),
            (&["2", "1", "60", "0"], [0, 3, 1, -1, 120]),
            (&["2", "1", "60", "2"], [1, 3, 1, 60, 120]),
            (&["2", "1", "60", "3"], [1, 3, 1, 120, 120]),
            (&["2", "1", "60", "4"], [1, 3, 1, -1, 120]),
            (&["2", "1", "60", "5"], [1, 3, 1, -1, 120]),
            (&["+2", "01", "60", "+1"], [0, 3, 0, -1, 180]),
            (&["2", "1", "60"], [1, 3, 0, 60, 180]),
            // One arrival time, whatever the limit.
            (&["0", "1", "60", "0"], [1, 1, 0, 120, 180]),
            (&["99", "1", "60"], [0, 100, 96, -1, 240]),
            (&["5", "1", "3600"], [0, 6, 4, -1, 3840]),
        ] {
            client.send(throttle(numbers));
            calls.assert_next(&mut client, answer);
        }
    }
}

#[test]
fn invalid_calls() {
    let server = Server::start(&Options::default());
    let mut client = server.connect();
    let usage = "Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]";
    let units = (1_u64 << 40) - 1;
    let burst_range = format!("max_burst must be from 0 to {}", units - 1);
    let count_range = format!("count must be from 1 to {units}");
    let period_range = "period must be from 1 to 315360000";
    let count = units.to_string();
    let too_much = (units + 1).to_string();
    for (numbers, error) in [
        (&[] as &[&str], usage),
        (&["k"], usage),
        (&["k", "1", "1"], usage),
        (&["k", "1", "1", "60", "1", "1"], usage),
        (&["k", "x", "1", "60"], "Couldn't parse as integer: x"),
        (&["k", "1", "", "60"], "Couldn't parse as integer: "),
        (&["k", "1", "1.5", "60"], "Couldn't parse as integer: 1.5"),
        (&["k", "1", "1", "60", " 1"], "Couldn't parse as integer:  1"),
        (&["k", "1", "9223372036854775808", "60"], "Couldn't parse as integer: 9223372036854775808"),
        (&["k", "1", "0", "60"], "Zero rates are not supported"),
        (&["k", "1", "1", "0"], "Zero rates are not supported"),
        (&["k", "-1", "1", "60"], &burst_range),
        (&["k", &count, "1", "60"], &burst_range),
        (&["k", "9223372036854775807", "1", "60"], &burst_range),
        (&["k", "1", "-1", "60"], &count_range),
        (&["k", "1", &too_much, "60"], &count_range),
        (&["k", "1", "1", "-1"], period_range),
        (&["k", "1", "1", "315360001"], period_range),
        (&["k", "1", "1", "60", "-1"], "quantity must be from 0 to 9223372036854775807"),
        // Longer than 2^63 nanoseconds.
        (&["k", "15", "30", "60", "9223372036854775807"], "Error while setting key expire"),
        (&["k", "15", "1", "1", "9223372037"], "Error while setting key expire"),
        (&["k", "15", "1", "315360000", "30"], "Error while setting key expire"),
    ] {
        let command: Vec<&str> = ["CL.THROTTLE"].into_iter().chain(numbers.iter().copied()).collect();
        client.assert_reply(&command, format!("-Cell error: Store error: {error}\r\n"));
    }
    // Nothing was charged, and the ends of the range are valid.
    client.assert_reply(&["CL.THROTTLE", "k", "1", "1", "60"], encode_reply([0, 2, 1, -1, 60]));
    let burst = (units - 1).to_string();
    let limit = i64::try_from(units).expect("it fits");
    client.assert_reply(
        &["CL.THROTTLE", "l", &burst, "1", "315360000"],
        encode_reply([0, limit, limit - 1, -1, 315_360_000]),
    );
    for numbers in [["0", &count, "1", "9223372036854775807"], ["0", "1", "1", "9223372036"]] {
        let command = [&["CL.THROTTLE", "m"], numbers.as_slice()].concat();
        client.assert_reply(&command, encode_reply([1, 1, 1, -1, 0]));
    }
}

/// Rates above one per microsecond, for which redis-cell reports a wrong `remaining`, and above one per nanosecond, which
/// redis-cell refuses. What is charged here takes longer to be available again than a test runs.
#[test]
fn large_rates_are_enforced() {
    let server = Server::start(&Options::default());
    let mut client = server.connect();
    let units = ((1_u64 << 40) - 1).to_string();
    let burst = ((1_u64 << 40) - 2).to_string();
    for period in [86_400, 1_000] {
        let all = ["CL.THROTTLE", &format!("k{period}"), &burst, &units, &period.to_string(), &units];
        client.assert_reply(&all, encode_reply([0, (1 << 40) - 1, 0, -1, period]));
        assert!(client.call(&all).starts_with("*5\r\n:1\r\n"));
    }
}

/// Keys are bytes and may be empty.
#[test]
fn any_bytes_are_a_key() {
    let server = Server::start(&Options::default());
    let mut client = server.connect();
    for key in [&b""[..], b"\xff\xfe", b"\r\n", &[b'x'; 100_000]] {
        let head = format!("*5\r\n$11\r\nCL.THROTTLE\r\n${}\r\n", key.len());
        let command = [head.as_bytes(), key, b"\r\n$1\r\n0\r\n$1\r\n1\r\n$2\r\n60\r\n"].concat();
        let calls = Calls::begin(&server);
        client.send([command.as_slice(), &command].concat());
        calls.assert_next(&mut client, [0, 1, 0, -1, 60]);
        calls.assert_next(&mut client, [1, 1, 0, 60, 60]);
    }
}
