//! `TIDEGATE.CHECK domain key value [key value ...] [COST n]`, and `TIDEGATE.PEEK`.
//!
//! The last pair is the cost if its key is `COST`, in any case. So an attribute of that name is not the last, or has a
//! cost behind it: `TIDEGATE.CHECK api cost high COST 1`.

use std::fmt;

use smallvec::SmallVec;
use tidegate::engine::Deciding;
use tidegate::rules::{Answer, Descriptor, Entry, Request};
use tidegate::{Decided, EngineError, Nanos, Timestamp, Wait};

use super::{Asks, Context, Later, Step};
use crate::serve::resp::Protocol;
use crate::serve::resp::parse::Arguments;
use crate::serve::resp::reply::Replies;
use crate::serve::rounded;

/// "Never", and "as much as you like".
const NONE: i64 = -1;
/// What the seventh answer is, if there is one.
const DEGRADED: &str = "degraded";

/// What is asked.
struct Asked<'a> {
    domain: &'a str,
    cost: u64,
}

/// The attributes of a request. Those of nearly all requests fit without an allocation.
type Entries<'a> = SmallVec<[Entry<'a>; 8]>;

/// What is wrong with a call.
#[derive(Clone, Debug, PartialEq, Eq)]
enum BadCall {
    EmptyDomain,
    NoAttribute,
    NoValue(String),
    NoCost(String),
    NoText { place: usize },
}

/// `TIDEGATE.CHECK`: decided at once, or later if a rule holds the request or a shared store is asked.
#[inline]
pub(super) fn check<'s>(arguments: &Arguments<'_>, context: &mut Context<'s, '_>) -> Step<'s> {
    let mut entries = Entries::new();
    let Asked { domain, cost } = match asked(arguments, &mut entries) {
        Ok(asked) => asked,
        Err(bad) => return refuse(&bad, context),
    };
    let app = &context.server.app;
    let request = Request { domain, descriptors: &[Descriptor::new(&entries, cost)] };
    let asked_at = app.asked_at();
    let deciding = app.start_check(&request, asked_at);
    match deciding.as_now() {
        Some(decided) => {
            app.note(Protocol::Resp, &request, decided, asked_at);
            write_decided(context.replies, decided);
            Step::Next
        }
        None => check_later(context, arguments, deciding, asked_at),
    }
}

#[cold]
fn check_later<'s>(
    context: &Context<'s, '_>,
    arguments: &Arguments<'_>,
    deciding: Deciding,
    asked_at: Option<Timestamp>,
) -> Step<'s> {
    let (server, kept, version) = (context.server, arguments.kept(), context.replies.version());
    let bytes = kept.bytes();
    let answering = Box::pin(async move {
        let decided = deciding.await;
        let mut replies = Replies::new(version);
        let (arguments, mut entries) = (kept.lent(), Entries::new());
        // They were read before without an error.
        if let Ok(Asked { domain, cost }) = asked(&arguments, &mut entries) {
            let request = Request { domain, descriptors: &[Descriptor::new(&entries, cost)] };
            server.app.note(Protocol::Resp, &request, &decided, asked_at);
        }
        write_decided(&mut replies, &decided);
        replies
    });
    Step::Later(Later { asks: Asks::Charges, answering, bytes })
}

/// `TIDEGATE.PEEK`.
pub(super) fn peek<'s>(arguments: &Arguments<'_>, context: &mut Context<'s, '_>) -> Step<'s> {
    let mut entries = Entries::new();
    let Asked { domain, cost } = match asked(arguments, &mut entries) {
        Ok(asked) => asked,
        Err(bad) => return refuse(&bad, context),
    };
    let request = Request { domain, descriptors: &[Descriptor::new(&entries, cost)] };
    let server = context.server;
    let peeking = server.app.engine.peek(&request);
    match peeking.as_now() {
        Some(peeked) => {
            server.app.note_peek(peeked);
            write_decided(context.replies, peeked);
            Step::Next
        }
        None => {
            let version = context.replies.version();
            let answering = Box::pin(async move {
                let peeked = peeking.await;
                server.app.note_peek(&peeked);
                let mut replies = Replies::new(version);
                write_decided(&mut replies, &peeked);
                replies
            });
            Step::Later(Later { asks: Asks::Looks, answering, bytes: 0 })
        }
    }
}

