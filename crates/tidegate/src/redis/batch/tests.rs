use std::time::Duration;

use redis::Value;
use tidegate_core::{Counter, Role};
use tokio::sync::oneshot;

use super::*;
use crate::IntoLimit;
use crate::redis::desk::PlanResult;
use crate::redis::plan::{KeyName, RedisCharge};
use crate::redis::script::SCRIPT;
use crate::redis::testing::RedisProcess;

const DAILY: &str = "{algorithm: fixed_window, limit: 5, per: day, align: {tz: Europe/Paris}}";
const YEARS_AGO: Timestamp = Timestamp::from_nanos(1_500_000_000_000_000_000);

fn pending_plan(key: &str, text: &str, deadline: Instant) -> (Box<PendingPlan>, oneshot::Receiver<PlanResult>) {
    let counter = Counter::new("rule", 0, text.into_limit().unwrap());
    let charge = RedisCharge {
        key: KeyName::from_slice(key.as_bytes()),
        algorithm: counter.algorithm().clone(),
        cost: 1,
        role: Role::Enforced,
        counts_from: None,
        deny_cache: tidegate_core::DenyCache::On,
    };
    let (answer, asking) = oneshot::channel();
    let ticket = ReplyTo {
        slot: 0,
        batch_key: BatchKey { limits: 1, keys: u64::from(key.as_bytes()[0]) },
        deadline,
        denial_caching: DenialCaching::Disabled,
        calendar_time: CalendarTime::Estimated,
        sender: answer,
    };
    (Box::new(PendingPlan { plan: RedisPlan::new(Op::Check, [charge].into_iter().collect()), reply_to: ticket }), asking)
}

async fn run_calls(server: &RedisProcess, batch: &Batch) -> Vec<CallResult> {
    let client = redis::Client::open(server.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let sha: String =
        redis::cmd("SCRIPT").arg("LOAD").arg(SCRIPT).query_async(&mut connection).await.unwrap();
    let mut replies = Vec::new();
    for sent in batch.commands(&sha) {
        replies.push(Ok(sent.command.query_async::<Value>(&mut connection).await.unwrap()));
    }
    replies
}

/// This process's clock is years behind that of Redis, so the windows that it works out are not around Redis' time.
#[tokio::test]
async fn calendar_windows_are_retried_at_the_time_of_redis() {
    let server = RedisProcess::start();
    let later = Instant::now() + Duration::from_secs(600);
    let cache = DenyCache::new();
    let (job, mut asking) = pending_plan("day", DAILY, later);
    let batch = Batch::from_pending(vec![job], Instant::now(), YEARS_AGO);
    let replies = run_calls(&server, &batch).await;
    let (again, time) = batch.complete(replies, YEARS_AGO, &cache);
    assert!(asking.try_recv().is_err(), "nobody was answered yet");
    assert_eq!(again.len(), 1);
    let time = time.expect("the server said what time it is");
    assert!(time > YEARS_AGO);
    assert_eq!(again[0].reply_to.calendar_time, CalendarTime::Reported(time));
    let batch = Batch::from_pending(again, Instant::now(), YEARS_AGO);
    let replies = run_calls(&server, &batch).await;
    assert!(batch.complete(replies, YEARS_AGO, &cache).0.is_empty());
    let answered = asking.await.unwrap().unwrap();
    assert_eq!(answered.reply.outcomes[0].remaining, 4, "charged once");
}

#[tokio::test]
async fn late_plans_are_not_sent_and_equal_plans_are_adjacent() {
    let now = Instant::now() + Duration::from_secs(60);
    let (late, asking) = pending_plan("z", "5/s", now);
    let later = now + Duration::from_secs(1);
    let (jobs, _askings): (PendingPlans, Vec<_>) =
        ["b:1", "a:1", "b:2", "a:2", "b:3"].iter().map(|key| pending_plan(key, "5/s", later)).unzip();
    let batch = Batch::from_pending(jobs.into_iter().chain([late]).collect(), now, YEARS_AGO);
    let unanswered = asking.await.unwrap().unwrap_err();
    assert_eq!((unanswered.error, unanswered.effect), (StoreError::TimedOut, PossibleEffect::None));
    let orders = batch.calls.iter().flat_map(|asked| asked.call.plans());
    let keys: Vec<&[u8]> = orders.map(|order| order.charges[0].key.as_slice()).collect();
    assert_eq!(keys, [&b"a:1"[..], b"a:2", b"b:1", b"b:2", b"b:3"]);
    let counters = StoreCounters::default();
    batch.count_in(&counters);
    assert_eq!((counters.plans.get(), counters.calls.get(), counters.coalesced.get()), (5, 1, 3));
}

#[tokio::test]
async fn a_missing_or_invalid_reply_is_a_failure_of_unknown_effect() {
    let later = Instant::now() + Duration::from_secs(600);
    let cases: [(Vec<CallResult>, PossibleEffect); 4] = [
        (Vec::new(), PossibleEffect::Unknown),
        (vec![Ok(Value::Int(1))], PossibleEffect::Unknown),
        (vec![Err(SendError::NoReply)], PossibleEffect::Unknown),
        (vec![Err(SendError::Refused("OOM".into()))], PossibleEffect::None),
    ];
    for (replies, effect) in cases {
        let (job, asking) = pending_plan("key", "5/s", later);
        let batch = Batch::from_pending(vec![job], Instant::now(), YEARS_AGO);
        batch.complete(replies, YEARS_AGO, &DenyCache::new());
        assert_eq!(asking.await.unwrap().unwrap_err().effect, effect);
    }
}
