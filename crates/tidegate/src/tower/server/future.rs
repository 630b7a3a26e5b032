//! The future of a response.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tidegate_core::AnswerKind;
use tower_service::Service;

use super::answer::{Decided, HeaderLines};
use super::denied::{denied_response, shadow_ban_response};
use super::layer::{Hooks, ShadowBan};
use super::slots::Slot;
use super::{LimitedBody, RequestAnswer};

/// Tells clients that a request passed although it is over a limit. The server of Tidegate uses the same header.
const DECISION: HeaderName = HeaderName::from_static("x-tidegate-decision");

pin_project! {
    /// The future of a response through a [`RateLimitLayer`](super::RateLimitLayer).
    pub struct ResponseFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: State<S, B, S::Future>,
    }
}

pin_project! {
    #[project = StateProject]
    enum State<S, B, F> {
        // The request is decided later, because it waits or because a shared store is asked.
        Deciding { pending: Option<Pending<S, B>> },
        // The inner service answers.
        Calling { #[pin] future: F, passing: Option<Passing> },
        // The layer answers.
        Answered { response: Option<Response<Bytes>> },
    }
}

/// A request that is not decided yet.
struct Pending<S, B> {
    deciding: Pin<Box<dyn Future<Output = Decided> + Send>>,
    request: Request<B>,
    inner: S,
    hooks: Hooks,
    is_grpc: bool,
}

/// What is added to the response of the inner service.
struct Passing {
    headers: HeaderLines,
    slot: Option<Slot>,
    /// None if the request is simply allowed.
    mark: Option<Box<RequestAnswer>>,
}

impl<S, B> ResponseFuture<S, B>
where
    S: Service<Request<B>>,
{
    pub(super) fn later(
        deciding: Pin<Box<dyn Future<Output = Decided> + Send>>,
        request: Request<B>,
        inner: S,
        hooks: Hooks,
        is_grpc: bool,
    ) -> Self {
        let pending = Some(Pending { deciding, request, inner, hooks, is_grpc });
        Self { state: State::Deciding { pending } }
    }

    #[inline]
    pub(super) fn decided(
        decided: Decided,
        request: Request<B>,
        inner: &mut S,
        hooks: &Hooks,
        is_grpc: bool,
    ) -> Self {
        Self { state: State::decided(decided, request, inner, hooks, is_grpc) }
    }
}

impl<S, B, F> State<S, B, F>
where
    S: Service<Request<B>, Future = F>,
{
    #[inline]
    fn decided(
        decided: Decided,
        mut request: Request<B>,
        inner: &mut S,
        hooks: &Hooks,
        is_grpc: bool,
    ) -> Self {
        let Decided { answer, headers, slot } = decided;
        let mark = answer;
        if let Some(answer) = &mark {
            let is_marked = answer.kind == AnswerKind::ShadowBanned && hooks.shadow_ban == ShadowBan::Mark;
            if !answer.kind.passes() && !is_marked {
                return Self::answered(answer, headers, hooks, is_grpc);
            }
            request.extensions_mut().insert(RequestAnswer::clone(answer));
        }
        Self::Calling { future: inner.call(request), passing: Some(Passing { headers, slot, mark }) }
    }

    #[cold]
    fn answered(answer: &RequestAnswer, headers: HeaderLines, hooks: &Hooks, is_grpc: bool) -> Self {
        let mut response = match (answer.kind, &hooks.on_denied) {
            (AnswerKind::ShadowBanned, _) => shadow_ban_response(is_grpc),
            (_, Some(hook)) => hook(answer),
            (_, None) => denied_response(answer, is_grpc),
        };
        headers.add_to(response.headers_mut());
        response.extensions_mut().insert(answer.clone());
        Self::Answered { response: Some(response) }
    }
}

impl<S, B, R> Future for ResponseFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Body,
{
    type Output = Result<Response<LimitedBody<R>>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            let next = match state.as_mut().project() {
                StateProject::Deciding { pending } => {
                    let waiting = pending.as_mut().expect("a future was polled after it was done");
                    let decided = ready!(waiting.deciding.as_mut().poll(context));
                    let Some(Pending { request, mut inner, hooks, is_grpc, .. }) = pending.take() else {
                        unreachable!("it was there above")
                    };
                    State::decided(decided, request, &mut inner, &hooks, is_grpc)
                }
                StateProject::Calling { future, passing } => {
                    let response = ready!(future.poll(context))?;
                    let passing = passing.take().expect("a future was polled after it was done");
                    return Poll::Ready(Ok(passing.add_to(response)));
                }
                StateProject::Answered { response } => {
                    let response = response.take().expect("a future was polled after it was done");
                    return Poll::Ready(Ok(response.map(LimitedBody::own)));
                }
            };
            state.set(next);
        }
    }
}

impl Passing {
    #[inline]
    fn add_to<R: Body>(self, mut response: Response<R>) -> Response<LimitedBody<R>> {
        let Self { headers, slot, mark } = self;
        headers.add_to(response.headers_mut());
        if let Some(answer) = mark {
            // Clients must not notice a dry run or a ban.
            if matches!(answer.kind, AnswerKind::Soft | AnswerKind::OverQuota) {
                response.headers_mut().insert(DECISION, HeaderValue::from_static(answer.kind.as_str()));
            }
            response.extensions_mut().insert(*answer);
        }
        response.map(|body| LimitedBody::inner(body, slot))
    }
}

impl<S, B> fmt::Debug for ResponseFuture<S, B>
where
    S: Service<Request<B>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
