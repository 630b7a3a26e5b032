//! `CL.THROTTLE key max_burst count period [quantity]`: the command of redis-cell, as that answers it.
//!
//! A key has one arrival time, whatever it is asked with. It is decided in the exact integers of the core, so rates that
//! redis-cell is too coarse for, below a microsecond for each unit, are enforced too.

use std::fmt;
use std::sync::Arc;

use tidegate::engine::ChargeResponse;
use tidegate::{MemoryStore, store};
use tidegate_core::{
    Charge, Counter, Decision, LimitSpec, Nanos, Op, Timestamp, UNITS_MAX, OutcomeKind, WINDOW_NS_MAX,
};

use super::{StoreAccess, CommandContext, DeferredReply, CommandStep};
use crate::serve::resp::RespShared;
use crate::serve::resp::parse::Arguments;
use crate::serve::resp::reply::{Replies, RespVersion};
use crate::serve::rounded::{MILLI_NS, SECOND_NS};

/// What the counters of all calls are known by. No rule has a control character in its name.
const COUNTER_NAME: &str = "\u{1f}cl.throttle";
/// Rates that a connection remembers.
const CACHED_RATES_MAX: usize = 4;

/// The limit that a call comes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// What may come at once after a first unit.
    pub max_burst: i64,
    /// Units per period.
    pub count: i64,
    /// In seconds.
    pub period: i64,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThrottleAnswer {
    /// Whether it passes.
    pub verdict: OutcomeKind,
    /// All that may come at once.
    pub limit: i64,
    /// What of it is left.
    pub remaining: i64,
    /// Seconds until it would pass; -1 if it does, or never would.
    pub retry_after_seconds: i64,
    /// Seconds until all of it is there again.
    pub reset_after_seconds: i64,
}

/// What is wrong with a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ThrottleError {
    /// A count or a period of zero.
    ZeroRate,
    /// A number is out of range.
    OutOfRange {
        /// Which one.
        what: &'static str,
        /// The least it can be.
        least: i64,
        /// The most it can be.
        most: i64,
    },
    /// It is no number.
    NotAnInteger(String),
    /// There are too few arguments, or too many.
    Usage,
}

/// The rates that were asked with last, ready to be asked again.
#[derive(Debug, Default)]
pub struct ThrottleCache {
    cached: [Option<CachedRate>; CACHED_RATES_MAX],
    /// Which of them gives way to the next one.
    oldest: usize,
}

#[derive(Debug)]
struct CachedRate {
    quota: Quota,
    /// Shared with calls that are answered later.
    counter: Arc<Counter>,
}

/// `CL.THROTTLE`: decided at once, or later if a shared store is asked.
#[inline]
pub(super) fn run<'s>(arguments: &Arguments<'_>, context: &mut CommandContext<'s, '_>) -> CommandStep<'s> {
    let asked = parse_call(arguments).and_then(|call| {
        let (counter, cost) = (context.session.throttle_cache.counter(call.quota)?, cost(call.quantity)?);
        Ok((call, counter, cost))
    });
    let (ThrottleCall { key, quota, .. }, counter, cost) = match asked {
        Ok(asked) => asked,
        Err(bad) => {
            context.replies.error(bad);
            context.reject(super::BAD_REQUEST);
            return CommandStep::Continue;
        }
    };
    let server = context.shared;
    match server.app.engine.start_charge(&Charge::new(key, counter, cost), Op::Check) {
        ChargeResponse::Now(checked) => {
            let answer = ThrottleAnswer::from_decision(&server.app.record_single(checked), quota);
            context.decisions.add(answer.verdict);
            answer.write(context.replies);
            CommandStep::Continue
        }
        ChargeResponse::Later(later) => {
            let (counter, key, version) = (Arc::clone(counter), Box::from(key), context.replies.version());
            answer_later(server, DeferredThrottle { key, counter, cost, quota }, later, version)
        }
    }
}

/// What was asked, once it is answered later.
struct DeferredThrottle {
    key: Box<[u8]>,
    counter: Arc<Counter>,
    cost: u64,
    quota: Quota,
}

fn answer_later(server: &RespShared, asked: DeferredThrottle, reply: store::ReplyFuture, version: RespVersion) -> CommandStep<'_> {
    let bytes = asked.key.len();
    let answering = Box::pin(async move {
        let reply = reply.await;
        let DeferredThrottle { key, counter, cost, quota } = asked;
        let checked = server.app.engine.finish_charge(&Charge::new(&key, &counter, cost), Op::Check, reply);
        let answer = ThrottleAnswer::from_decision(&server.app.record_single(checked), quota);
        server.app.metrics.count_throttled(answer.verdict, 1);
        let mut replies = Replies::new(version);
        answer.write(&mut replies);
        replies
    });
    CommandStep::Later(DeferredReply { access: StoreAccess::Write, reply: answering, bytes })
}

impl ThrottleAnswer {
    #[inline]
    fn from_decision(decision: &Decision, quota: Quota) -> Self {
        Self {
            verdict: decision.kind,
            limit: quota.max_burst + 1,
            remaining: i64::try_from(decision.remaining).unwrap_or(i64::MAX),
            retry_after_seconds: match (decision.kind, decision.retry_after.span()) {
                (OutcomeKind::Denied, Some(span)) => redis_cell_seconds(span),
                _ => -1,
            },
            reset_after_seconds: redis_cell_seconds(decision.reset_after),
        }
    }

    #[inline]
    fn write(self, replies: &mut Replies) {
        replies.start_array(5);
        replies.integer(i64::from(self.verdict == OutcomeKind::Denied));
        replies.integer(self.limit);
        replies.integer(self.remaining);
        replies.integer(self.retry_after_seconds);
        replies.integer(self.reset_after_seconds);
    }
}

