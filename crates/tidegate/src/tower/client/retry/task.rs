//! One request: its waits and attempts.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::header::HOST;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use tidegate_core::{Nanos, Timestamp};
use tower_service::Service;

use super::ReplayBody;
use super::hints::{RetryHint, retry_hint, used_up_for};
use super::layer::{RetrySettings, RetryState};
use super::policy::{Attempt, AttemptResult, RetryChoice, is_limited};
use super::replay_body::ReplaySource;
use crate::Timer;
use crate::tower::BoxError;
use crate::tower::client::ClientError;

/// Sends a request until it has a response to return.
pub(super) async fn send<S, B, R, C>(
    mut service: S,
    request: Request<B>,
    settings: Arc<RetrySettings>,
    state: Arc<RetryState>,
    clock: C,
) -> Result<Response<R>, ClientError<S::Error>>
where
    S: Service<Request<ReplayBody<B>>, Response = Response<R>>,
    B: Body,
    B::Error: Into<BoxError>,
    C: Timer,
{
    let deadline = clock.now().saturating_add(settings.deadline.into());
    let (parts, body) = request.into_parts();
    let source = ReplaySource::new(body, settings.replay_bytes_max);
    let server = server_name(&parts);
    settings.budget.add_request();
    let mut number = 0;
    loop {
        wait_for_limits(&server, number, deadline, &settings, &state, &clock).await?;
        number += 1;
        let request = Request::from_parts(parts.clone(), source.next_attempt());
        let attempt = async {
            if number > 1 {
                poll_fn(|context| service.poll_ready(context)).await?;
            }
            service.call(request).await
        };
        let Some(result) = before(deadline, &clock, attempt).await else {
            return Err(ClientError::DeadlineExceeded);
        };

        let now = clock.now();
        let (attempt_result, hint) = match &result {
            Ok(response) => {
                let (status, headers) = (response.status(), response.headers());
                let hint = retry_hint(headers, now);
                let used_up = match hint {
                    // The time for this very request is more exact than the time until all units are back.
                    RetryHint::After(wait) if is_limited(status, headers) => Some(wait),
                    _ => used_up_for(headers, now),
                };
                if let Some(wait) = used_up.filter(|wait| !wait.is_zero()) {
                    state.known_limits.set(&server, now.saturating_add(wait.into()), now);
                }
                (AttemptResult::Response { status, headers }, hint)
            }
            Err(_) => (AttemptResult::Failed, RetryHint::None),
        };
        let attempt = Attempt { request: &parts, result: attempt_result, number };
        let choice = match &settings.hook {
            Some(hook) => hook(&attempt),
            None => attempt.default_choice(),
        };
        let wait = match hint {
            RetryHint::None => Duration::ZERO,
            RetryHint::After(wait) => wait,
            RetryHint::Never => return result.map_err(ClientError::Inner),
        };
        // A retry before the limits are known to have units would be refused here.
        let known_until = state.known_limits.used_up_until(&server, now).unwrap_or(now);
        let retry_at = now.saturating_add(wait.into()).max(known_until);
        let retry_at = retry_at.saturating_add(pause(&settings, &state, number - 1));
        let is_retried = choice == RetryChoice::Retry
            && number < settings.attempts_max
            && retry_at < deadline
            && source.is_replayable()
            && settings.budget.take_retry().is_some()
            && source.stop_attempt().is_some();
        if !is_retried {
            return result.map_err(ClientError::Inner);
        }
        // The response goes before the wait, so that its connection is free.
        drop(result);
        clock.sleep_until(retry_at).await;
    }
}

/// Waits while the server's limits are used up, as far as they are known.
async fn wait_for_limits<E, C: Timer>(
    server: &str,
    attempts: u32,
    deadline: Timestamp,
    settings: &RetrySettings,
    state: &RetryState,
    clock: &C,
) -> Result<(), ClientError<E>> {
    while let Some(until) = state.known_limits.used_up_until(server, clock.now()) {
        let now = clock.now();
        let at = until.saturating_add(pause(settings, state, attempts));
        if at >= deadline {
            let wait = Duration::from_nanos(until.as_nanos().saturating_sub(now.as_nanos()));
            return Err(ClientError::WaitTooLong { wait });
        }
        clock.sleep_until(at).await;
    }
    Ok(())
}

fn pause(settings: &RetrySettings, state: &RetryState, retries: u32) -> Nanos {
    settings.backoff.pause(retries, &state.jitter).into()
}

/// The output of a future, unless the deadline comes first.
async fn before<C: Timer, T>(deadline: Timestamp, clock: &C, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut end = clock.sleep_until(deadline);
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Pin::new(&mut end).poll(context).map(|()| None),
    })
    .await
}

/// The server of a request: the authority of its URI, else its `Host`.
fn server_name(parts: &Parts) -> Box<str> {
    let host = || parts.headers.get(HOST).and_then(|host| host.to_str().ok());
    parts.uri.authority().map(http::uri::Authority::as_str).or_else(host).unwrap_or_default().into()
}
