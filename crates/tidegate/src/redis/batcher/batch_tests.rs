//! How plans become calls, and what happens to their replies.

use std::time::Duration;

use redis::Value;
use tidegate_core::{Counter, Role};
use tokio::sync::oneshot;

use super::super::PlanResult;
use super::*;
use crate::IntoLimit;
use crate::redis::key_name::KeyName;
use crate::redis::plan::RedisCharge;
use crate::redis::script::SCRIPT;
use crate::redis::testing::RedisProcess;

const DAILY: &str = "{algorithm: fixed_window, limit: 5, per: day, align: {tz: Europe/Paris}}";
const YEARS_AGO: Timestamp = Timestamp::from_nanos(1_500_000_000_000_000_000);

fn pending_plan(
    key: &str,
    text: &str,
    deadline: Instant,
) -> (Box<PendingPlan>, oneshot::Receiver<PlanResult>) {
    let counter = Counter::new("rule", 0, text.into_limit().unwrap());
    let charge = RedisCharge {
        key: KeyName::from_slice(key.as_bytes()),
        algorithm: counter.algorithm().clone(),
        cost: 1,
        role: Role::Enforced,
        counts_from: None,
        deny_cache: tidegate_core::DenyCache::On,
        mobility: crate::redis::topology::KeyMobility::Movable,
    };
    let (sender, pending) = oneshot::channel();
    let reply_to = ReplyTo {
        slot: 0,
        batch_key: BatchKey { limits: 1, keys: u64::from(key.as_bytes()[0]) },
        deadline,
        denial_caching: DenialCaching::Disabled,
        calendar_time: CalendarTime::Estimated,
        write_refusal: None,
        sender,
    };
    (
        Box::new(PendingPlan { plan: RedisPlan::new(Op::Check, [charge].into_iter().collect()), reply_to }),
        pending,
    )
}

async fn run_calls(server: &RedisProcess, batch: &Batch) -> SentCommands {
    let client = redis::Client::open(server.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let sha: String =
        redis::cmd("SCRIPT").arg("LOAD").arg(SCRIPT).query_async(&mut connection).await.unwrap();
    let mut results = Vec::new();
    for sent in batch.commands(&sha) {
        results.push(Ok(sent.command.query_async::<Value>(&mut connection).await.unwrap()));
    }
    SentCommands { results, replication: Replication::Enough }
}

/// This process's clock is years behind Redis, so its calendar windows are not those around Redis' time.
#[tokio::test]
async fn calendar_windows_are_retried_at_the_time_of_redis() {
    let server = RedisProcess::start();
    let later = Instant::now() + Duration::from_secs(600);
    let cache = DenyCache::new();
    let (plan, mut pending) = pending_plan("day", DAILY, later);
    let batch = Batch::from_pending(vec![plan], Instant::now(), YEARS_AGO);
    let replies = run_calls(&server, &batch).await;
    let (retries, time) = batch.complete(replies, YEARS_AGO, &cache);
    assert!(pending.try_recv().is_err(), "there is no result yet");
    assert_eq!(retries.len(), 1);
    let time = time.expect("the server's time");
    assert!(time > YEARS_AGO);
    assert_eq!(retries[0].reply_to.calendar_time, CalendarTime::Reported(time));
    let batch = Batch::from_pending(retries, Instant::now(), YEARS_AGO);
    let replies = run_calls(&server, &batch).await;
    assert!(batch.complete(replies, YEARS_AGO, &cache).0.is_empty());
    let timed = pending.await.unwrap().unwrap();
    assert_eq!(timed.reply.outcomes[0].remaining, 4, "charged once");
}

#[tokio::test]
async fn late_plans_are_not_sent_and_equal_plans_are_adjacent() {
    let now = Instant::now() + Duration::from_secs(60);
    let (late, pending) = pending_plan("z", "5/s", now);
    let later = now + Duration::from_secs(1);
    let (plans, _pending): (PendingPlans, Vec<_>) =
        ["b:1", "a:1", "b:2", "a:2", "b:3"].iter().map(|key| pending_plan(key, "5/s", later)).unzip();
    let batch = Batch::from_pending(plans.into_iter().chain([late]).collect(), now, YEARS_AGO);
    let failure = pending.await.unwrap().unwrap_err();
    assert_eq!((failure.error, failure.effect), (StoreError::TimedOut, PossibleEffect::None));
    let plans_in_calls = batch.calls.iter().flat_map(|batch_call| batch_call.call.plans());
    let keys: Vec<&[u8]> = plans_in_calls.map(|plan| plan.charges[0].key.as_slice()).collect();
    assert_eq!(keys, [&b"a:1"[..], b"a:2", b"b:1", b"b:2", b"b:3"]);
    let counters = StoreCounters::default();
    batch.count_in(&counters);
    assert_eq!((counters.plans.get(), counters.calls.get(), counters.coalesced.get()), (5, 1, 3));
}

#[tokio::test]
async fn a_missing_or_invalid_reply_is_a_failure_of_unknown_effect() {
    let later = Instant::now() + Duration::from_secs(600);
    let cases: [(Vec<Result<Value, SendError>>, PossibleEffect); 4] = [
        (Vec::new(), PossibleEffect::Unknown),
        (vec![Ok(Value::Int(1))], PossibleEffect::Unknown),
        (vec![Err(SendError::NoReply)], PossibleEffect::Unknown),
        (vec![Err(SendError::Refused("OOM".into()))], PossibleEffect::None),
    ];
    for (results, effect) in cases {
        let (plan, pending) = pending_plan("key", "5/s", later);
        let batch = Batch::from_pending(vec![plan], Instant::now(), YEARS_AGO);
        let sent = SentCommands { results, replication: Replication::Enough };
        batch.complete(sent, YEARS_AGO, &DenyCache::new());
        assert_eq!(pending.await.unwrap().unwrap_err().effect, effect);
    }
}
