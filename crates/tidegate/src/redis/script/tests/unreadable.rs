//! Keys with foreign values, and calendar windows that were not sent: each is an error of its plan alone.

use tidegate_core::OutcomeKind;

use super::*;

const GCRA: &str = "{algorithm: gcra, limit: 10, per: 1s, burst: 5}";
const EVERY_KIND: &[&str] = &[
    GCRA,
    "{algorithm: gcra, limit: 1, per: 365d, burst: 1000}",
    "{algorithm: fixed_window, limit: 10, per: 1s}",
    "{algorithm: sliding_window, limit: 10, per: 1s}",
    "{algorithm: sub_windows, limit: 10, per: 1s}",
    "{algorithm: sliding_log, limit: 10, per: 1s}",
    "{algorithm: concurrency, limit: 10, ttl: 1s}",
];
const INVALID_STATES: &[&[u8]] = &[
    b"",
    b"x",
    b"-",
    b"inf",
    b"nan",
    b"-nan123",
    b"f123",
    b"w",
    b"e12",
    b"s",
    b"12 monkeys",
    b"\0\0\0\0\0\0\0\0\0\0\0\0\0",
    b"9999999999999999999999999999999999999999",
    b"1e400",
];

fn unreadable_error(key: &str) -> ReplayError {
    ReplayError::Unreadable { key: KeyName::from_slice(key.as_bytes()) }
}

#[test]
fn an_unreadable_key_fails_only_its_plan() {
    let mut server = ScriptServer::new();
    for text in EVERY_KIND {
        for is_alone in [true, false] {
            for state in INVALID_STATES {
                server.flush();
                let () = server.run_command("SET", &[b"bad", state]);
                let _: i64 = server.run_command("RPUSH", &[b"list", b"x"]);
                let plan = |key: &&str| {
                    let second = (!is_alone).then(|| charge("beside", &limit(GCRA), 0));
                    redis_plan(Op::Check, [charge(key, &limit(text), 1)].into_iter().chain(second))
                };
                let replies =
                    server.call_at(START_US, ["good", "bad", "list", "better"].iter().map(plan).collect());
                let at = format!("{text} {state:?}");
                for good in [&replies[0], &replies[3]] {
                    assert_eq!(good.as_ref().unwrap().admitted, OutcomeKind::Allowed, "{at}");
                }
                assert_eq!(replies[1].as_ref().err(), Some(&unreadable_error("bad")), "{at}");
                assert_eq!(replies[2].as_ref().err(), Some(&unreadable_error("list")), "{at}");
                assert_eq!(server.run_command::<String>("TYPE", &[b"list"]), "list");
            }
        }
    }
}

#[test]
fn a_refund_skips_unreadable_keys_and_a_reset_clears_them() {
    let (mut server, gcra) = (ScriptServer::new(), limit(GCRA));
    let charges = || [charge("list", &gcra, 2), charge("good", &gcra, 2)];
    let _: i64 = server.run_command("RPUSH", &[b"list", b"x"]);
    let plans = vec![
        check("good", &gcra, 3),
        redis_plan(Op::Refund { charged_at: None }, charges()),
        redis_plan(Op::Peek, [charge("good", &gcra, 0)]),
    ];
    let replies = server.call_at(START_US, plans);
    assert_eq!(replies[1].as_ref().err(), Some(&unreadable_error("list")));
    assert_eq!(replies[2].as_ref().unwrap().outcomes[0].remaining, 4);

    let plans = vec![redis_plan(Op::Reset, charges()), redis_plan(Op::Check, charges())];
    let replies = server.call_at(START_US, plans);
    assert_eq!(replies[1].as_ref().unwrap().outcomes[0].remaining, 3);
    assert_eq!(server.run_command::<String>("TYPE", &[b"list"]), "string");
}

