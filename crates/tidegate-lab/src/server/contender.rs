//! Who is asked what, and which answer is right.

use super::naming::Only;
use super::program::Program;
use super::shape::{Shape, Wire};
use crate::protobuf;

/// The domain of every rule here.
pub(super) const DOMAIN: &str = "bench";
/// The attribute that rules are keyed by.
pub(super) const KEY: &str = "user";
/// Stands for a number that changes from request to request, where the load generator can do that.
pub(super) const ANY_NUMBER: &str = "__rand_int__";

/// A limit that no run meets, where the request says it: a burst, and so many in so many seconds.
const LIMIT: [&str; 3] = ["100000000", "100000000", "60"];

/// A server, and what it is asked.
pub(super) struct Contender {
    pub name: &'static str,
    pub program: Program,
    pub question: Question,
}

/// What is asked, always the same but for a number, and how the answer is known to be right: the request is allowed.
pub(super) enum Question {
    /// A command, and how the reply begins.
    Resp { command: Vec<&'static str>, reply: &'static str },
    /// A POST, and what the body of the answer has in it.
    Http { path: &'static str, body: String, answer: &'static str },
    /// A unary call.
    Grpc { path: &'static str, message: Vec<u8>, is_allowed: fn(&[u8]) -> bool },
}

impl Contender {
    /// All that take this load.
    pub(super) fn all(shape: Shape) -> Vec<Self> {
        match shape.wire() {
            Wire::Resp => resp(),
            Wire::Http => http(),
            Wire::Grpc => grpc(),
        }
    }

    pub(super) fn is_wanted(&self, shape: Shape, only: &[Only]) -> bool {
        Only::want(only, shape, self.program)
    }
}

fn resp() -> Vec<Contender> {
    let one = |name, program, command: &[&'static str], reply| {
        let question = Question::Resp { command: command.to_vec(), reply };
        Contender { name, program, question }
    };
    let throttle = |name: &'static str| {
        let mut command = vec![name, "user:__rand_int__"];
        command.extend(LIMIT);
        command
    };
    let (cell, crab) = (throttle("CL.THROTTLE"), throttle("THROTTLE"));
    let check = ["TIDEGATE.CHECK", DOMAIN, KEY, ANY_NUMBER];
    vec![
        one(super::goals::EMPTY, Program::Empty, &cell, "*5\r\n:0\r\n"),
        one(super::goals::THROTTLE, Program::Tidegate, &cell, "*5\r\n:0\r\n"),
        one(super::goals::CHECK, Program::Tidegate, &check, "*6\r\n$7\r\nallowed\r\n"),
        one("Redis INCR", Program::Redis, &["INCR", "user:__rand_int__"], ":"),
        one(super::goals::REDIS_CELL, Program::RedisCell, &cell, "*5\r\n:0\r\n"),
        one(super::goals::THROTTLECRAB, Program::Throttlecrab, &crab, "*5\r\n:1\r\n"),
    ]
}

