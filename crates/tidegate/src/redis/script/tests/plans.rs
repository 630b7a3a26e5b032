//! Properties of a whole call: plans that share it, their groups, and its bounds.

use tidegate_core::{FencingToken, Grant, OutcomeKind, PLAN_CHARGES_MAX};

use super::*;
use crate::redis::lease_seal::LeaseSeal;
use crate::store::Reply;
use crate::{Lease, LeaseToken, Release};

const GCRA: &str = "{algorithm: gcra, limit: 10, per: 1s, burst: 5}";
const EVERY_KIND: &[&str] = &[
    GCRA,
    "{algorithm: token_bucket, limit: 10, per: 1h, burst: 5}",
    "{algorithm: leaky_bucket, limit: 10, per: 1h}",
    "{algorithm: gcra, limit: 1, per: 365d, burst: 1000}",
    "{algorithm: fixed_window, limit: 10, per: 1h}",
    "{algorithm: sliding_window, limit: 10, per: 1h}",
    "{algorithm: sub_windows, limit: 10, per: 1h}",
    "{algorithm: sliding_log, limit: 10, per: 1h}",
    "{algorithm: concurrency, limit: 10, ttl: 1h}",
];

fn admitted(replies: &[Result<PlanReply, ReplayError>]) -> Vec<bool> {
    replies.iter().map(|reply| matches!(reply, Ok(reply) if reply.admitted == OutcomeKind::Allowed)).collect()
}

#[test]
fn plans_of_a_call_see_earlier_plans() {
    let (mut server, gcra) = (ScriptServer::new(), limit(GCRA));
    let shared = || check("shared", &gcra, 1);
    let own =
        |at: usize| redis_plan(Op::Check, [charge(&format!("own:{at}"), &gcra, 1), charge("all", &gcra, 1)]);
    let mut plans: Vec<RedisPlan> = (0..7).map(|_| shared()).collect();
    plans.push(redis_plan(Op::Peek, [charge("shared", &gcra, 1)]));
    plans.extend((0..7).map(own));
    let replies = server.call_at(START_US, plans);
    let expected = [[true; 5].as_slice(), &[false; 3], &[true; 5], &[false; 2]].concat();
    assert_eq!(admitted(&replies), expected);
    let remaining: Vec<u64> =
        replies[..8].iter().map(|reply| reply.as_ref().unwrap().outcomes[0].remaining).collect();
    assert_eq!(remaining, [4, 3, 2, 1, 0, 0, 0, 0]);
    let left: i64 =
        server.run_command("EXISTS", &[b"own:0", b"own:1", b"own:2", b"own:3", b"own:4", b"own:5", b"own:6"]);
    assert_eq!(left, 5);
}

/// Different costs are charged in order: 3 of 5, then 3 do not fit, then 2 do.
#[test]
fn costs_of_one_key_are_charged_in_order() {
    let (mut server, gcra) = (ScriptServer::new(), limit(GCRA));
    let plans = [3, 3, 2, 0, 1].map(|cost| check("key", &gcra, cost)).to_vec();
    assert_eq!(admitted(&server.call_at(START_US, plans)), [true, false, true, true, false]);
}

/// More charges than one byte can count, of each kind of limit.
#[test]
fn a_plan_of_the_maximum_size_is_charged_whole_or_not_at_all() {
    let (mut server, limits) =
        (ScriptServer::new(), EVERY_KIND.iter().map(|text| limit(text)).collect::<Vec<Limit>>());
    let plan = |last_cost: u64| {
        let one = |at: usize| {
            let cost = if at + 1 == PLAN_CHARGES_MAX { last_cost } else { 1 };
            charge(&format!("many:{at}"), &limits[at % limits.len()], cost)
        };
        redis_plan(Op::Check, (0..PLAN_CHARGES_MAX).map(one))
    };
    // The last charge never fits 6 units.
    let replies = server.call_at(START_US, vec![plan(6_000)]);
    assert_eq!(admitted(&replies), [false]);
    for (is_admitted, remaining) in [(true, 4), (true, 3)] {
        let replies = server.call_at(START_US, vec![plan(1)]);
        assert_eq!(admitted(&replies), [is_admitted]);
        let outcomes = &replies[0].as_ref().unwrap().outcomes;
        assert_eq!((outcomes.len(), outcomes[0].remaining), (PLAN_CHARGES_MAX, remaining));
    }
}