#[cold]
fn refuse<'s>(bad: &BadCall, context: &mut Context<'_, '_>) -> Step<'s> {
    context.replies.error(bad);
    context.reject(super::BAD_CALL);
    Step::Next
}

#[inline]
fn write_decided(replies: &mut Replies, decided: &Result<Decided, EngineError>) {
    match decided {
        Ok(decided) => write_answer(replies, &decided.answer),
        Err(error) => replies.error(format_args!("ERR {error}")),
    }
}

/// Reads a call; its attributes go to `entries`, which is empty.
#[inline]
fn asked<'a>(arguments: &Arguments<'a>, entries: &mut Entries<'a>) -> Result<Asked<'a>, BadCall> {
    let texts = arguments.texts();
    let text = |place: usize| texts.get(place).ok_or(BadCall::NoText { place });
    let domain = text(1)?;
    if domain.is_empty() {
        return Err(BadCall::EmptyDomain);
    }
    let mut end = arguments.len();
    if end % 2 == 1 {
        return Err(BadCall::NoValue(super::shortened(arguments.get(end - 1).unwrap_or_default())));
    }
    let mut cost = 1;
    if text(end - 2)?.eq_ignore_ascii_case("COST") {
        let written = text(end - 1)?;
        cost = written.parse().map_err(|_| BadCall::NoCost(super::shortened(written.as_bytes())))?;
        end -= 2;
    }
    if end == 2 {
        return Err(BadCall::NoAttribute);
    }
    for place in (2..end).step_by(2) {
        entries.push(Entry { key: text(place)?, value: text(place + 1)? });
    }
    Ok(Asked { domain, cost })
}

/// Six answers: decision, remaining, retry_after_ms, reset_after_ms, delay_ms, rule; and a seventh if it was decided without
/// the store that a fleet shares.
#[inline]
fn write_answer(replies: &mut Replies, answer: &Answer) {
    let decider = answer.decider();
    replies.array(if answer.degraded { 7 } else { 6 });
    replies.bulk(answer.fate.as_str().as_bytes());
    replies.integer(match decider {
        Some(_) => i64::try_from(answer.remaining).unwrap_or(i64::MAX),
        None => NONE,
    });
    replies.integer(wait_milliseconds(answer.retry_after));
    replies.integer(milliseconds(answer.reset_after));
    replies.integer(milliseconds(answer.delay));
    match decider {
        Some(limit) => replies.bulk(limit.rule.name.as_bytes()),
        None => replies.null(),
    }
    if answer.degraded {
        replies.bulk(DEGRADED.as_bytes());
    }
}

#[inline]
fn wait_milliseconds(wait: Wait) -> i64 {
    wait.span().map_or(NONE, milliseconds)
}

#[inline]
fn milliseconds(span: Nanos) -> i64 {
    i64::try_from(rounded::millis(span)).unwrap_or(i64::MAX)
}

impl fmt::Display for BadCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ERR ")?;
        match self {
            Self::EmptyDomain => {
                f.write_str("the domain is empty (hint: the name after `domain:` in a rules file)")
            }
            Self::NoAttribute => f.write_str(
                "there is no attribute (hint: TIDEGATE.CHECK domain key value [key value ...] [COST n])",
            ),
            Self::NoValue(key) => write!(
                f,
                "attribute '{key}' has no value (hint: keys and values come in pairs; a value may be empty)"
            ),
            Self::NoCost(text) => write!(
                f,
                "COST '{text}' is no whole number from 0 to {} (hint: if it is an attribute, add COST 1 behind it)",
                u64::MAX
            ),
            Self::NoText { place } => {
                write!(f, "argument {place} is not UTF-8 (hint: domains and attributes are text)")
            }
        }
    }
}
