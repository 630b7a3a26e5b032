//! `TIDEGATE.ACQUIRE`, `TIDEGATE.RENEW`, `TIDEGATE.RELEASE`: leases of concurrency limits. `TIDEGATE.REFUND`: for
//! connections that have shown the admin token.

use std::task::{Context, Poll, Waker};

use tidegate::rules::{Descriptor, Request};
use tidegate::{Clock as _, EngineError, Lease, Release, Renewal, Timestamp};

use super::check::{ANSWER_ELEMENTS, mark, write_answer_elements};
use super::request_call::{CallError, CallForm, Entries, RequestCall, parse_token};
use super::{BAD_REQUEST, CommandContext, CommandStep, DeferredReply, StoreAccess};
use crate::serve::matched_counts::MatchedCounts;
use crate::serve::resp::RespShared;
use crate::serve::resp::in_flight::ReplyFuture;
use crate::serve::resp::parse::{Arguments, OwnedArguments};
use crate::serve::resp::reply::{Replies, RespVersion};
use crate::serve::resp::session::User;
use crate::serve::rounding::MILLI_NS;
use crate::serve::{App, Protocol};

/// The number of elements of a lease: token, fence, expires_in_ms.
const LEASE_ELEMENTS: usize = 3;

/// A call that owns its arguments, because it may be answered later.
struct OwnedCall<'s> {
    shared: &'s RespShared,
    arguments: OwnedArguments,
    version: RespVersion,
}

/// Why a call is answered with an error.
enum Failure {
    Call(CallError),
    Engine(EngineError),
    /// The domain of a refund has no rules.
    UnknownDomain(String),
}

pub(super) fn acquire<'s>(
    arguments: &Arguments<'_>,
    context: &mut CommandContext<'s, '_>,
) -> CommandStep<'s> {
    let call = OwnedCall::new(arguments, context);
    call_now_or_later(context, arguments, StoreAccess::Write, Box::pin(call.acquire()))
}

pub(super) fn renew<'s>(arguments: &Arguments<'_>, context: &mut CommandContext<'s, '_>) -> CommandStep<'s> {
    let call = OwnedCall::new(arguments, context);
    call_now_or_later(context, arguments, StoreAccess::Write, Box::pin(call.renew()))
}

pub(super) fn release<'s>(
    arguments: &Arguments<'_>,
    context: &mut CommandContext<'s, '_>,
) -> CommandStep<'s> {
    let call = OwnedCall::new(arguments, context);
    call_now_or_later(context, arguments, StoreAccess::Release, Box::pin(call.release()))
}

pub(super) fn refund<'s>(arguments: &Arguments<'_>, context: &mut CommandContext<'s, '_>) -> CommandStep<'s> {
    if context.session.user != User::Admin {
        context.replies.error(match context.shared.secrets.admin_token {
            Some(_) => "NOPERM TIDEGATE.REFUND needs the admin token (hint: AUTH admin TOKEN)",
            None => "NOPERM TIDEGATE.REFUND needs the admin token, and none is set (hint: set --admin-token)",
        });
        context.reject("unauthenticated");
        return CommandStep::Continue;
    }
    let call = OwnedCall::new(arguments, context);
    call_now_or_later(context, arguments, StoreAccess::Release, Box::pin(call.refund()))
}

/// Starts a call now, so that it comes before later commands. In memory this also answers it.
fn call_now_or_later<'s>(
    context: &mut CommandContext<'_, '_>,
    arguments: &Arguments<'_>,
    access: StoreAccess,
    mut reply: ReplyFuture<'s>,
) -> CommandStep<'s> {
    match reply.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(mut replies) => {
            context.replies.append(&mut replies);
            CommandStep::Continue
        }
        Poll::Pending => {
            let bytes = arguments.iter().map(<[u8]>::len).sum();
            CommandStep::Later(DeferredReply { access, reply, bytes })
        }
    }
}

impl<'s> OwnedCall<'s> {
    fn new(arguments: &Arguments<'_>, context: &CommandContext<'s, '_>) -> Self {
        let arguments = arguments.to_owned_arguments();
        Self { shared: context.shared, arguments, version: context.replies.version() }
    }

