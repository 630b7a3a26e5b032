//! Frames of HTTP/2, for clients that stop in the middle of a call.

use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitRequest;

use crate::grpc::raw_client::{SHOULD_RATE_LIMIT, framed_request};

/// What a client sends first. Responses are sent only within the window.
pub fn preface(window_bytes: u32) -> Vec<u8> {
    const INITIAL_WINDOW_SIZE: u16 = 4;
    let setting = [&INITIAL_WINDOW_SIZE.to_be_bytes()[..], &window_bytes.to_be_bytes()].concat();
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(4, 0, 0, &setting)].concat()
}

/// The headers of a call. Its body follows.
pub fn headers(stream: u32) -> Vec<u8> {
    const END_HEADERS: u8 = 4;
    // `:method: POST` and `:scheme: http` have a number each.
    let mut block = vec![0x83, 0x86];
    for (name, value) in [
        (":path", SHOULD_RATE_LIMIT),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ] {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).unwrap());
            block.extend_from_slice(text.as_bytes());
        }
    }
    frame(1, END_HEADERS, stream, &block)
}

/// A complete call.
pub fn call(stream: u32, request: &RateLimitRequest) -> Vec<u8> {
    const END_STREAM: u8 = 1;
    [headers(stream), frame(0, END_STREAM, stream, &framed_request(request))].concat()
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}