#[inline]
fn cost(quantity: i64) -> Result<u64, ThrottleError> {
    u64::try_from(quantity).map_err(|_| ThrottleError::OutOfRange {
        what: "quantity",
        least: 0,
        most: i64::MAX,
    })
}

/// What is asked.
struct ThrottleCall<'a> {
    key: &'a [u8],
    quota: Quota,
    quantity: i64,
}

#[inline]
fn parse_call<'a>(arguments: &Arguments<'a>) -> Result<ThrottleCall<'a>, ThrottleError> {
    let number = |place| {
        let argument = arguments.get(place).ok_or(ThrottleError::Usage)?;
        parse_integer(argument).ok_or_else(|| ThrottleError::NotAnInteger(super::shortened(argument)))
    };
    if !(5..=6).contains(&arguments.len()) {
        return Err(ThrottleError::Usage);
    }
    let key = arguments.get(1).ok_or(ThrottleError::Usage)?;
    let quota = Quota { max_burst: number(2)?, count: number(3)?, period: number(4)? };
    let quantity = if arguments.len() == 6 { number(5)? } else { 1 };
    Ok(ThrottleCall { key, quota, quantity })
}

impl ThrottleCache {
    /// Asks for so many units of a key, at this instant; none asks what is left.
    #[inline]
    pub fn throttle(
        &mut self,
        store: &MemoryStore,
        now: Timestamp,
        key: &[u8],
        quota: Quota,
        quantity: i64,
    ) -> Result<ThrottleAnswer, ThrottleError> {
        let counter = self.counter(quota)?;
        let cost = cost(quantity)?;
        let outcome = store.check_one(&Charge::new(key, counter, cost), now);
        Ok(ThrottleAnswer::from_decision(&outcome, quota))
    }

    #[inline]
    fn counter(&mut self, quota: Quota) -> Result<&Arc<Counter>, ThrottleError> {
        let same = |held: &Option<CachedRate>| held.as_ref().is_some_and(|held| held.quota == quota);
        let place = match self.cached.iter().position(same) {
            Some(place) => place,
            None => self.insert(quota)?,
        };
        self.cached[place].as_ref().map(|held| &held.counter).ok_or(ThrottleError::ZeroRate)
    }

    #[cold]
    fn insert(&mut self, quota: Quota) -> Result<usize, ThrottleError> {
        let counter = Arc::new(quota.counter()?);
        let place = self.oldest;
        self.cached[place] = Some(CachedRate { quota, counter });
        self.oldest = (place + 1) % CACHED_RATES_MAX;
        Ok(place)
    }
}

impl Quota {
    /// Limits in the core's range are all that redis-cell can tell apart, and more.
    fn counter(self) -> Result<Counter, ThrottleError> {
        if self.count == 0 || self.period == 0 {
            return Err(ThrottleError::ZeroRate);
        }
        let units_max = i64::try_from(UNITS_MAX).unwrap_or(i64::MAX);
        let seconds_max = i64::try_from(WINDOW_NS_MAX / SECOND_NS).unwrap_or(i64::MAX);
        let within = |what, number, least: i64, most: i64| match u64::try_from(number) {
            Ok(units) if (least..=most).contains(&number) => Ok(units),
            _ => Err(ThrottleError::OutOfRange { what, least, most }),
        };
        let max_burst = within("max_burst", self.max_burst, 0, units_max - 1)?;
        let count = within("count", self.count, 1, units_max)?;
        let period = within("period", self.period, 1, seconds_max)?;
        let spec = LimitSpec::new(count, period * SECOND_NS);
        let limit = LimitSpec { burst: Some(max_burst + 1), ..spec }.build();
        // All of it is in range, and gcra is what a limit is by default.
        limit.ok().and_then(|limit| Counter::shared_gcra(COUNTER_NAME, limit)).ok_or(ThrottleError::ZeroRate)
    }
}

/// As redis-cell rounds: up, but for what is less than a millisecond past a whole second.
#[inline]
fn redis_cell_seconds(span: Nanos) -> i64 {
    let (whole, nanos) = match u64::try_from(span.get()) {
        Ok(nanos) => (u128::from(nanos / SECOND_NS), u128::from(nanos % SECOND_NS)),
        Err(_) => (span.get() / u128::from(SECOND_NS), span.get() % u128::from(SECOND_NS)),
    };
    let seconds = whole + u128::from(nanos >= u128::from(MILLI_NS));
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

/// A whole number, as Rust reads it and with it redis-cell: with a sign or zeros in front, if need be.
#[inline]
pub(super) fn parse_integer(bytes: &[u8]) -> Option<i64> {
    /// So many digits are a number, whatever they are.
    const SURE_DIGITS_MAX: usize = 18;
    let digits = |bytes: &[u8]| {
        bytes.iter().try_fold(0, |number: i64, byte| {
            byte.is_ascii_digit().then(|| number * 10 + i64::from(byte - b'0'))
        })
    };
    match bytes.len() {
        1..=SURE_DIGITS_MAX => digits(bytes).or_else(|| str::from_utf8(bytes).ok()?.parse().ok()),
        _ => str::from_utf8(bytes).ok()?.parse().ok(),
    }
}

impl fmt::Display for ThrottleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cell error: ")?;
        match self {
            Self::ZeroRate => f.write_str("Zero rates are not supported"),
            Self::OutOfRange { what, least, most } => write!(f, "{what} goes from {least} to {most}"),
            Self::NotAnInteger(text) => write!(f, "Couldn't parse as integer: {text}"),
            Self::Usage => {
                f.write_str("Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]")
            }
        }
    }
}

impl std::error::Error for ThrottleError {}
