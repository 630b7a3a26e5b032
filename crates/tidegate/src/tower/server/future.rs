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
use super::{LimitedBodies, LimitedBody, RequestAnswer, ResponseBodies};

/// Tells clients that a request passed although it is over a limit. The server of Tidegate uses the same header.
const DECISION: HeaderName = HeaderName::from_static("x-tidegate-decision");

pin_project! {
    /// The future of a response through a [`RateLimitLayer`](super::RateLimitLayer).
    pub struct ResponseFuture<S, B, W = LimitedBodies>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: State<S, B, S::Future>,
        bodies: W,
    }
}

pin_project! {
    #[project = StateProject]
    enum State<S, B, F> {
        // The request is decided later, because it waits or because a shared store is asked. Boxed, as is the answer of
        // the layer: most requests are allowed, and frameworks move and box the future of each.
        Deciding { pending: Option<Box<Pending<S, B>>> },
        // The inner service answers.
        Calling { #[pin] future: F, passing: Option<Decided> },
        // The layer answers.
        Answered { response: Option<Box<Response<Bytes>>> },
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

impl<S, B, W> ResponseFuture<S, B, W>
where
    S: Service<Request<B>>,
{
    pub(super) fn later(
        deciding: Pin<Box<dyn Future<Output = Decided> + Send>>,
        request: Request<B>,
        inner: S,
        hooks: Hooks,
        is_grpc: bool,
        bodies: W,
    ) -> Self {
        let pending = Some(Box::new(Pending { deciding, request, inner, hooks, is_grpc }));
        Self { state: State::Deciding { pending }, bodies }
    }

    pub(super) fn decided(
        decided: Decided,
        request: Request<B>,
        inner: &mut S,
        hooks: &Hooks,
        is_grpc: bool,
        bodies: W,
    ) -> Self {
        Self { state: State::decided(decided, request, inner, hooks, is_grpc), bodies }
    }

    /// The inner service has the request already.
    #[inline]
    pub(super) fn allowed(future: S::Future, decided: Decided, bodies: W) -> Self {
        Self { state: State::Calling { future, passing: Some(decided) }, bodies }
    }
}

impl<S, B, F> State<S, B, F>
where
    S: Service<Request<B>, Future = F>,
{
    fn decided(
        decided: Decided,
        mut request: Request<B>,
        inner: &mut S,
        hooks: &Hooks,
        is_grpc: bool,
    ) -> Self {
        if let Some(answer) = &decided.answer {
            let is_marked = answer.kind == AnswerKind::ShadowBanned && hooks.shadow_ban == ShadowBan::Mark;
            if !answer.kind.passes() && !is_marked {
                return Self::answered(answer, decided.headers, hooks, is_grpc);
            }
            request.extensions_mut().insert(RequestAnswer::clone(answer));
        }
        Self::Calling { future: inner.call(request), passing: Some(decided) }
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
        Self::Answered { response: Some(Box::new(response)) }
    }
}

impl<S, B, R, W> Future for ResponseFuture<S, B, W>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Body,
    W: ResponseBodies<R>,
{
    type Output = Result<Response<W::Body>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let (mut state, bodies) = (this.state, this.bodies);
        loop {
            let next = match state.as_mut().project() {
                StateProject::Deciding { pending } => {
                    let waiting = pending.as_mut().expect("a future was polled after it was done");
                    let decided = ready!(waiting.deciding.as_mut().poll(context));
                    let Some(pending) = pending.take() else { unreachable!("it was there above") };
                    let Pending { request, mut inner, hooks, is_grpc, .. } = *pending;
                    State::decided(decided, request, &mut inner, &hooks, is_grpc)
                }
                StateProject::Calling { future, passing } => {
                    let mut response = ready!(future.poll(context))?;
                    let passing = passing.take().expect("a future was polled after it was done");
                    let Decided { answer, headers, slot } = passing;
                    headers.add_to(response.headers_mut());
                    if let Some(answer) = answer {
                        add_mark(*answer, &mut response);
                    }
                    return Poll::Ready(Ok(response.map(|body| bodies.make(LimitedBody::inner(body, slot)))));
                }
                StateProject::Answered { response } => {
                    let response = response.take().expect("a future was polled after it was done");
                    return Poll::Ready(Ok((*response).map(|data| bodies.make(LimitedBody::own(data)))));
                }
            };
            state.set(next);
        }
    }
}

#[cold]
fn add_mark<R>(answer: RequestAnswer, response: &mut Response<R>) {
    // Clients must not notice a dry run or a ban.
    if matches!(answer.kind, AnswerKind::Soft | AnswerKind::OverQuota) {
        response.headers_mut().insert(DECISION, HeaderValue::from_static(answer.kind.as_str()));
    }
    response.extensions_mut().insert(answer);
}

impl<S, B, W> fmt::Debug for ResponseFuture<S, B, W>
where
    S: Service<Request<B>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
