//! The servers to measure, the request that each gets, and the right answer.

use super::goals::{CHECK, EMPTY, GUBERNATOR, RATELIMIT, REDIS_CELL, THROTTLE, THROTTLECRAB};
use super::load_kind::{LoadKind, Protocol};
use super::only::Only;
use super::program::Program;
use crate::protobuf;

/// The domain of all rules.
pub(crate) const DOMAIN: &str = "bench";
/// The attribute that is the key of all rules.
pub(crate) const KEY: &str = "user";
/// A placeholder for a number that changes with each request, where the load generator supports that.
pub(super) const ANY_NUMBER: &str = "__rand_int__";

/// A limit that no run reaches, for requests that carry their limit: the burst, the count and the seconds.
const LIMIT: [&str; 3] = ["100000000", "100000000", "60"];

/// A server and the request that it gets.
pub(crate) struct Target {
    pub name: &'static str,
    pub program: Program,
    pub request: TargetRequest,
}

/// The request, which only changes in a number, and a check that the answer allows it.
pub(crate) enum TargetRequest {
    /// A command and the start of the reply.
    Resp { command: Vec<&'static str>, reply: &'static str },
    /// A POST and a part of the answer's body.
    Http { path: &'static str, body: String, answer: &'static str },
    /// A unary call.
    Grpc { path: &'static str, message: Vec<u8>, is_allowed: fn(&[u8]) -> bool },
}

impl Target {
    /// All servers for this load.
    pub(crate) fn all(load: LoadKind) -> Vec<Self> {
        match load.protocol() {
            Protocol::Resp => resp(),
            Protocol::Http => http(),
            Protocol::Grpc => grpc(),
        }
    }

    pub(super) fn is_included(&self, load: LoadKind, only: &[Only]) -> bool {
        Only::includes(only, load, self.program)
    }
}

fn resp() -> Vec<Target> {
    let one = |name, program, command: &[&'static str], reply| {
        let request = TargetRequest::Resp { command: command.to_vec(), reply };
        Target { name, program, request }
    };
    let throttle = |name: &'static str| {
        let mut command = vec![name, "user:__rand_int__"];
        command.extend(LIMIT);
        command
    };
    let (cell, crab) = (throttle("CL.THROTTLE"), throttle("THROTTLE"));
    let check = ["TIDEGATE.CHECK", DOMAIN, KEY, ANY_NUMBER];
    vec![
        one(EMPTY, Program::Empty, &cell, "*5\r\n:0\r\n"),
        one(THROTTLE, Program::Tidegate, &cell, "*5\r\n:0\r\n"),
        one(CHECK, Program::Tidegate, &check, "*6\r\n$7\r\nallowed\r\n"),
        one("Redis INCR", Program::Redis, &["INCR", "user:__rand_int__"], ":"),
        one(REDIS_CELL, Program::RedisCell, &cell, "*5\r\n:0\r\n"),
        one(THROTTLECRAB, Program::Throttlecrab, &crab, "*5\r\n:1\r\n"),
    ]
}

fn http() -> Vec<Target> {
    let one = |name, program, path, body: &str, answer| {
        let request = TargetRequest::Http { path, body: body.to_owned(), answer };
        Target { name, program, request }
    };
    let check = format!(r#"{{"domain":"{DOMAIN}","attributes":{{"{KEY}":"{ANY_NUMBER}"}}}}"#);
    let [burst, count, period] = LIMIT;
    let throttle = format!(
        r#"{{"key":"user:{ANY_NUMBER}","max_burst":{burst},"count_per_period":{count},"period":{period},"quantity":1}}"#
    );
    vec![
        one(EMPTY, Program::Empty, "/v1/check", &check, r#""decision":"allowed""#),
        one(CHECK, Program::Tidegate, "/v1/check", &check, r#""decision":"allowed""#),
        one(THROTTLECRAB, Program::Throttlecrab, "/throttle", &throttle, r#""allowed":true"#),
    ]
}

fn grpc() -> Vec<Target> {
    const RLS: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    let rls = |name, program| {
        let request = TargetRequest::Grpc { path: RLS, message: rls_request(), is_allowed: rls_is_ok };
        Target { name, program, request }
    };
    let crab = TargetRequest::Grpc {
        path: "/throttlecrab.RateLimiter/Throttle",
        message: throttlecrab_request(),
        is_allowed: |answer| protobuf::varint(answer, 1) == Some(1),
    };
    let gubernator = TargetRequest::Grpc {
        path: "/pb.gubernator.V1/GetRateLimits",
        message: gubernator_request(),
        is_allowed: gubernator_is_under,
    };
    vec![
        rls(EMPTY, Program::Empty),
        rls(CHECK, Program::Tidegate),
        Target { name: THROTTLECRAB, program: Program::Throttlecrab, request: crab },
        rls(RATELIMIT, Program::Ratelimit),
        Target { name: GUBERNATOR, program: Program::Gubernator, request: gubernator },
    ]
}

/// `RateLimitRequest { domain, descriptors: [{ entries: [{ key, value }] }] }`
fn rls_request() -> Vec<u8> {
    let entry = [protobuf::bytes_field(1, KEY.as_bytes()), protobuf::bytes_field(2, b"42")].concat();
    let descriptor = protobuf::bytes_field(1, &entry);
    [protobuf::bytes_field(1, DOMAIN.as_bytes()), protobuf::bytes_field(2, &descriptor)].concat()
}

/// `overall_code` is `OK`, and a descriptor has a status.
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

/// `responses: [{ status: UNDER_LIMIT, limit, remaining, ... }]` without an error.
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
    fn an_answer_of_the_rate_limit_service_must_be_ok_and_have_a_status() {
        let status = protobuf::bytes_field(2, &protobuf::varint_field(1, 1));
        let answer = |code| [protobuf::varint_field(1, code), status.clone()].concat();
        assert!(rls_is_ok(&answer(1)));
        assert!(!rls_is_ok(&answer(2)), "over the limit");
        assert!(!rls_is_ok(&protobuf::varint_field(1, 1)), "no status: nothing was limited");
        assert!(!rls_is_ok(b""));
    }

    #[test]
    fn an_answer_with_an_error_is_wrong() {
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
