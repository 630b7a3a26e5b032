//! Refunds after other requests came must not take their units.

use tidegate_core::OutcomeKind;

use super::*;

const SECOND_US: u64 = 1_000_000;

/// Charges, and returns when the charge starts to count.
fn charged_from(server: &mut ScriptServer, now_us: u64, limit: &Limit, cost: u64) -> Timestamp {
    let reply = server.call_one_at(now_us, RedisPlan { returns_states: true, ..check("key", limit, cost) });
    assert_eq!(reply.admitted, OutcomeKind::Allowed);
    counts_from(&charge("key", limit, cost), &reply.states.expect("the states")[0], reply.at)
}

fn refund(server: &mut ScriptServer, now_us: u64, limit: &Limit, cost: u64, from: Timestamp) {
    let charge = RedisCharge { counts_from: Some(from), ..charge("key", limit, cost) };
    server.call_one_at(now_us, redis_plan(Op::Refund { charged_at: None }, [charge]));
}

/// How many units are admitted, one by one.
fn admitted(server: &mut ScriptServer, now_us: u64, limit: &Limit) -> usize {
    (0..)
        .take_while(|_| server.call_one_at(now_us, check("key", limit, 1)).admitted == OutcomeKind::Allowed)
        .count()
}

/// One unit is charged, then nine by other requests half a window later. The one is refunded before or after
/// its window ends.
#[test]
fn a_usage_log_refunds_units_at_their_charge_time() {
    for text in [
        "{algorithm: sliding_log, limit: 10, per: 60s}",
        "{algorithm: sub_windows, limit: 10, per: 60s, sub_windows: 6}",
    ] {
        let limit = limit(text);
        for (back_after_s, free) in [(31, 1), (85, 1)] {
            let mut server = ScriptServer::new();
            let from = charged_from(&mut server, START_US, &limit, 1);
            server.call_one_at(START_US + 30 * SECOND_US, check("key", &limit, 9));
            let now_us = START_US + back_after_s * SECOND_US;
            refund(&mut server, now_us, &limit, 1, from);
            assert_eq!(admitted(&mut server, now_us, &limit), free, "{text} after {back_after_s} s");
            // What the other requests used is still in the window, and so is what was admitted instead.
            let now_us = START_US + 89 * SECOND_US;
            assert_eq!(admitted(&mut server, now_us, &limit), 0, "{text} after {back_after_s} s");
        }
    }
}

/// Inside a long usage log all later entries stay. In a longer one nothing is refunded.
#[test]
fn units_inside_a_usage_log_are_refunded_unless_too_much_was_used_since() {
    let limit = limit("{algorithm: sliding_log, limit: 5000, per: 60s}");
    for (later_charges, free) in [(1_023, 5_000 - 1_023 - 7), (1_024, 5_000 - 1_024 - 8)] {
        let mut server = ScriptServer::new();
        server.call_one_at(START_US, check("key", &limit, 7));
        let from = charged_from(&mut server, START_US + 1, &limit, 1);
        for at in 0..later_charges {
            server.call_one_at(START_US + 2 + at, check("key", &limit, 1));
        }
        let now_us = START_US + SECOND_US;
        refund(&mut server, now_us, &limit, 1, from);
        let peek = redis_plan(Op::Peek, [charge("key", &limit, 0)]);
        assert_eq!(server.call_one_at(now_us, peek).outcomes[0].remaining, free);
    }
}

/// A bucket that became full again before other requests emptied it holds at most its burst. One that did not
/// gets everything back.
#[test]
fn a_bucket_refunds_what_has_not_refilled_since() {
    for text in [
        "{algorithm: gcra, limit: 60, per: 60s, burst: 10}",
        "{algorithm: token_bucket, limit: 60, per: 60s, burst: 10}",
        "{algorithm: leaky_bucket, limit: 60, per: 60s, queue: 9}",
    ] {
        let limit = limit(text);
        let mut server = ScriptServer::new();
        let from = charged_from(&mut server, START_US, &limit, 1);
        let now_us = START_US + SECOND_US;
        assert_eq!(admitted(&mut server, now_us, &limit), 10);
        refund(&mut server, now_us, &limit, 1, from);
        assert_eq!(admitted(&mut server, now_us, &limit), 0, "{text}: it had been full");

        server.flush();
        server.call_one_at(START_US, check("key", &limit, 3));
        let from = charged_from(&mut server, START_US, &limit, 1);
        server.call_one_at(START_US + SECOND_US, check("key", &limit, 5));
        refund(&mut server, START_US + SECOND_US, &limit, 1, from);
        assert_eq!(admitted(&mut server, START_US + SECOND_US, &limit), 3, "{text}: it had not been full");
    }
    // Half a year of two: the rest of the charge.
    let (mut server, limit) =
        (ScriptServer::new(), limit("{algorithm: gcra, limit: 1, per: 365d, burst: 1000}"));
    let half_year_us = 365 * 43_200 * SECOND_US;
    let from = charged_from(&mut server, START_US, &limit, 1);
    let now_us = START_US + half_year_us;
    assert_eq!(admitted(&mut server, now_us, &limit), 999);
    refund(&mut server, now_us, &limit, 1, from);
    // The half that was there, and the half that was refunded.
    assert_eq!(admitted(&mut server, now_us, &limit), 1);
    assert_eq!(admitted(&mut server, now_us + half_year_us - 1, &limit), 0);
}
