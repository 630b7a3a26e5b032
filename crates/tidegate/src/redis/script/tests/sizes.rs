//! The size of a key, by MEMORY USAGE, with a name of 16 bytes.

use tidegate_core::OutcomeKind;

use super::*;

const NAME: &str = "0123456789abcdef";
/// A state that is one integer.
const INTEGER_BYTES: u64 = 72;
/// A state with a remainder, or with a count too large for an integer.
const STRING_BYTES: u64 = 104;

#[test]
fn states_are_small() {
    let mut server = ScriptServer::new();
    for (text, cost, bytes_max) in [
        ("{algorithm: gcra, limit: 10, per: 1s, burst: 10}", 1, INTEGER_BYTES),
        ("{algorithm: gcra, limit: 10000000, per: 1s, burst: 9000000}", 8_000_001, INTEGER_BYTES),
        ("{algorithm: gcra, limit: 3, per: 1s}", 1, STRING_BYTES),
        ("{algorithm: gcra, limit: 1, per: 365d, burst: 1000}", 1, STRING_BYTES),
        ("{algorithm: token_bucket, limit: 5, per: 1s, burst: 10}", 1, INTEGER_BYTES),
        ("{algorithm: leaky_bucket, limit: 5, per: 1s, queue: 9}", 1, INTEGER_BYTES),
        ("{algorithm: fixed_window, limit: 999999, per: 60s}", 999_999, INTEGER_BYTES),
        ("{algorithm: fixed_window, limit: 1000000000, per: 60s}", 1_000_000_000, STRING_BYTES),
        ("{algorithm: fixed_window, limit: 999, per: 60s, align: first_hit}", 999, INTEGER_BYTES),
        ("{algorithm: sliding_window, limit: 9999, per: 60s}", 9_999, INTEGER_BYTES),
        ("{algorithm: sliding_window, limit: 1000000, per: 60s}", 1_000_000, STRING_BYTES),
    ] {
        server.flush();
        let reply = server.call_one_at(START_US + 123, check(NAME, &limit(text), cost));
        assert_eq!(reply.admitted, OutcomeKind::Allowed);
        let bytes: u64 = server.run_command("MEMORY", &[b"USAGE", NAME.as_bytes()]);
        assert_eq!(bytes, bytes_max, "{text}");
    }
}

/// 13 bytes for each used sub-window, not 60 text fields.
#[test]
fn growing_states_are_packed() {
    let mut server = ScriptServer::new();
    let sub_windows = limit("{algorithm: sub_windows, limit: 1000000, per: 60s}");
    for second in 0..61 {
        server.call_one_at(START_US + second * 1_000_000, check(NAME, &sub_windows, 1));
    }
    assert_eq!(server.run_command::<usize>("STRLEN", &[NAME.as_bytes()]), 12 + 61 * 13);
}
