//! Keys that hold something else, and windows of calendars that are not at hand: errors of their plan alone.

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
    let mut world = ScriptServer::new();
    for text in EVERY_KIND {
        for is_alone in [true, false] {
            for state in INVALID_STATES {
                world.flush();
                let () = world.run_command("SET", &[b"bad", state]);
                let _: i64 = world.run_command("RPUSH", &[b"list", b"x"]);
                let plan = |key: &&str| {
                    let beside = (!is_alone).then(|| charge("beside", &limit(GCRA), 0));
                    redis_plan(Op::Check, [charge(key, &limit(text), 1)].into_iter().chain(beside))
                };
                let seen =
                    world.call_at(START_US, ["good", "bad", "list", "better"].iter().map(plan).collect());
                let at = format!("{text} {state:?}");
                for good in [&seen[0], &seen[3]] {
                    assert_eq!(good.as_ref().unwrap().admitted, OutcomeKind::Allowed, "{at}");
                }
                assert_eq!(seen[1].as_ref().err(), Some(&unreadable_error("bad")), "{at}");
                assert_eq!(seen[2].as_ref().err(), Some(&unreadable_error("list")), "{at}");
                assert_eq!(world.run_command::<String>("TYPE", &[b"list"]), "list");
            }
        }
    }
}

#[test]
fn a_refund_skips_unreadable_keys_and_a_reset_clears_them() {
    let (mut world, gcra) = (ScriptServer::new(), limit(GCRA));
    let charges = || [charge("list", &gcra, 2), charge("good", &gcra, 2)];
    let _: i64 = world.run_command("RPUSH", &[b"list", b"x"]);
    let orders = vec![
        check("good", &gcra, 3),
        redis_plan(Op::Refund { charged_at: None }, charges()),
        redis_plan(Op::Peek, [charge("good", &gcra, 0)]),
    ];
    let seen = world.call_at(START_US, orders);
    assert_eq!(seen[1].as_ref().err(), Some(&unreadable_error("list")));
    assert_eq!(seen[2].as_ref().unwrap().outcomes[0].remaining, 4);

    let orders = vec![redis_plan(Op::Reset, charges()), redis_plan(Op::Check, charges())];
    let seen = world.call_at(START_US, orders);
    assert_eq!(seen[1].as_ref().unwrap().outcomes[0].remaining, 3);
    assert_eq!(world.run_command::<String>("TYPE", &[b"list"]), "string");
}

#[test]
fn a_calendar_window_that_was_not_sent_has_its_own_error() {
    const DAY_US: u64 = 86_400_000_000;
    let mut world = ScriptServer::new();
    let day = limit("{algorithm: fixed_window, limit: 3, per: day, align: {tz: Europe/Paris}}");
    let now = Timestamp::from_nanos(START_US * 1_000);
    for (about_us, is_known) in [
        (START_US, true),
        (START_US - DAY_US, true),
        (START_US + DAY_US, true),
        (START_US - 3 * DAY_US, false),
        (START_US + 3 * DAY_US, false),
    ] {
        world.flush();
        let mut call = world.new_call(START_US, Vec::new());
        assert!(call.add(check("key", &day, 1), Timestamp::from_nanos(about_us * 1_000)).is_ok());
        let seen = world.try_call(&call).unwrap().pop().unwrap();
        match seen {
            Ok(seen) => assert_eq!((seen.admitted, is_known), (OutcomeKind::Allowed, true)),
            Err(not_seen) => {
                assert_eq!((not_seen, is_known), (ReplayError::StaleCalendarEdges { at: now }, false));
                // Asked once more, around the time that it is.
                assert_eq!(world.call_one_at(START_US, check("key", &day, 1)).admitted, OutcomeKind::Allowed);
            }
        }
    }
    // What cannot be read is that, wherever the edges are.
    let () = world.run_command("SET", &[b"key", b"x"]);
    let seen = world.call_at(START_US, vec![check("key", &day, 1)]);
    assert_eq!(seen[0].as_ref().err(), Some(&unreadable_error("key")));
}

#[test]
fn an_impossible_reply_is_rejected() {
    let (mut world, gcra) = (ScriptServer::new(), limit(GCRA));
    let call = world.new_call(START_US, vec![check("key", &gcra, 1)]);
    let reply: Value = call.command(&world.sha).query(&mut world.connection).unwrap();
    let Value::Array(values) = reply else { panic!("{reply:?}") };
    assert!(call.read(Value::Array(values.clone())).is_ok());
    let with = |place: usize, value: Value| {
        let mut values = values.clone();
        values[place] = value;
        Value::Array(values)
    };
    for wrong in [
        Value::Nil,
        Value::Array(values[..2].to_vec()),
        with(0, Value::Int(1)),
        with(1, Value::Nil),
        with(1, Value::Int(-1)),
        with(1, Value::Int(i64::MAX)),
        with(2, Value::Int(1 << 40)),
        Value::Array([values.clone(), vec![Value::Int(0)]].concat()),
    ] {
        assert!(call.read(wrong.clone()).is_err(), "{wrong:?}");
    }
    // One unit of five fits a key never seen, so it cannot have been denied.
    let seen = call.read(with(2, Value::Int(0))).unwrap();
    let [Err(ReplayError::Mismatch(bad))] = &seen[..] else { panic!("{seen:?}") };
    assert!(bad.to_string().contains("plan 0 was denied"), "{bad}");
    // Nor is anything known of a key that is not there.
    let seen = call.read(Value::Array([values, vec![Value::Int(0), Value::Int(99)]].concat()));
    assert!(seen.is_ok());
}

#[test]
fn a_mismatch_fails_the_plan_and_later_plans_on_its_key() {
    let (mut world, gcra) = (ScriptServer::new(), limit(GCRA));
    let both = redis_plan(Op::Check, [charge("b", &gcra, 1), charge("c", &gcra, 1)]);
    let orders = vec![
        check("a", &gcra, 1),
        check("b", &gcra, 1),
        check("a", &gcra, 1),
        both,
        check("c", &gcra, 1),
        check("d", &gcra, 1),
    ];
    let call = world.new_call(START_US, orders);
    let reply: Value = call.command(&world.sha).query(&mut world.connection).unwrap();
    let Value::Array(mut values) = reply else { panic!("{reply:?}") };
    let admitted = values.len() - 1;
    assert_eq!(values[admitted], Value::Int(0b11_1111));
    // As if the second had been denied, which it cannot have been.
    values[admitted] = Value::Int(0b11_1101);
    let seen = call.read(Value::Array(values)).unwrap();
    let remaining: Vec<Option<u64>> = seen
        .iter()
        .map(|seen| match seen {
            Ok(seen) => Some(seen.outcomes[0].remaining),
            Err(ReplayError::Mismatch(_)) => None,
            Err(not_seen) => panic!("{not_seen:?}"),
        })
        .collect();
    assert_eq!(remaining, [Some(4), None, Some(3), None, None, Some(4)]);
}
