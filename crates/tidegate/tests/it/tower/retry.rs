//! A client that waits and retries, on a manual clock.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use tidegate::tower::client::{
    Backoff, ClientError, PacerLayer, ReplayBody, RetryBudget, RetryChoice, RetryLayer,
};
use tidegate::{Clock, ManualClock, Pacer, Timestamp};
use tower::{Layer, Service, ServiceExt, service_fn};

use super::text;
use crate::executor::Executor;

const START_NS: u64 = 1_800_000_000_000_000_000;

type FullBody = Full<Bytes>;
type Lines = &'static [(&'static str, &'static str)];
const NONE: Lines = &[];

/// A server with prepared responses: a status (0 for a lost connection) and headers. Then it answers 200.
#[derive(Clone)]
struct Script {
    clock: ManualClock,
    responses: Arc<Mutex<VecDeque<(u16, Lines)>>>,
    /// When each request came, in milliseconds, and its body.
    requests: Arc<Mutex<Vec<(u64, String)>>>,
}

impl Script {
    fn new(clock: &ManualClock, responses: &[(u16, Lines)]) -> Self {
        let responses = Arc::new(Mutex::new(responses.iter().copied().collect()));
        Self { clock: clock.clone(), responses, requests: Arc::default() }
    }

    fn service(
        &self,
    ) -> impl Service<
        Request<ReplayBody<FullBody>>,
        Response = Response<FullBody>,
        Error = &'static str,
        Future: Send,
    >
    + Clone
    + Send
    + 'static
    + use<> {
        let script = self.clone();
        service_fn(move |request: Request<ReplayBody<FullBody>>| {
            let script = script.clone();
            async move {
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let body = String::from_utf8(body.to_vec()).unwrap();
                script.requests.lock().unwrap().push((millis(&script.clock), body));
                let (status, lines) = script.responses.lock().unwrap().pop_front().unwrap_or((200, &[]));
                if status == 0 {
                    return Err("connection lost");
                }
                let mut response = Response::builder().status(status);
                for (name, value) in lines {
                    response = response.header(*name, *value);
                }
                Ok(response.body(Full::from("done")).unwrap())
            }
        })
    }

    fn times(&self) -> Vec<u64> {
        self.requests.lock().unwrap().iter().map(|(at, _)| *at).collect()
    }
}

fn millis(clock: &ManualClock) -> u64 {
    (clock.now().as_nanos() - START_NS) / 1_000_000
}

fn clock() -> ManualClock {
    ManualClock::at(Timestamp::from_nanos(START_NS))
}

/// Without jitter, so that times are exact.
const NO_JITTER: Backoff = Backoff { first: Duration::ZERO, longest: Duration::ZERO };

fn layer(clock: &ManualClock) -> RetryLayer<ManualClock> {
    RetryLayer::new().backoff(NO_JITTER).clock_and_seed(clock.clone(), 1)
}

fn request(method: Method, body: &str) -> Request<FullBody> {
    let body = Full::from(body.to_owned());
    Request::builder().method(method).uri("http://api.example/x").body(body).unwrap()
}

/// Sends requests one after the other.
fn send(
    clock: &ManualClock,
    layer: &RetryLayer<ManualClock>,
    script: &Script,
    requests: Vec<Request<FullBody>>,
) -> Vec<Result<u16, String>> {
    let service = layer.layer(script.service());
    let mut executor = Executor::new(clock);
    let task = executor.spawn(async move {
        let mut results = Vec::new();
        for request in requests {
            let result = service.clone().oneshot(request).await;
            results.push(match result {
                Ok(response) => Ok(response.status().as_u16()),
                Err(error) => Err(error.to_string()),
            });
        }
        results
    });
    executor.run();
    executor.take(task).expect("it does not wait forever")
}

#[test]
fn a_denied_request_is_sent_again_when_the_server_says() {
    let clock = clock();
    // 2027-01-15 08:00:00 is START_NS.
    let script = Script::new(
        &clock,
        &[
            (429, &[("retry-after", "2")]),
            (503, &[("retry-after", "Fri, 15 Jan 2027 08:00:05 GMT")]),
            (429, &[("retry-after", "soon")]),
        ],
    );
    assert_eq!(send(&clock, &layer(&clock), &script, vec![request(Method::GET, "")]), [Ok(200)]);
    assert_eq!(script.times(), [0, 2_000, 5_000, 5_000]);
}

