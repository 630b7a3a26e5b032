//! `TIDEGATE.CHECK domain key value [key value ...] [COST n]`, and `TIDEGATE.PEEK`.
//!
//! The last pair is the cost if its key is `COST`, in any case. So an attribute of that name is not the last, or has a
//! cost behind it: `TIDEGATE.CHECK api cost high COST 1`.

use std::fmt;

use smallvec::SmallVec;
use tidegate::engine::DecideFuture;
use tidegate::rules::{Answer, Descriptor, Entry, Request};
use tidegate::{DecideOutput, EngineError, Nanos, Timestamp, Wait};

use super::{StoreAccess, CommandContext, DeferredReply, CommandStep};
use crate::serve::resp::Protocol;
use crate::serve::resp::parse::Arguments;
use crate::serve::resp::reply::Replies;
use crate::serve::rounded;

/// "Never", and "as much as you like".
const NEVER_OR_UNLIMITED: i64 = -1;
/// What the seventh answer is, if there is one.
const DEGRADED_REPLY: &str = "degraded";

/// What is asked.
struct CheckCall<'a> {
    domain: &'a str,
    cost: u64,
}

/// The attributes of a request. Those of nearly all requests fit without an allocation.
type Entries<'a> = SmallVec<[Entry<'a>; 8]>;

/// What is wrong with a call.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CheckCallError {
    EmptyDomain,
    MissingAttribute,
    MissingValue(String),
    InvalidCost(String),
    NotUtf8 { place: usize },
}

/// `TIDEGATE.CHECK`: decided at once, or later if a rule holds the request or a shared store is asked.
#[inline]
pub(super) fn check<'s>(arguments: &Arguments<'_>, context: &mut CommandContext<'s, '_>) -> CommandStep<'s> {
    let mut entries = Entries::new();
    let CheckCall { domain, cost } = match parse_call(arguments, &mut entries) {
        Ok(asked) => asked,
        Err(bad) => return reject_call(&bad, context),
    };
    let app = &context.shared.app;
    let request = Request { domain, descriptors: &[Descriptor::new(&entries, cost)] };
    let asked_at = app.timing_start();
    let deciding = app.start_check(&request, asked_at);
    match deciding.as_now() {
        Some(decided) => {
            app.record(Protocol::Resp, &request, decided, asked_at);
            write_decided(context.replies, decided);
            CommandStep::Continue
        }
        None => check_later(context, arguments, deciding, asked_at),
    }
}

#[cold]
fn check_later<'s>(
    context: &CommandContext<'s, '_>,
    arguments: &Arguments<'_>,
    deciding: DecideFuture,
    asked_at: Option<Timestamp>,
) -> CommandStep<'s> {
    let (server, kept, version) = (context.shared, arguments.to_owned_arguments(), context.replies.version());
    let bytes = kept.bytes();
    let answering = Box::pin(async move {
        let decided = deciding.await;
        let mut replies = Replies::new(version);
        let (arguments, mut entries) = (kept.as_arguments(), Entries::new());
        // They were read before without an error.
        if let Ok(CheckCall { domain, cost }) = parse_call(&arguments, &mut entries) {
            let request = Request { domain, descriptors: &[Descriptor::new(&entries, cost)] };
            server.app.record(Protocol::Resp, &request, &decided, asked_at);
        }
        write_decided(&mut replies, &decided);
        replies
    });
    CommandStep::Later(DeferredReply { access: StoreAccess::Write, reply: answering, bytes })
}

/// `TIDEGATE.PEEK`.
pub(super) fn peek<'s>(arguments: &Arguments<'_>, context: &mut CommandContext<'s, '_>) -> CommandStep<'s> {
    let mut entries = Entries::new();
    let CheckCall { domain, cost } = match parse_call(arguments, &mut entries) {
        Ok(asked) => asked,
        Err(bad) => return reject_call(&bad, context),
    };
    let request = Request { domain, descriptors: &[Descriptor::new(&entries, cost)] };
    let server = context.shared;
    let peeking = server.app.engine.peek(&request);
    match peeking.as_now() {
        Some(peeked) => {
            server.app.record_peek(peeked);
            write_decided(context.replies, peeked);
            CommandStep::Continue
        }
        None => {
            let version = context.replies.version();
            let answering = Box::pin(async move {
                let peeked = peeking.await;
                server.app.record_peek(&peeked);
                let mut replies = Replies::new(version);
                write_decided(&mut replies, &peeked);
                replies
            });
            CommandStep::Later(DeferredReply { access: StoreAccess::Read, reply: answering, bytes: 0 })
        }
    }
}

#[cold]
fn reject_call<'s>(bad: &CheckCallError, context: &mut CommandContext<'_, '_>) -> CommandStep<'s> {
    context.replies.error(bad);
    context.reject(super::BAD_REQUEST);
    CommandStep::Continue
}

#[inline]
fn write_decided(replies: &mut Replies, decided: &Result<DecideOutput, EngineError>) {
    match decided {
        Ok(decided) => write_answer(replies, &decided.answer),
        Err(error) => replies.error(format_args!("ERR {error}")),
    }
}

/// Reads a call; its attributes go to `entries`, which is empty.
#[inline]
fn parse_call<'a>(arguments: &Arguments<'a>, entries: &mut Entries<'a>) -> Result<CheckCall<'a>, CheckCallError> {
    let texts = arguments.texts();
    let text = |place: usize| texts.get(place).ok_or(CheckCallError::NotUtf8 { place });
    let domain = text(1)?;
    if domain.is_empty() {
        return Err(CheckCallError::EmptyDomain);
    }
    let mut end = arguments.len();
    if end % 2 == 1 {
        return Err(CheckCallError::MissingValue(super::shortened(arguments.get(end - 1).unwrap_or_default())));
    }
    let mut cost = 1;
    if text(end - 2)?.eq_ignore_ascii_case("COST") {
        let written = text(end - 1)?;
        cost = written.parse().map_err(|_| CheckCallError::InvalidCost(super::shortened(written.as_bytes())))?;
        end -= 2;
    }
    if end == 2 {
        return Err(CheckCallError::MissingAttribute);
    }
    for place in (2..end).step_by(2) {
        entries.push(Entry { key: text(place)?, value: text(place + 1)? });
    }
    Ok(CheckCall { domain, cost })
}

/// Six answers: decision, remaining, retry_after_ms, reset_after_ms, delay_ms, rule; and a seventh if it was decided without
/// the store that a fleet shares.
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
    i64::try_from(rounded::ceil_millis(span)).unwrap_or(i64::MAX)
}

impl fmt::Display for CheckCallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ERR ")?;
        match self {
            Self::EmptyDomain => {
                f.write_str("the domain is empty (hint: the name after `domain:` in a rules file)")
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
                "COST '{text}' is no whole number from 0 to {} (hint: if it is an attribute, add COST 1 behind it)",
                u64::MAX
            ),
            Self::NotUtf8 { place } => {
                write!(f, "argument {place} is not UTF-8 (hint: domains and attributes are text)")
            }
        }
    }
}