fn http() -> Vec<Contender> {
    let one = |name, program, path, body: &str, answer| {
        let question = Question::Http { path, body: body.to_owned(), answer };
        Contender { name, program, question }
    };
    let check = format!(r#"{{"domain":"{DOMAIN}","attributes":{{"{KEY}":"{ANY_NUMBER}"}}}}"#);
    let [burst, count, period] = LIMIT;
    let throttle = format!(
        r#"{{"key":"user:{ANY_NUMBER}","max_burst":{burst},"count_per_period":{count},"period":{period},"quantity":1}}"#
    );
    vec![
        one(super::goals::EMPTY, Program::Empty, "/v1/check", &check, r#""decision":"allowed""#),
        one(super::goals::CHECK, Program::Tidegate, "/v1/check", &check, r#""decision":"allowed""#),
        one(super::goals::THROTTLECRAB, Program::Throttlecrab, "/throttle", &throttle, r#""allowed":true"#),
    ]
}

fn grpc() -> Vec<Contender> {
    const RLS: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    let rls = |name, program| {
        let question = Question::Grpc { path: RLS, message: rls_request(), is_allowed: rls_is_ok };
        Contender { name, program, question }
    };
    let crab = Question::Grpc {
        path: "/throttlecrab.RateLimiter/Throttle",
        message: throttlecrab_request(),
        is_allowed: |answer| protobuf::varint(answer, 1) == Some(1),
    };
    let gubernator = Question::Grpc {
        path: "/pb.gubernator.V1/GetRateLimits",
        message: gubernator_request(),
        is_allowed: gubernator_is_under,
    };
    vec![
        rls(super::goals::EMPTY, Program::Empty),
        rls(super::goals::CHECK, Program::Tidegate),
        Contender { name: super::goals::THROTTLECRAB, program: Program::Throttlecrab, question: crab },
        rls(super::goals::RATELIMIT, Program::Ratelimit),
        Contender { name: super::goals::GUBERNATOR, program: Program::Gubernator, question: gubernator },
    ]
}

/// `RateLimitRequest { domain, descriptors: [{ entries: [{ key, value }] }] }`
fn rls_request() -> Vec<u8> {
    let entry = [protobuf::bytes_field(1, KEY.as_bytes()), protobuf::bytes_field(2, b"42")].concat();
    let descriptor = protobuf::bytes_field(1, &entry);
    [protobuf::bytes_field(1, DOMAIN.as_bytes()), protobuf::bytes_field(2, &descriptor)].concat()
}

/// `overall_code` is `OK`, and there is a status of one descriptor.
fn rls_is_ok(answer: &[u8]) -> bool {
    protobuf::varint(answer, 1) == Some(1) && protobuf::bytes(answer, 2).is_some()
}

/// `ThrottleRequest { key, max_burst, count_per_period, period, quantity }`
fn throttlecrab_request() -> Vec<u8> {
    let limit = LIMIT.map(|number| number.parse().unwrap_or(1));
    let numbers = (2..).zip(limit.into_iter().chain([1]));
    let mut message = protobuf::bytes_field(1, b"user:42");
    message.extend(numbers.flat_map(|(field, number)| protobuf::varint_field(field, number)));
    message
}

/// `GetRateLimitsReq { requests: [{ name, unique_key, hits, limit, duration }] }`
fn gubernator_request() -> Vec<u8> {
    let mut request = protobuf::bytes_field(1, DOMAIN.as_bytes());
    request.extend(protobuf::bytes_field(2, b"user:42"));
    for (field, number) in [(3, 1), (4, 1_000_000_000), (5, 60_000)] {
        request.extend(protobuf::varint_field(field, number));
    }
    protobuf::bytes_field(1, &request)
}

/// `responses: [{ status: UNDER_LIMIT, limit, remaining, ... }]`, without an error.
fn gubernator_is_under(answer: &[u8]) -> bool {
    protobuf::bytes(answer, 1).is_some_and(|one| {
        protobuf::varint(one, 1).unwrap_or(0) == 0
            && protobuf::varint(one, 2) == Some(1_000_000_000)
            && protobuf::bytes(one, 5).is_none()
    })
}

#[cfg(test)]
mod tests {
    use super::{gubernator_is_under, protobuf, rls_is_ok, rls_request};

    #[test]
    fn an_answer_of_the_rate_limit_service_is_right_only_if_it_is_ok_and_says_of_what() {
        let status = protobuf::bytes_field(2, &protobuf::varint_field(1, 1));
        let answer = |code| [protobuf::varint_field(1, code), status.clone()].concat();
        assert!(rls_is_ok(&answer(1)));
        assert!(!rls_is_ok(&answer(2)), "over the limit");
        assert!(!rls_is_ok(&protobuf::varint_field(1, 1)), "no status: nothing was limited");
        assert!(!rls_is_ok(b""));
    }

    #[test]
    fn an_answer_with_an_error_in_it_is_not_right() {
        let good = [protobuf::varint_field(2, 1_000_000_000), protobuf::varint_field(3, 9)].concat();
        let bad = [good.clone(), protobuf::bytes_field(5, b"no")].concat();
        assert!(gubernator_is_under(&protobuf::bytes_field(1, &good)));
        assert!(!gubernator_is_under(&protobuf::bytes_field(1, &bad)));
    }

    #[test]
    fn the_request_is_what_envoy_sends() {
        let expected = b"\x0a\x05bench\x12\x0c\x0a\x0a\x0a\x04user\x12\x0242";
        assert_eq!(rls_request(), expected);
    }
}