#[test]
fn a_call_holds_the_maximum_number_of_plans() {
    let (mut server, gcra) = (ScriptServer::new(), limit(GCRA));
    for is_admitted in [true, false] {
        let mut call = server.new_call(START_US, Vec::new());
        let plans = (0..).map(|at| check(&format!("key:{at}"), &gcra, 5));
        let added = plans.map_while(|plan| call.add(plan, Timestamp::from_nanos(0)).ok()).count();
        assert_eq!(added, CALL_PLANS_MAX);
        let replies = server.try_call(&call).unwrap();
        assert_eq!(admitted(&replies), vec![is_admitted; CALL_PLANS_MAX]);
    }
    assert_eq!(server.run_command::<usize>("DBSIZE", &[]), CALL_PLANS_MAX);
}

#[test]
fn a_call_holds_the_maximum_number_of_keys() {
    let (mut server, gcra) = (ScriptServer::new(), limit(GCRA));
    let mut call = server.new_call(START_US, Vec::new());
    let plan =
        |at: usize| redis_plan(Op::Check, (0..50).map(|key| charge(&format!("key:{at}:{key}"), &gcra, 1)));
    let added = (0..).map_while(|at| call.add(plan(at), Timestamp::from_nanos(0)).ok()).count();
    assert_eq!(added, CALL_KEYS_MAX / 50);
    assert!(admitted(&server.try_call(&call).unwrap()).iter().all(|admitted| *admitted));
    assert_eq!(server.run_command::<usize>("DBSIZE", &[]), CALL_KEYS_MAX);
}

/// One group for 30 plans on one key, and one for 30 plans on consecutive keys: nothing is written twice.
#[test]
fn equal_plans_share_a_group() {
    let (server, gcra) = (ScriptServer::new(), limit(GCRA));
    let bytes =
        |plans: Vec<RedisPlan>| server.new_call(START_US, plans).command("").get_packed_command().len();
    let with_key = |key: fn(usize) -> String| {
        move |count: usize| (0..count).map(|at| check(&key(at), &gcra, 1)).collect::<Vec<_>>()
    };
    let same = with_key(|_| "key".to_owned());
    // At most a second digit longer.
    assert!(bytes(same(30)) <= bytes(same(1)) + 2);
    let gcra = limit(GCRA);
    let row = |count: usize| (0..count).map(|at| check(&format!("{at:04}"), &gcra, 1)).collect::<Vec<_>>();
    let key_bytes = "$4\r\n0000\r\n".len();
    assert!(bytes(row(30)) <= bytes(row(1)) + 29 * key_bytes + 4);
}

#[test]
fn a_peek_writes_nothing() {
    let mut server = ScriptServer::new();
    let peek = |text: &&str| redis_plan(Op::Peek, [charge(text, &limit(text), 1)]);
    assert!(
        admitted(&server.call_at(START_US, EVERY_KIND.iter().map(peek).collect())).iter().all(|one| *one)
    );
    assert_eq!(server.run_command::<usize>("DBSIZE", &[]), 0);
}

#[test]
fn every_key_expires_by_the_clock_of_redis() {
    let mut server = ScriptServer::new();
    for text in EVERY_KIND {
        let mut call = Call::new(CallTime::Server);
        assert!(call.add(check(text, &limit(text), 1), Timestamp::from_nanos(0)).is_ok());
        let reply = server.try_call(&call).unwrap().pop().unwrap().unwrap();
        let (seconds, _): (u64, u64) = server.run_command("TIME", &[]);
        assert!(reply.at.as_nanos() / 1_000_000_000 <= seconds);
        let left_ms: i64 = server.run_command("PTTL", &[text.as_bytes()]);
        let window_ms = i64::try_from(limit(text).rate().window_ns() / 1_000_000).unwrap();
        assert!(0 < left_ms && left_ms <= 2 * window_ms, "{text}: {left_ms} ms");
    }
}

#[test]
fn an_out_of_memory_server_refuses_the_whole_call() {
    let (mut server, gcra) = (ScriptServer::new(), limit(GCRA));
    let () = server.run_command("CONFIG", &[b"SET", b"maxmemory", b"1"]);
    let call = server.new_call(START_US, vec![check("a", &gcra, 1), check("b", &gcra, 1)]);
    assert!(server.try_call(&call).is_err());
    let () = server.run_command("CONFIG", &[b"SET", b"maxmemory", b"0"]);
    assert_eq!(server.run_command::<usize>("DBSIZE", &[]), 0);
}

