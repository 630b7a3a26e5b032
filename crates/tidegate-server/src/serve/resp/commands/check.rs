//! `TIDEGATE.CHECK domain key value [key value ...] [COST n]`, and `TIDEGATE.PEEK`.
//!
//! The last pair is the cost if its key is `COST`, in any case. So an attribute of that name must not be the last, or
//! must have a cost after it: `TIDEGATE.CHECK api cost high COST 1`.

use std::fmt;

use smallvec::SmallVec;
use tidegate::engine::DecideFuture;
use tidegate::rules::{Answer, Descriptor, Entry, Request};
use tidegate::{DecideOutput, EngineError, Nanos, Timestamp, Wait};

use super::{CommandContext, CommandStep, DeferredReply, StoreAccess};
use crate::serve::resp::Protocol;
use crate::serve::resp::parse::Arguments;
use crate::serve::resp::reply::Replies;
use crate::serve::rounding;

/// Means "never" for a time, and "unlimited" for remaining units.
const NEVER_OR_UNLIMITED: i64 = -1;
/// The seventh element, if there is one.
const DEGRADED_REPLY: &str = "degraded";

/// The arguments of a call.
struct CheckCall<'a> {
    domain: &'a str,
    cost: u64,
}

/// The attributes of a request. Nearly all requests fit without an allocation.
type Entries<'a> = SmallVec<[Entry<'a>; 8]>;

/// What is wrong with a call.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CheckCallError {
    EmptyDomain,
    MissingAttribute,
    MissingValue(String),
    InvalidCost(String),
    NotUtf8 { index: usize },
}

/// `TIDEGATE.CHECK`: decided immediately, or later if a rule delays the request or a shared store is asked.
#[inline]
pub(super) fn check<'s>(arguments: &Arguments<'_>, context: &mut CommandContext<'s, '_>) -> CommandStep<'s> {
    let mut entries = Entries::new();
    let CheckCall { domain, cost } = match parse_call(arguments, &mut entries) {
        Ok(call) => call,
        Err(error) => return reject_call(&error, context),
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
        if let Ok(CheckCall { domain, cost }) = parse_call(&arguments, &mut entries) {
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
    let CheckCall { domain, cost } = match parse_call(arguments, &mut entries) {
        Ok(call) => call,
        Err(error) => return reject_call(&error, context),
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

#[cold]
fn reject_call<'s>(error: &CheckCallError, context: &mut CommandContext<'_, '_>) -> CommandStep<'s> {
    context.replies.error(error);
    context.reject(super::BAD_REQUEST);
    CommandStep::Continue
}

#[inline]
fn write_output(replies: &mut Replies, output: &Result<DecideOutput, EngineError>) {
    match output {
        Ok(output) => write_answer(replies, &output.answer),
        Err(error) => replies.error(format_args!("ERR {error}")),
    }
}

/// Parses a call. Its attributes go to `entries`, which must be empty.
#[inline]
fn parse_call<'a>(
    arguments: &Arguments<'a>,
    entries: &mut Entries<'a>,
) -> Result<CheckCall<'a>, CheckCallError> {
    let texts = arguments.texts();
    let text = |index: usize| texts.get(index).ok_or(CheckCallError::NotUtf8 { index });
    let domain = text(1)?;
    if domain.is_empty() {
        return Err(CheckCallError::EmptyDomain);
    }
    let mut end = arguments.len();
    if end % 2 == 1 {
        return Err(CheckCallError::MissingValue(super::shortened(
            arguments.get(end - 1).unwrap_or_default(),
        )));
    }
    let mut cost = 1;
    if text(end - 2)?.eq_ignore_ascii_case("COST") {
        let number = text(end - 1)?;
        cost =
            number.parse().map_err(|_| CheckCallError::InvalidCost(super::shortened(number.as_bytes())))?;
        end -= 2;
    }
    if end == 2 {
        return Err(CheckCallError::MissingAttribute);
    }
    for index in (2..end).step_by(2) {
        entries.push(Entry { key: text(index)?, value: text(index + 1)? });
    }
    Ok(CheckCall { domain, cost })
}

/// Six elements: decision, remaining, retry_after_ms, reset_after_ms, delay_ms, rule. A seventh if the shared store did
/// not decide.
#[inline]
fn write_answer(replies: &mut Replies, answer: &Answer) {
    let decider = answer.decider();
    replies.start_array(if answer.degraded { 7 } else { 6 });
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
    if answer.degraded {
        replies.bulk(DEGRADED_REPLY.as_bytes());
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

impl fmt::Display for CheckCallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ERR ")?;
        match self {
            Self::EmptyDomain => {
                f.write_str("the domain is empty (hint: use the name after `domain:` in a rules file)")
            }
            Self::MissingAttribute => f.write_str(
                "there is no attribute (hint: TIDEGATE.CHECK domain key value [key value ...] [COST n])",
            ),
            Self::MissingValue(key) => write!(
                f,
                "attribute '{key}' has no value (hint: keys and values come in pairs; a value may be empty)"
            ),
            Self::InvalidCost(text) => write!(
                f,
                "COST '{text}' is not a whole number from 0 to {} (hint: if it is an attribute, add COST 1 after it)",
                u64::MAX
            ),
            Self::NotUtf8 { index } => {
                write!(f, "argument {index} is not UTF-8 (hint: domains and attributes are text)")
            }
        }
    }
}