#[test]
fn the_next_request_waits_while_the_limits_are_used_up() {
    let clock = clock();
    let script = Script::new(
        &clock,
        &[
            (200, &[("ratelimit", r#""api";r=1;t=60"#)]),
            (200, &[("ratelimit", r#""api";r=0;t=7"#)]),
            (200, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "3")]),
        ],
    );
    let requests = (0..4).map(|_| request(Method::GET, "")).collect();
    assert_eq!(send(&clock, &layer(&clock), &script, requests), vec![Ok(200); 4]);
    assert_eq!(script.times(), [0, 0, 7_000, 10_000]);
}

#[test]
fn a_request_that_cannot_be_sent_in_time_is_not_sent() {
    let clock = clock();
    let script = Script::new(&clock, &[(200, &[("ratelimit", r#""api";r=0;t=60"#)])]);
    let requests = vec![request(Method::GET, ""), request(Method::GET, "")];
    let results = send(&clock, &layer(&clock), &script, requests);
    assert_eq!(results[0], Ok(200));
    assert!(results[1].as_ref().unwrap_err().contains("would have to wait for 60s"), "{results:?}");
    assert_eq!(script.times(), [0]);
    // One that got a 429 with such a wait is returned as it is.
    let other = self::clock();
    let script = Script::new(&other, &[(429, &[("retry-after", "31")])]);
    assert_eq!(send(&other, &layer(&other), &script, vec![request(Method::GET, "")]), [Ok(429)]);
}

/// A 429 without `Retry-After` is returned too if its limits are used up for too long. It takes no retry.
#[test]
fn a_denial_whose_wait_is_too_long_is_returned() {
    for lines in [
        &[("ratelimit", r#""api";r=0;t=60"#)][..],
        &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "60")],
    ] {
        let clock = clock();
        let script = Script::new(&clock, &[(429, lines)]);
        let layer = layer(&clock).budget(RetryBudget::new(0, 1));
        assert_eq!(send(&clock, &layer, &script, vec![request(Method::GET, "")]), [Ok(429)]);
        assert_eq!(script.times(), [0]);
        // The budget still has its retry.
        clock.advance(Duration::from_secs(60));
        script.responses.lock().unwrap().push_back((503, NONE));
        assert_eq!(send(&clock, &layer, &script, vec![request(Method::GET, "")]), [Ok(200)]);
    }
}

/// One endpoint that denies for a year does not make all others of its server fail for a year.
#[test]
fn a_limit_is_remembered_for_a_minute_at_most() {
    let clock = clock();
    let script = Script::new(&clock, &[(429, &[("retry-after", "31536000")])]);
    let layer = layer(&clock);
    assert_eq!(send(&clock, &layer, &script, vec![request(Method::GET, "")]), [Ok(429)]);
    let results = send(&clock, &layer, &script, vec![request(Method::GET, "")]);
    assert!(results[0].as_ref().unwrap_err().contains("would have to wait for 60s"), "{results:?}");
    clock.advance(Duration::from_secs(60));
    assert_eq!(send(&clock, &layer, &script, vec![request(Method::GET, "")]), [Ok(200)]);
}

#[test]
fn a_lost_connection_is_retried_only_if_that_is_safe() {
    for (method, results, attempts) in [
        (Method::GET, vec![Ok(200)], 2),
        (Method::PUT, vec![Ok(200)], 2),
        (Method::POST, vec![Err("connection lost".to_owned())], 1),
    ] {
        let clock = clock();
        let script = Script::new(&clock, &[(0, &[])]);
        assert_eq!(
            send(&clock, &layer(&clock), &script, vec![request(method.clone(), "body")]),
            results,
            "{method}"
        );
        let bodies: Vec<String> =
            script.requests.lock().unwrap().iter().map(|(_, body)| body.clone()).collect();
        assert_eq!(bodies, vec!["body"; attempts], "the body is sent again");
    }
}

#[test]
fn a_body_that_is_too_long_is_sent_once() {
    let clock = clock();
    let script = Script::new(&clock, &[(429, &[])]);
    let layer = layer(&clock).replay_bytes_max(3);
    let requests = vec![request(Method::PUT, "long"), request(Method::PUT, "abc")];
    assert_eq!(send(&clock, &layer, &script, requests), [Ok(429), Ok(200)]);
}

/// A server may deny a request before it has read the body, and go on reading.
#[test]
fn a_body_is_not_read_further_once_its_attempt_was_denied() {
    let clock = clock();
    let (script, unread) = (Script::new(&clock, &[]), Arc::new(Mutex::new(None)));
    let (then, first) = (script.service(), Arc::clone(&unread));
    let denies_first = service_fn(move |request: Request<ReplayBody<FullBody>>| {
        let mut first = first.lock().unwrap();
        let is_first = first.is_none();
        let (parts, body) = request.into_parts();
        let mut then = then.clone();
        let request = match is_first {
            true => {
                *first = Some(body);
                None
            }
            false => Some(Request::from_parts(parts, body)),
        };
        async move {
            match request {
                Some(request) => then.call(request).await,
                None => {
                    let response = Response::builder().status(429).header("retry-after", "2");
                    Ok(response.body(Full::from("")).unwrap())
                }
            }
        }
    });
    let service = layer(&clock).replay_bytes_max(3).layer(denies_first);
    let mut executor = Executor::new(&clock);
    let task =
        executor.spawn(async { service.oneshot(request(Method::PUT, "long")).await.unwrap().status() });
    executor.run_woken();
    {
        let mut unread = unread.lock().unwrap();
        let body = Pin::new(unread.as_mut().expect("the body of the first attempt"));
        let read = body.poll_frame(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(read, Poll::Ready(Some(Err(_)))), "{read:?}");
    }
    executor.run();
    assert_eq!(executor.take(task).unwrap(), 200);
    assert_eq!(*script.requests.lock().unwrap(), [(2_000, "long".to_owned())]);
}

#[test]
fn attempts_and_the_budget_are_bounded() {
    let clock = clock();
    let script = Script::new(&clock, &[(503, NONE); 100]);
    let layer = layer(&clock).attempts_max(3).budget(RetryBudget::new(10, 5));
    let requests = (0..30).map(|_| request(Method::GET, "")).collect();
    assert_eq!(send(&clock, &layer, &script, requests), vec![Ok(503); 30]);
    // 5 from the reserve, and one for each ten requests.
    assert_eq!(script.times().len(), 30 + 5 + 3 - 1, "the last tenth is not whole yet");
}

#[test]
fn pauses_grow_and_repeat_with_the_seed() {
    let times = |seed| {
        let clock = clock();
        let script = Script::new(&clock, &[(503, NONE); 4]);
        let layer = RetryLayer::new().clock_and_seed(clock.clone(), seed);
        assert_eq!(send(&clock, &layer, &script, vec![request(Method::GET, "")]), [Ok(200)]);
        script.times()
    };
    assert_eq!(times(7), times(7));
    assert_ne!(times(7), times(8));
    for seed in 0..50 {
        let times = times(seed);
        let pauses: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let ceilings = [100, 200, 400, 800];
        assert!(pauses.iter().zip(ceilings).all(|(pause, ceiling)| *pause <= ceiling), "{pauses:?}");
    }
}

#[test]
fn a_hook_chooses() {
    let clock = clock();
    let script = Script::new(&clock, &[(429, &[]), (500, &[])]);
    let layer = layer(&clock).retry_if(|attempt| match attempt.result {
        tidegate::tower::client::AttemptResult::Response { status, .. } if status == 500 => {
            RetryChoice::Retry
        }
        _ => RetryChoice::Return,
    });
    let requests = vec![request(Method::GET, ""), request(Method::GET, "")];
    assert_eq!(send(&clock, &layer, &script, requests), [Ok(429), Ok(200)]);
}

#[test]
fn grpc_callers_are_retried_and_pushback_is_honoured() {
    let clock = clock();
    let script = Script::new(
        &clock,
        &[
            (200, &[("grpc-status", "8"), ("grpc-retry-pushback-ms", "1500")]),
            (200, &[("grpc-status", "8"), ("grpc-retry-pushback-ms", "-1")]),
        ],
    );
    assert_eq!(send(&clock, &layer(&clock), &script, vec![request(Method::POST, "call")]), [Ok(200)]);
    assert_eq!(script.times(), [0, 1_500]);
}

#[test]
fn the_deadline_ends_an_attempt_that_hangs() {
    let clock = clock();
    let hangs = service_fn(|_: Request<ReplayBody<FullBody>>| {
        std::future::pending::<Result<Response<FullBody>, Infallible>>()
    });
    let service = layer(&clock).deadline(Duration::from_secs(3)).layer(hangs);
    let mut executor = Executor::new(&clock);
    let task = executor.spawn(async { service.oneshot(request(Method::GET, "")).await.map(|_| ()) });
    executor.run();
    let finished = executor.finished(task).unwrap();
    assert!(matches!(finished.output, Err(ClientError::DeadlineExceeded)));
    assert_eq!(finished.at.as_nanos() - START_NS, 3_000_000_000);
}

#[test]
fn a_pacer_spaces_requests() {
    let clock = clock();
    let pacer = Pacer::builder().rate("2/s").max_burst_seconds(0).clock(clock.clone()).build().unwrap();
    let times = Arc::new(Mutex::new(Vec::new()));
    let (seen, seen_clock) = (Arc::clone(&times), clock.clone());
    let client = service_fn(move |number: u32| {
        seen.lock().unwrap().push((number, millis(&seen_clock)));
        std::future::ready(Ok::<_, Infallible>(()))
    });
    let layer = PacerLayer::new(Arc::new(pacer));
    let service = layer.layer(client.clone());
    let hasty = layer.max_wait(Duration::from_millis(100)).layer(client);
    let mut executor = Executor::new(&clock);
    for number in 0..4 {
        let service = service.clone();
        executor.spawn(async move { service.oneshot(number).await.map_err(|error| error.to_string()) });
    }
    let refused = executor.spawn(async move { hasty.oneshot(9).await.map_err(|error| error.to_string()) });
    executor.run();
    assert_eq!(*times.lock().unwrap(), [(0, 0), (1, 500), (2, 1_000), (3, 1_500)]);
    assert!(executor.take(refused).unwrap().unwrap_err().contains("2s"));
}

#[tokio::test]
async fn the_body_of_a_response_is_untouched() {
    let clock = clock();
    let script = Script::new(&clock, &[]);
    let response = layer(&clock).layer(script.service()).oneshot(request(Method::GET, "")).await.unwrap();
    assert_eq!(text(response).await, "done");
}
