//! `TIDEGATE.CHECK domain key value [key value ...] [COST n]`, and `TIDEGATE.PEEK`.

use tidegate::engine::DecideFuture;
use tidegate::rules::{Answer, Descriptor, Request};
use tidegate::{DecideOutput, EngineError, Nanos, Timestamp, Wait};

use super::request_call::{CallForm, Entries, RequestCall};
use super::{CommandContext, CommandStep, DeferredReply, StoreAccess};
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
    let start = app.timing_start();
    let future = app.start_check(&request, start);
    match future.as_now() {
        Some(output) => {
            app.record(Protocol::Resp, &request, output, start);
            write_output(context.replies, output);
            CommandStep::Continue
        }
        None => check_later(context, arguments, future, start),
    }
}

#[cold]
fn check_later<'s>(
    context: &CommandContext<'s, '_>,
    arguments: &Arguments<'_>,
    future: DecideFuture,
    start: Option<Timestamp>,
) -> CommandStep<'s> {
    let (shared, version) = (context.shared, context.replies.version());
    let arguments = arguments.to_owned_arguments();
    let bytes = arguments.bytes();
    let reply = Box::pin(async move {
        let output = future.await;
        let mut replies = Replies::new(version);
        let (arguments, mut entries) = (arguments.as_arguments(), Entries::new());
        // They were parsed before without an error.
        if let Ok(RequestCall { domain, cost, .. }) =
            RequestCall::parse(&arguments, CallForm::CHECK, &mut entries)
        {
            let request = Request { domain, descriptors: &[Descriptor::new(&entries, cost)] };
            shared.app.record(Protocol::Resp, &request, &output, start);
        }
        write_output(&mut replies, &output);
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
            write_output(context.replies, output);
            CommandStep::Continue
        }
        None => {
            let version = context.replies.version();
            let reply = Box::pin(async move {
                let output = future.await;
                app.record_peek(&output);
                let mut replies = Replies::new(version);
                write_output(&mut replies, &output);
                replies
            });
            CommandStep::Later(DeferredReply { access: StoreAccess::Read, reply, bytes: 0 })
        }
    }
}

#[inline]
fn write_output(replies: &mut Replies, output: &Result<DecideOutput, EngineError>) {
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
    replies.bulk(answer.kind.as_str().as_bytes());
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

#[inline]
fn wait_milliseconds(wait: Wait) -> i64 {
    wait.span().map_or(NEVER_OR_UNLIMITED, milliseconds)
}

#[inline]
fn milliseconds(span: Nanos) -> i64 {
    i64::try_from(rounding::ceil_millis(span)).unwrap_or(i64::MAX)
}