#[test]
fn a_calendar_window_that_was_not_sent_has_its_own_error() {
    const DAY_US: u64 = 86_400_000_000;
    let mut server = ScriptServer::new();
    let day = limit("{algorithm: fixed_window, limit: 3, per: day, align: {tz: Europe/Paris}}");
    let now = Timestamp::from_nanos(START_US * 1_000);
    for (about_us, is_known) in [
        (START_US, true),
        (START_US - DAY_US, true),
        (START_US + DAY_US, true),
        (START_US - 3 * DAY_US, false),
        (START_US + 3 * DAY_US, false),
    ] {
        server.flush();
        let mut call = server.new_call(START_US, Vec::new());
        assert!(call.add(check("key", &day, 1), Timestamp::from_nanos(about_us * 1_000)).is_ok());
        let reply = server.try_call(&call).unwrap().pop().unwrap();
        match reply {
            Ok(reply) => assert_eq!((reply.admitted, is_known), (OutcomeKind::Allowed, true)),
            Err(error) => {
                assert_eq!((error, is_known), (ReplayError::StaleCalendarEdges { at: now }, false));
                // A second call, with windows around the server's time.
                assert_eq!(
                    server.call_one_at(START_US, check("key", &day, 1)).admitted,
                    OutcomeKind::Allowed
                );
            }
        }
    }
    // A value that cannot be read is unreadable, whatever the edges are.
    let () = server.run_command("SET", &[b"key", b"x"]);
    let replies = server.call_at(START_US, vec![check("key", &day, 1)]);
    assert_eq!(replies[0].as_ref().err(), Some(&unreadable_error("key")));
}

#[test]
fn an_impossible_reply_is_rejected() {
    let (mut server, gcra) = (ScriptServer::new(), limit(GCRA));
    let call = server.new_call(START_US, vec![check("key", &gcra, 1)]);
    let reply: Value = call.command(&server.sha).query(&mut server.connection).unwrap();
    let Value::Array(values) = reply else { panic!("{reply:?}") };
    assert!(call.read(Value::Array(values.clone())).is_ok());
    let with = |index: usize, value: Value| {
        let mut values = values.clone();
        values[index] = value;
        Value::Array(values)
    };
    for invalid in [
        Value::Nil,
        Value::Array(values[..2].to_vec()),
        with(0, Value::Int(1)),
        with(1, Value::Nil),
        with(1, Value::Int(-1)),
        with(1, Value::Int(i64::MAX)),
        with(2, Value::Int(1 << 40)),
        Value::Array([values.clone(), vec![Value::Int(0)]].concat()),
    ] {
        assert!(call.read(invalid.clone()).is_err(), "{invalid:?}");
    }
    // One unit of five fits a new key, so it cannot have been denied.
    let replies = call.read(with(2, Value::Int(0))).unwrap();
    let [Err(ReplayError::Mismatch(bad))] = &replies[..] else { panic!("{replies:?}") };
    assert!(bad.to_string().contains("plan 0 was denied"), "{bad}");
    // An error about a key that does not exist is ignored.
    let reply = call.read(Value::Array([values, vec![Value::Int(0), Value::Int(99)]].concat()));
    assert!(reply.is_ok());
}

#[test]
fn a_mismatch_fails_the_plan_and_later_plans_on_its_key() {
    let (mut server, gcra) = (ScriptServer::new(), limit(GCRA));
    let both = redis_plan(Op::Check, [charge("b", &gcra, 1), charge("c", &gcra, 1)]);
    let plans = vec![
        check("a", &gcra, 1),
        check("b", &gcra, 1),
        check("a", &gcra, 1),
        both,
        check("c", &gcra, 1),
        check("d", &gcra, 1),
    ];
    let call = server.new_call(START_US, plans);
    let reply: Value = call.command(&server.sha).query(&mut server.connection).unwrap();
    let Value::Array(mut values) = reply else { panic!("{reply:?}") };
    let admitted = values.len() - 1;
    assert_eq!(values[admitted], Value::Int(0b11_1111));
    // As if the second plan had been denied, which is impossible.
    values[admitted] = Value::Int(0b11_1101);
    let replies = call.read(Value::Array(values)).unwrap();
    let remaining: Vec<Option<u64>> = replies
        .iter()
        .map(|reply| match reply {
            Ok(reply) => Some(reply.outcomes[0].remaining),
            Err(ReplayError::Mismatch(_)) => None,
            Err(error) => panic!("{error:?}"),
        })
        .collect();
    assert_eq!(remaining, [Some(4), None, Some(3), None, None, Some(4)]);
}
