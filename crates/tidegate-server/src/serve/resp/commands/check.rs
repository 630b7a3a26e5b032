//! `TIDEGATE.CHECK domain key value [key value ...] [COST n]`, and `TIDEGATE.PEEK`.

use tidegate::rules::{Answer, AnswerKind, Descriptor, Request};
use tidegate::{DecideOutput, EngineError, Nanos, Wait};

use super::request_call::{CallForm, Entries, RequestCall};
use super::{CommandContext, CommandStep, DeferredReply, StoreAccess};
use crate::serve::app::PendingCheck;
use crate::serve::resp::Protocol;
use crate::serve::resp::parse::Arguments;
use crate::serve::resp::reply::Replies;
use crate::serve::rounding;

/// Means "never" for a time, and "unlimited" for remaining units.
const NEVER_OR_UNLIMITED: i64 = -1;
/// The number of elements that [`write_answer_elements`] writes.
pub(super) const ANSWER_ELEMENTS: usize = 6;
/// The last element of an answer that the shared store did not decide.
const DEGRADED_REPLY: &str = "degraded";
/// The last element of an answer whose charge too few replicas of the shared store have.
const UNREPLICATED_REPLY: &str = "unreplicated";

/// `TIDEGATE.CHECK`: decided immediately, or later if a rule delays the request or a shared store is asked.
#[inline]
pub(super) fn check<'s>(arguments: &Arguments<'_>, context: &mut CommandContext<'s, '_>) -> CommandStep<'s> {
    let mut entries = Entries::new();
    let RequestCall { domain, cost, .. } = match RequestCall::parse(arguments, CallForm::CHECK, &mut entries)
    {
        Ok(call) => call,
        Err(error) => return context.reject_call(&error),
    };
    let app = &context.shared.app;
    let request = Request { domain, descriptors: &[Descriptor::new(&entries, cost)] };
    let replies = &mut *context.replies;
    let decided =
        app.check_with(Protocol::Resp, &request, context.instant, |output| write_output(replies, output));
    match decided {
        Ok(()) => CommandStep::Continue,
        Err(pending) => check_later(context, arguments, pending),
    }
}

#[cold]
fn check_later<'s>(
    context: &CommandContext<'s, '_>,
    arguments: &Arguments<'_>,
    pending: PendingCheck,
) -> CommandStep<'s> {
    let (shared, version) = (context.shared, context.replies.version());
    let arguments = arguments.to_owned_arguments();
    let bytes = arguments.bytes();
    let PendingCheck { future, start } = pending;
    let reply = Box::pin(async move {
        // Parse again afterwards: parsed arguments would make the future much larger.
        let output = future.await;
        let mut replies = Replies::new(version);
        let (arguments, mut entries) = (arguments.as_arguments(), Entries::new());
        // They were parsed before without an error.
        if let Ok(RequestCall { domain, cost, .. }) =
            RequestCall::parse(&arguments, CallForm::CHECK, &mut entries)
        {
            let request = Request { domain, descriptors: &[Descriptor::new(&entries, cost)] };
            shared.app.record(Protocol::Resp, &request, output.as_ref(), start);
        }
        write_output(&mut replies, output.as_ref());
        replies
    });
    CommandStep::Later(DeferredReply { access: StoreAccess::Write, reply, bytes })
}

/// `TIDEGATE.PEEK`.
pub(super) fn peek<'s>(arguments: &Arguments<'_>, context: &mut CommandContext<'s, '_>) -> CommandStep<'s> {
    let mut entries = Entries::new();
    let RequestCall { domain, cost, .. } = match RequestCall::parse(arguments, CallForm::CHECK, &mut entries)
    {
        Ok(call) => call,
        Err(error) => return context.reject_call(&error),
    };
    let request = Request { domain, descriptors: &[Descriptor::new(&entries, cost)] };
    let app = &context.shared.app;
    let future = app.engine.peek(&request);
    match future.as_now() {
        Some(output) => {
            app.record_peek(output);
            write_output(context.replies, output.as_ref());
            CommandStep::Continue
        }
        None => {
            let version = context.replies.version();
            let reply = Box::pin(async move {
                let output = future.await;
                app.record_peek(&output);
                let mut replies = Replies::new(version);
                write_output(&mut replies, output.as_ref());
                replies
            });
            CommandStep::Later(DeferredReply { access: StoreAccess::Read, reply, bytes: 0 })
        }
    }
}

