use std::time::Duration;

use redis::Value;
use tidegate_core::{Counter, Role};
use tokio::sync::oneshot;

use super::*;
use crate::IntoLimit;
use crate::redis::desk::Answer;
use crate::redis::order::{KeyName, OrderCharge};
use crate::redis::script::SCRIPT;
use crate::redis::testing::RedisProcess;

const DAILY: &str = "{algorithm: fixed_window, limit: 5, per: day, align: {tz: Europe/Paris}}";
const YEARS_AGO: Timestamp = Timestamp::from_nanos(1_500_000_000_000_000_000);

fn job(key: &str, text: &str, deadline: Instant) -> (Box<Job>, oneshot::Receiver<Answer>) {
    let counter = Counter::new("rule", 0, text.into_limit().unwrap());
    let charge = OrderCharge {
        key: KeyName::from_slice(key.as_bytes()),
        algorithm: counter.algorithm().clone(),
        cost: 1,
        role: Role::Enforced,
        counts_from: None,
        deny_cache: tidegate_core::DenyCache::On,
    };
    let (answer, asking) = oneshot::channel();
    let ticket = Ticket {
        slot: 0,
        likeness: Likeness { limits: 1, keys: u64::from(key.as_bytes()[0]) },
        deadline,
        denials: Denials::NotKept,
        edges: Edges::AroundNow,
        answer,
    };
    (Box::new(Job { order: Order::new(Op::Check, [charge].into_iter().collect()), ticket }), asking)
}

async fn ask(server: &RedisProcess, batch: &Batch) -> Vec<Reply> {
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
async fn windows_of_a_calendar_are_asked_for_once_more_around_the_time_of_redis() {
    let server = RedisProcess::start();
    let later = Instant::now() + Duration::from_secs(600);
    let cache = DenyCache::new();
    let (job, mut asking) = job("day", DAILY, later);
    let batch = Batch::gather(vec![job], Instant::now(), YEARS_AGO);
    let replies = ask(&server, &batch).await;
    let (again, time) = batch.answer(replies, YEARS_AGO, &cache);
    assert!(asking.try_recv().is_err(), "nobody was answered yet");
    assert_eq!(again.len(), 1);
    let time = time.expect("the server said what time it is");
    assert!(time > YEARS_AGO);
    assert_eq!(again[0].ticket.edges, Edges::Around(time));
    let batch = Batch::gather(again, Instant::now(), YEARS_AGO);
    let replies = ask(&server, &batch).await;
    assert!(batch.answer(replies, YEARS_AGO, &cache).0.is_empty());
    let answered = asking.await.unwrap().unwrap();
    assert_eq!(answered.seen.outcomes[0].remaining, 4, "charged once");
}

#[tokio::test]
async fn what_is_too_late_is_not_sent_and_what_is_alike_stands_side_by_side() {
    let now = Instant::now() + Duration::from_secs(60);
    let (late, asking) = job("z", "5/s", now);
    let later = now + Duration::from_secs(1);
    let (jobs, _askings): (Jobs, Vec<_>) =
        ["b:1", "a:1", "b:2", "a:2", "b:3"].iter().map(|key| job(key, "5/s", later)).unzip();
    let batch = Batch::gather(jobs.into_iter().chain([late]).collect(), now, YEARS_AGO);
    let unanswered = asking.await.unwrap().unwrap_err();
    assert_eq!((unanswered.why, unanswered.effect), (StoreFailure::TimedOut, Effect::Nothing));
    let orders = batch.calls.iter().flat_map(|asked| asked.call.orders());
    let keys: Vec<&[u8]> = orders.map(|order| order.charges[0].key.as_slice()).collect();
    assert_eq!(keys, [&b"a:1"[..], b"a:2", b"b:1", b"b:2", b"b:3"]);
    let counters = Counters::default();
    batch.count(&counters);
    assert_eq!((counters.orders.get(), counters.calls.get(), counters.coalesced.get()), (5, 1, 3));
}

#[tokio::test]
async fn a_reply_that_is_missing_or_makes_no_sense_is_a_failure_of_unknown_effect() {
    let later = Instant::now() + Duration::from_secs(600);
    let cases: [(Vec<Reply>, Effect); 4] = [
        (Vec::new(), Effect::Unknown),
        (vec![Ok(Value::Int(1))], Effect::Unknown),
        (vec![Err(SendError::Lost)], Effect::Unknown),
        (vec![Err(SendError::Refused("OOM".into()))], Effect::Nothing),
    ];
    for (replies, effect) in cases {
        let (job, asking) = job("key", "5/s", later);
        let batch = Batch::gather(vec![job], Instant::now(), YEARS_AGO);
        batch.answer(replies, YEARS_AGO, &DenyCache::new());
        assert_eq!(asking.await.unwrap().unwrap_err().effect, effect);
    }
}