#[test]
fn a_replica_has_the_same_states_and_expiries() {
    let mut server = ScriptServer::new();
    let replica = RedisServer::start(&["--replicaof", &format!("127.0.0.1 {}", server.server.port)]);
    for _ in 0..3 {
        let plans = EVERY_KIND.iter().map(|text| check(text, &limit(text), 1)).collect();
        assert_eq!(admitted(&server.call_at(START_US, plans)), vec![true; EVERY_KIND.len()]);
    }
    // Returns when the replica has everything that was written before.
    let replicas: i64 = server.run_command("WAIT", &[b"1", b"60000"]);
    assert_eq!(replicas, 1);
    let mut copy = connect(&replica);
    for text in EVERY_KIND {
        let dump: Vec<u8> = server.run_command("DUMP", &[text.as_bytes()]);
        assert_eq!(dump, redis::cmd("DUMP").arg(text).query::<Vec<u8>>(&mut copy).unwrap(), "{text}");
        let expires: i64 = server.run_command("PEXPIRETIME", &[text.as_bytes()]);
        assert_eq!(expires, redis::cmd("PEXPIRETIME").arg(text).query::<i64>(&mut copy).unwrap(), "{text}");
    }
}

#[test]
fn a_token_of_another_key_or_fleet_is_rejected_without_a_call() {
    let (one, other) = (limit("{algorithm: concurrency, limit: 1, ttl: 1s}"), limit(GCRA));
    let charges = |key: &str| [charge("beside", &other, 1), charge(key, &one, 1)];
    let owner = new_owner(42, &charges("mine")).unwrap();
    let grant = Grant { expires: Timestamp::from_nanos(7), fencing_token: FencingToken::new(1) };
    let lease = Lease {
        token: LeaseToken::new(grant, u128::from_be_bytes(owner)),
        fence: grant.fencing_token,
        since: grant.expires,
        expires: grant.expires,
    };
    let seal = LeaseSeal::new("tg", "secret");
    let reply = Reply::empty(grant.expires).with_lease(LeaseReply::Held(lease));
    let sealed = seal.seal_reply(reply, governing_key(&charges("mine")).unwrap());
    let token = sealed.lease.into_lease().unwrap().token;
    let own = charges("mine");
    let opened = seal.open(&token, &own).unwrap();
    assert_eq!((opened.token, opened.key), (lease.token, &*own[1].key));
    assert!(seal.open(&token, &charges("yours")).is_none());
    assert!(seal.open(&lease.token, &charges("mine")).is_none(), "the owner alone is no token");
    // Nodes with another password or namespace are another fleet.
    for other_seal in [LeaseSeal::new("tg", "other"), LeaseSeal::new("gt", "secret")] {
        assert!(other_seal.open(&token, &charges("mine")).is_none());
    }
    assert_eq!(new_owner(42, &[charge("mine", &other, 1)]), None);
    // The text form of a token parses to the same token.
    assert_eq!(token.to_string().parse(), Ok(token));
}

/// A reset removes the leases, and the next fencing token is above those handed out in the same microsecond.
#[test]
fn a_reset_keeps_the_fence() {
    let (mut server, one) = (ScriptServer::new(), limit("{algorithm: concurrency, limit: 1, ttl: 1s}"));
    let charges = [charge("key", &one, 1)];
    let acquire = |drawn: u64| {
        redis_plan(Op::Acquire { ttl: None }, charges.clone()).with_owner(new_owner(drawn, &charges).unwrap())
    };
    let replies =
        server.call_at(START_US, vec![acquire(1), redis_plan(Op::Reset, charges.clone()), acquire(2)]);
    let leases: Vec<_> = replies.into_iter().map(|reply| reply.unwrap().lease).collect();
    let [LeaseReply::Held(first), LeaseReply::None, LeaseReply::Held(second)] = leases[..] else {
        panic!("{leases:?}");
    };
    assert_eq!(second.fence.get(), first.fence.get() + 1);
    let release = redis_plan(Op::Release { token: first.token }, charges.clone());
    assert_eq!(Release::from(server.call_one_at(START_US, release).lease), Release::AlreadyReleased);
    let release = redis_plan(Op::Release { token: second.token }, charges);
    assert_eq!(Release::from(server.call_one_at(START_US, release).lease), Release::Released);
}
