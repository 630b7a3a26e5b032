//! `CL.THROTTLE key max_burst count period [quantity]`: the command of redis-cell, with the same replies.
//!
//! A key has one arrival time, whatever limit a call brings. The core decides with exact integers, so rates that are
//! too fine for redis-cell, below a nanosecond per unit, are enforced too.

use std::fmt;
use std::sync::Arc;

use tidegate::engine::ChargeResponse;
use tidegate::{Clock as _, MemoryStore, store};
use tidegate_core::{
    Charge, Counter, Decision, LimitSpec, Nanos, Op, OutcomeKind, Timestamp, UNITS_MAX, WINDOW_NS_MAX,
};

use super::{CommandContext, CommandStep, DeferredReply, StoreAccess};
use crate::serve::resp::RespShared;
use crate::serve::resp::parse::Arguments;
use crate::serve::resp::reply::{Replies, RespVersion};
use crate::serve::rounding::{MILLI_NS, SECOND_NS};

/// The counter of all calls. No rule has this name, because rule names have no control characters.
const COUNTER_NAME: &str = "\u{1f}cl.throttle";
/// Number of rates that a connection caches.
const CACHED_RATES_MAX: usize = 4;

/// The limit of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Units that may come immediately after the first one.
    pub max_burst: i64,
    /// Units per period.
    pub count: i64,
    /// In seconds.
    pub period: i64,
}

/// The reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThrottleAnswer {
    /// Whether the call is allowed.
    pub kind: OutcomeKind,
    /// The burst: units that may come together.
    pub limit: i64,
    /// Units that are left.
    pub remaining: i64,
    /// Seconds until the call would be allowed; -1 if it is, or never would be.
    pub retry_after_seconds: i64,
    /// Seconds until the full burst is available.
    pub reset_after_seconds: i64,
}

/// What is wrong with a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ThrottleError {
    /// The count or the period is zero.
    ZeroRate,
    /// The units would take longer to be available again than redis-cell can count: 2^63 nanoseconds, 292 years.
    TooLong,
    /// A number is out of range.
    OutOfRange {
        /// The name of the argument.
        what: &'static str,
        /// Minimum.
        min: i64,
        /// Maximum.
        max: i64,
    },
    /// An argument is not an integer.
    NotAnInteger(String),
    /// There are too few or too many arguments.
    Usage,
}

/// The last rates of a connection, with their counters.
#[derive(Debug, Default)]
pub struct ThrottleCache {
    cached: [Option<CachedRate>; CACHED_RATES_MAX],
    /// Index of the rate that is replaced next.
    oldest: usize,
}

#[derive(Debug)]
struct CachedRate {
    quota: Quota,
    /// Shared with calls that are answered later.
    counter: Arc<Counter>,
}

/// `CL.THROTTLE`: decided immediately, or later if a shared store is asked.
#[inline]
pub(super) fn run<'s>(arguments: &Arguments<'_>, context: &mut CommandContext<'s, '_>) -> CommandStep<'s> {
    let call = parse_call(arguments).and_then(|call| {
        let (counter, cost) =
            (context.session.throttle_cache.counter(call.quota)?, call.quota.cost(call.quantity)?);
        Ok((call, counter, cost))
    });
    let (ThrottleCall { key, quota, .. }, counter, cost) = match call {
        Ok(call) => call,
        Err(error) => {
            context.replies.error(error);
            context.reject(super::BAD_REQUEST);
            return CommandStep::Continue;
        }
    };
    let shared = context.shared;
    let engine = &shared.app.engine;
    let at = || context.instant.read(|| engine.clock().now());
    match engine.start_charge_at(&Charge::new(key, counter, cost), Op::Check, at) {
        ChargeResponse::Now(checked) => {
            let answer = ThrottleAnswer::from_decision(&shared.app.record_single(checked), quota);
            context.decisions.add(answer.kind);
            answer.write(context.replies);
            CommandStep::Continue
        }
        ChargeResponse::Later(store_reply) => {
            let (counter, key, version) = (Arc::clone(counter), Box::from(key), context.replies.version());
            answer_later(shared, DeferredThrottle { key, counter, cost, quota }, store_reply, version)
        }
    }
}

/// A call that is answered later.
struct DeferredThrottle {
    key: Box<[u8]>,
    counter: Arc<Counter>,
    cost: u64,
    quota: Quota,
}

fn answer_later(
    shared: &RespShared,
    call: DeferredThrottle,
    store_reply: store::ReplyFuture,
    version: RespVersion,
) -> CommandStep<'_> {
    let bytes = call.key.len();
    let app = &shared.app;
    let reply = Box::pin(async move {
        let store_reply = store_reply.await;
        let DeferredThrottle { key, counter, cost, quota } = call;
        let checked = app.engine.finish_charge(&Charge::new(&key, &counter, cost), Op::Check, store_reply);
        let answer = ThrottleAnswer::from_decision(&app.record_single(checked), quota);
        app.metrics.count_throttled(answer.kind, 1);
        let mut replies = Replies::new(version);
        answer.write(&mut replies);
        replies
    });
    CommandStep::Later(DeferredReply { access: StoreAccess::Write, reply, bytes })
}