    async fn acquire(self) -> Replies {
        let (app, arguments) = (&self.shared.app, self.arguments.as_arguments());
        let mut entries = Entries::new();
        let acquired = async {
            let call = RequestCall::parse(&arguments, CallForm::ACQUIRE, &mut entries)?;
            let descriptors = [Descriptor::new(&entries, call.cost)];
            let request = Request { domain: call.domain, descriptors: &descriptors };
            Ok(app.acquire(Protocol::Resp, &request, call.ttl).await?)
        };
        let acquired = acquired.await;
        self.reply(acquired, |replies, output| {
            let mark = mark(&output.answer);
            replies.start_array(ANSWER_ELEMENTS + LEASE_ELEMENTS + usize::from(mark.is_some()));
            write_answer_elements(replies, &output.answer);
            write_lease(replies, output.lease.as_ref(), app);
            if let Some(mark) = mark {
                replies.bulk(mark.as_bytes());
            }
        })
    }

    async fn renew(self) -> Replies {
        let (app, arguments) = (&self.shared.app, self.arguments.as_arguments());
        let mut entries = Entries::new();
        let renewed = async {
            let token = parse_token(&arguments)?;
            let call = RequestCall::parse(&arguments, CallForm::RENEW, &mut entries)?;
            let descriptors = [Descriptor::new(&entries, call.cost)];
            let request = Request { domain: call.domain, descriptors: &descriptors };
            Ok(app.renew(&request, &token, call.ttl).await?)
        };
        let renewed = renewed.await;
        self.reply(renewed, |replies, renewal| {
            replies.start_array(1 + LEASE_ELEMENTS);
            replies.bulk(renewal.as_str().as_bytes());
            let lease = match &renewal {
                Renewal::Renewed(lease) => Some(lease),
                _ => None,
            };
            write_lease(replies, lease, app);
        })
    }

    async fn release(self) -> Replies {
        let (app, arguments) = (&self.shared.app, self.arguments.as_arguments());
        let mut entries = Entries::new();
        let released = async {
            let token = parse_token(&arguments)?;
            let call = RequestCall::parse(&arguments, CallForm::RELEASE, &mut entries)?;
            let descriptors = [Descriptor::new(&entries, call.cost)];
            let request = Request { domain: call.domain, descriptors: &descriptors };
            Ok(app.release(&request, &token).await?)
        };
        let released: Result<Release, Failure> = released.await;
        self.reply(released, |replies, release| replies.bulk(release.as_str().as_bytes()))
    }

    async fn refund(self) -> Replies {
        let (app, arguments) = (&self.shared.app, self.arguments.as_arguments());
        let mut entries = Entries::new();
        let refunded = async {
            let call = RequestCall::parse(&arguments, CallForm::REFUND, &mut entries)?;
            let descriptors = [Descriptor::new(&entries, call.cost)];
            let request = Request { domain: call.domain, descriptors: &descriptors };
            let Some(matched) = MatchedCounts::of(app, &request) else {
                return Err(Failure::UnknownDomain(super::shortened(call.domain.as_bytes())));
            };
            let matched = matched.map_err(EngineError::from)?;
            app.refund(&request).await?;
            Ok(matched)
        };
        let refunded: Result<MatchedCounts, Failure> = refunded.await;
        self.reply(refunded, |replies, matched| {
            replies.start_array(3);
            replies.bulk(matched.refund_result().as_bytes());
            replies.integer(i64::try_from(matched.rates).unwrap_or(i64::MAX));
            replies.integer(i64::try_from(matched.concurrency).unwrap_or(i64::MAX));
        })
    }

    /// The reply to a result, or the error.
    fn reply<T>(&self, result: Result<T, Failure>, write: impl FnOnce(&mut Replies, T)) -> Replies {
        let mut replies = Replies::new(self.version);
        match result {
            Ok(result) => write(&mut replies, result),
            Err(Failure::Call(error)) => {
                replies.error(error);
                self.shared.app.metrics.count_rejected_request(Protocol::Resp, BAD_REQUEST);
            }
            Err(Failure::Engine(error)) => replies.error(format_args!("ERR {error}")),
            Err(Failure::UnknownDomain(domain)) => {
                replies.error(format_args!(
                    "ERR the domain '{domain}' has no rules (hint: use the name after `domain:` in a rules file)"
                ));
            }
        }
        replies
    }
}

/// Three elements: token, fence, expires_in_ms. All are null without a lease. The time is rounded down, so that holders
/// do not rely on more.
fn write_lease(replies: &mut Replies, lease: Option<&Lease>, app: &App) {
    let Some(lease) = lease else { return (0..LEASE_ELEMENTS).for_each(|_| replies.null()) };
    let now: Timestamp = app.engine.clock().now();
    let left_ms = lease.expires.as_nanos().saturating_sub(now.as_nanos()) / MILLI_NS;
    replies.bulk(lease.token.to_string().as_bytes());
    replies.integer(i64::try_from(lease.fence.get()).unwrap_or(i64::MAX));
    replies.integer(i64::try_from(left_ms).unwrap_or(i64::MAX));
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}
