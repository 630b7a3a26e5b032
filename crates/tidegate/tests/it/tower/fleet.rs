//! A fleet of clients against a server with a limit, on simulated time, with and without the client layer. The table in
//! docs/tower.md is the output of this test.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tidegate::tower::client::{ClientError, RetryBudget, RetryLayer};
use tidegate::tower::server::{OneKey, RateLimitLayer};
use tidegate::{Clock, Limiter, ManualClock, Timer, Timestamp};
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::executor::Executor;

const CLIENTS: u64 = 50;
const JOBS_PER_CLIENT: u32 = 10;
const LIMIT: &str = "{algorithm: fixed_window, limit: 100, per: 10s}";
const START_NS: u64 = 1_800_000_000_000_000_000;
/// Between client and server, both ways together.
const ROUND_TRIP: Duration = Duration::from_millis(20);
/// A client without the layer tries again after this time.
const RETRY_EVERY: Duration = Duration::from_millis(100);

/// What a fleet needed.
#[derive(Debug, PartialEq, Eq)]
struct FleetResult {
    sent: u64,
    denied: u64,
    jobs: u64,
    finished_ms: u64,
}

impl FleetResult {
    fn row(&self, name: &str) -> String {
        let Self { sent, denied, jobs, finished_ms } = self;
        let (percent, tenth) = (jobs * 100 / sent, jobs * 1_000 / sent % 10);
        let (seconds, tenths) = (finished_ms / 1_000, finished_ms % 1_000 / 100);
        format!("| {name} | {sent} | {denied} | {percent}.{tenth} % | {seconds}.{tenths} s |")
    }
}

#[derive(Clone)]
struct LimitedServer {
    clock: ManualClock,
    sent: Arc<AtomicU64>,
    denied: Arc<AtomicU64>,
}

impl LimitedServer {
    /// The server behind a network. It shares its limiter with all clients.
    fn service<B: Send + 'static>(
        &self,
        limiter: &Arc<Limiter<ManualClock>>,
    ) -> impl Service<Request<B>, Response = Response<()>, Error = Infallible, Future: Send>
    + Clone
    + Send
    + 'static
    + use<B> {
        let handler = service_fn(|_: Request<B>| {
            std::future::ready(Ok::<_, Infallible>(Response::new(Full::<Bytes>::default())))
        });
        let limited = RateLimitLayer::new(Arc::clone(limiter), OneKey).layer(handler);
        let server = self.clone();
        service_fn(move |request: Request<B>| {
            let (server, mut limited) = (server.clone(), limited.clone());
            async move {
                server.sent.fetch_add(1, Ordering::Relaxed);
                let response = limited.call(request).await?;
                if response.status() == 429 {
                    server.denied.fetch_add(1, Ordering::Relaxed);
                }
                sleep(&server.clock, ROUND_TRIP).await;
                Ok(response.map(drop))
            }
        })
    }
}

async fn sleep(clock: &ManualClock, time: Duration) {
    clock.sleep_until(clock.now().saturating_add(time.into())).await;
}

fn run(is_polite: bool) -> FleetResult {
    let clock = ManualClock::at(Timestamp::from_nanos(START_NS));
    let limiter = Arc::new(Limiter::builder().limit(LIMIT).clock(clock.clone()).build().unwrap());
    let server = LimitedServer { clock: clock.clone(), sent: Arc::default(), denied: Arc::default() };
    let mut executor = Executor::new(&clock);
    for client in 0..CLIENTS {
        let service = server.service(&limiter);
        let plain = server.service(&limiter);
        let layer = RetryLayer::new()
            .deadline(Duration::from_secs(600))
            .attempts_max(100)
            .budget(RetryBudget::new(100, 50))
            .clock_and_seed(clock.clone(), client);
        let polite = layer.layer(service);
        let clock = clock.clone();
        executor.spawn(async move {
            let mut done = 0;
            while done < JOBS_PER_CLIENT {
                let request =
                    || Request::get("http://api.example/job").body(Full::<Bytes>::default()).unwrap();
                let is_done = match is_polite {
                    true => match polite.clone().oneshot(request()).await {
                        Ok(response) => response.status() == 200,
                        Err(ClientError::WaitTooLong { .. }) => false,
                        Err(error) => panic!("{error}"),
                    },
                    false => {
                        let response = plain.clone().oneshot(request()).await.unwrap();
                        if response.status() != 200 {
                            sleep(&clock, RETRY_EVERY).await;
                        }
                        response.status() == 200
                    }
                };
                done += u32::from(is_done);
            }
        });
    }
    executor.run();
    FleetResult {
        sent: server.sent.load(Ordering::Relaxed),
        denied: server.denied.load(Ordering::Relaxed),
        jobs: executor.completion_order().len() as u64 * u64::from(JOBS_PER_CLIENT),
        finished_ms: (clock.now().as_nanos() - START_NS) / 1_000_000,
    }
}

#[test]
fn a_fleet_sends_far_fewer_requests_and_is_done_about_as_soon() {
    let (without, with) = (run(false), run(true));
    assert_eq!((without.jobs, with.jobs), (CLIENTS * 10, CLIENTS * 10), "all jobs are done");
    assert!(with.sent * 5 < without.sent, "{with:?} {without:?}");
    assert!(with.denied * 10 < without.denied, "{with:?} {without:?}");
    assert!(with.finished_ms < without.finished_ms * 3 / 2, "{with:?} {without:?}");
    assert_eq!(run(true), with, "a run repeats");

    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tower.md")).unwrap();
    let rows = [without.row("without the layer"), with.row("with the layer")].join("\n");
    assert!(page.contains(&rows), "docs/tower.md lacks the rows:\n{rows}");
}