impl ThrottleAnswer {
    #[inline]
    fn from_decision(decision: &Decision, quota: Quota) -> Self {
        Self {
            kind: decision.kind,
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
        replies.integer(i64::from(self.kind == OutcomeKind::Denied));
        replies.integer(self.limit);
        replies.integer(self.remaining);
        replies.integer(self.retry_after_seconds);
        replies.integer(self.reset_after_seconds);
    }
}

/// The arguments of a call.
struct ThrottleCall<'a> {
    key: &'a [u8],
    quota: Quota,
    quantity: i64,
}

#[inline]
fn parse_call<'a>(arguments: &Arguments<'a>) -> Result<ThrottleCall<'a>, ThrottleError> {
    let number = |index| {
        let argument = arguments.get(index).ok_or(ThrottleError::Usage)?;
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
    /// Charges `quantity` units to a key at `now`. A quantity of 0 reads what is left.
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
        let cost = quota.cost(quantity)?;
        let decision = store.check_charge(&Charge::new(key, counter, cost), now);
        Ok(ThrottleAnswer::from_decision(&decision, quota))
    }

    #[inline]
    fn counter(&mut self, quota: Quota) -> Result<&Arc<Counter>, ThrottleError> {
        let same = |cached: &Option<CachedRate>| cached.as_ref().is_some_and(|cached| cached.quota == quota);
        let index = match self.cached.iter().position(same) {
            Some(index) => index,
            None => self.insert(quota)?,
        };
        self.cached[index].as_ref().map(|cached| &cached.counter).ok_or(ThrottleError::ZeroRate)
    }

    #[cold]
    fn insert(&mut self, quota: Quota) -> Result<usize, ThrottleError> {
        let counter = Arc::new(quota.counter()?);
        let index = self.oldest;
        self.cached[index] = Some(CachedRate { quota, counter });
        self.oldest = (index + 1) % CACHED_RATES_MAX;
        Ok(index)
    }
}

impl Quota {
    /// The cost of this many units. The quota is in range.
    #[inline]
    fn cost(self, quantity: i64) -> Result<u64, ThrottleError> {
        /// At any rate, this many units do not take too long.
        const SURE_QUANTITY_MAX: i64 = i64::MAX / WINDOW_NS_MAX.cast_signed();
        let Ok(cost) = u64::try_from(quantity) else {
            return Err(ThrottleError::OutOfRange { what: "quantity", min: 0, max: i64::MAX });
        };
        if quantity > SURE_QUANTITY_MAX {
            let interval_ns = self.period.unsigned_abs() * SECOND_NS / self.count.unsigned_abs();
            let total_ns = interval_ns.checked_mul(cost).and_then(|ns| i64::try_from(ns).ok());
            total_ns.ok_or(ThrottleError::TooLong)?;
        }
        Ok(cost)
    }

    /// The core's range includes all limits that redis-cell can distinguish.
    fn counter(self) -> Result<Counter, ThrottleError> {
        if self.count == 0 || self.period == 0 {
            return Err(ThrottleError::ZeroRate);
        }
        let units_max = i64::try_from(UNITS_MAX).unwrap_or(i64::MAX);
        let seconds_max = i64::try_from(WINDOW_NS_MAX / SECOND_NS).unwrap_or(i64::MAX);
        let within = |what, number, min: i64, max: i64| match u64::try_from(number) {
            Ok(units) if (min..=max).contains(&number) => Ok(units),
            _ => Err(ThrottleError::OutOfRange { what, min, max }),
        };
        let max_burst = within("max_burst", self.max_burst, 0, units_max - 1)?;
        let count = within("count", self.count, 1, units_max)?;
        let period = within("period", self.period, 1, seconds_max)?;
        let spec = LimitSpec::new(count, period * SECOND_NS);
        let limit = LimitSpec { burst: Some(max_burst + 1), ..spec }.build();
        // Everything is in range, and the default algorithm is gcra.
        limit.ok().and_then(|limit| Counter::shared_gcra(COUNTER_NAME, limit)).ok_or(ThrottleError::ZeroRate)
    }
}

/// Rounds as redis-cell does: up, except for less than a millisecond above a whole second.
#[inline]
fn redis_cell_seconds(span: Nanos) -> i64 {
    let (whole, nanos) = match u64::try_from(span.get()) {
        Ok(nanos) => (u128::from(nanos / SECOND_NS), u128::from(nanos % SECOND_NS)),
        Err(_) => (span.get() / u128::from(SECOND_NS), span.get() % u128::from(SECOND_NS)),
    };
    let seconds = whole + u128::from(nanos >= u128::from(MILLI_NS));
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

/// Parses an integer as Rust, and so redis-cell, does: a sign and leading zeros are allowed.
#[inline]
pub(super) fn parse_integer(bytes: &[u8]) -> Option<i64> {
    /// Numbers of up to this many digits cannot overflow.
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
        // redis-cell calls all of its errors so.
        f.write_str("Cell error: Store error: ")?;
        match self {
            Self::ZeroRate => f.write_str("Zero rates are not supported"),
            Self::TooLong => f.write_str("Error while setting key expire"),
            Self::OutOfRange { what, min, max } => write!(f, "{what} must be from {min} to {max}"),
            Self::NotAnInteger(text) => write!(f, "Couldn't parse as integer: {text}"),
            Self::Usage => {
                f.write_str("Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]")
            }
        }
    }
}

impl std::error::Error for ThrottleError {}