#[inline]
fn write_output(replies: &mut Replies, output: Result<&DecideOutput, &EngineError>) {
    match output {
        Ok(output) => write_answer(replies, &output.answer),
        Err(error) => replies.error(format_args!("ERR {error}")),
    }
}

/// Six elements, and a seventh if the shared store did not decide, or too few of its replicas have the charge.
#[inline]
fn write_answer(replies: &mut Replies, answer: &Answer) {
    let mark = mark(answer);
    replies.start_array(ANSWER_ELEMENTS + usize::from(mark.is_some()));
    write_answer_elements(replies, answer);
    if let Some(mark) = mark {
        replies.bulk(mark.as_bytes());
    }
}

/// The last element of an answer that the shared store did not decide, or that too few of its replicas have.
#[inline]
pub(super) fn mark(answer: &Answer) -> Option<&'static str> {
    match (answer.degraded, answer.unreplicated) {
        (false, false) => None,
        (true, _) => Some(DEGRADED_REPLY),
        (false, true) => Some(UNREPLICATED_REPLY),
    }
}

/// Six elements: decision, remaining, retry_after_ms, reset_after_ms, delay_ms, rule.
#[inline]
pub(super) fn write_answer_elements(replies: &mut Replies, answer: &Answer) {
    let decider = answer.decider();
    replies.encoded(encoded_kind(answer.kind));
    replies.integer(match decider {
        Some(_) => i64::try_from(answer.remaining).unwrap_or(i64::MAX),
        None => NEVER_OR_UNLIMITED,
    });
    replies.integer(wait_milliseconds(answer.retry_after));
    replies.integer(milliseconds(answer.reset_after));
    replies.integer(milliseconds(answer.delay));
    match decider {
        Some(limit) => replies.bulk(limit.rule.name.as_bytes()),
        None => replies.null(),
    }
}

/// The name of a kind as a bulk string.
#[inline]
fn encoded_kind(kind: AnswerKind) -> &'static [u8] {
    match kind {
        AnswerKind::Allowed => b"$7\r\nallowed\r\n",
        AnswerKind::Denied => b"$6\r\ndenied\r\n",
        AnswerKind::ShadowDenied => b"$13\r\nshadow_denied\r\n",
        AnswerKind::OverQuota => b"$10\r\nover_quota\r\n",
        AnswerKind::Soft => b"$4\r\nsoft\r\n",
        AnswerKind::Delayed => b"$7\r\ndelayed\r\n",
        AnswerKind::ShadowBanned => b"$13\r\nshadow_banned\r\n",
        _ => b"$11\r\nunavailable\r\n",
    }
}

#[inline]
fn wait_milliseconds(wait: Wait) -> i64 {
    wait.span().map_or(NEVER_OR_UNLIMITED, milliseconds)
}

#[inline]
fn milliseconds(span: Nanos) -> i64 {
    // Most waits are zero, and a division is slow.
    if span == Nanos::ZERO {
        return 0;
    }
    i64::try_from(rounding::ceil_millis(span)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::metrics::ANSWER_KINDS;

    #[test]
    fn kinds_are_encoded_as_bulk_strings() {
        for kind in ANSWER_KINDS {
            let mut replies = Replies::default();
            replies.bulk(kind.as_str().as_bytes());
            assert_eq!(replies.bytes(), encoded_kind(kind), "{kind:?}");
        }
    }
}
