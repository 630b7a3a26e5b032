//! The arguments of commands that name a request: `domain key value [key value ...] [COST n] [TTL ttl]`.
//!
//! The last pairs are options if their keys are `COST` or `TTL`, in any case. So an attribute of such a name must not be
//! the last, or must have the option after it: `TIDEGATE.CHECK api cost high COST 1`.

use std::fmt;

use smallvec::SmallVec;
use tidegate::rules::Entry;
use tidegate::{LeaseToken, Nanos};

use crate::serve::resp::parse::Arguments;
use crate::serve::rounding::MILLI_NS;

/// The attributes of a request. Nearly all requests fit without an allocation.
pub(super) type Entries<'a> = SmallVec<[Entry<'a>; 8]>;

/// The arguments of a call, without the attributes.
#[derive(Debug)]
pub(super) struct RequestCall<'a> {
    pub domain: &'a str,
    pub cost: u64,
    pub ttl: Option<Nanos>,
}

/// What a command takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallForm {
    /// The index of the domain: the arguments before it are the command's own.
    domain: usize,
    takes_ttl: bool,
    usage: &'static str,
}

/// What is wrong with a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CallError {
    EmptyDomain,
    MissingAttribute { usage: &'static str },
    MissingValue(String),
    InvalidCost(String),
    InvalidTtl(String),
    InvalidToken,
    NotUtf8 { index: usize },
}

impl CallForm {
    pub const CHECK: Self = Self {
        domain: 1,
        takes_ttl: false,
        usage: "TIDEGATE.CHECK domain key value [key value ...] [COST n]",
    };
    pub const ACQUIRE: Self = Self {
        domain: 1,
        takes_ttl: true,
        usage: "TIDEGATE.ACQUIRE domain key value [key value ...] [COST n] [TTL ttl]",
    };
    pub const RENEW: Self = Self {
        domain: 2,
        takes_ttl: true,
        usage: "TIDEGATE.RENEW token domain key value [key value ...] [COST n] [TTL ttl]",
    };
    pub const RELEASE: Self = Self {
        domain: 2,
        takes_ttl: false,
        usage: "TIDEGATE.RELEASE token domain key value [key value ...] [COST n]",
    };
    pub const REFUND: Self = Self {
        domain: 1,
        takes_ttl: false,
        usage: "TIDEGATE.REFUND domain key value [key value ...] [COST n]",
    };
}

impl<'a> RequestCall<'a> {
    /// Parses a call. Its attributes go to `entries`, which must be empty.
    #[inline]
    pub fn parse(
        arguments: &Arguments<'a>,
        form: CallForm,
        entries: &mut Entries<'a>,
    ) -> Result<Self, CallError> {
        let texts = arguments.texts();
        let text = |index: usize| texts.get(index).ok_or(CallError::NotUtf8 { index });
        let first = form.domain + 1;
        let mut call = Self { domain: text(form.domain)?, cost: 1, ttl: None };
        if call.domain.is_empty() {
            return Err(CallError::EmptyDomain);
        }
        let mut end = arguments.len();
        if (end - first) % 2 == 1 {
            return Err(CallError::MissingValue(super::shortened(
                arguments.get(end - 1).unwrap_or_default(),
            )));
        }
        if form.takes_ttl {
            end = call.parse_ttl_options(arguments, first, end)?;
        } else if end > first && text(end - 2)?.eq_ignore_ascii_case(COST) {
            call.cost = parse_cost(text(end - 1)?)?;
            end -= 2;
        }
        if end == first {
            return Err(CallError::MissingAttribute { usage: form.usage });
        }
        let mut index = first;
        while index < end {
            entries.push(Entry { key: text(index)?, value: text(index + 1)? });
            index += 2;
        }
        Ok(call)
    }

    /// Parses `COST` and `TTL` at the end, in any order, each at most once. Returns the end of the attributes.
    fn parse_ttl_options(
        &mut self,
        arguments: &Arguments<'a>,
        first: usize,
        mut end: usize,
    ) -> Result<usize, CallError> {
        let texts = arguments.texts();
        let text = |index: usize| texts.get(index).ok_or(CallError::NotUtf8 { index });
        let mut cost = None;
        while end > first {
            let (key, value) = (text(end - 2)?, text(end - 1)?);
            if cost.is_none() && key.eq_ignore_ascii_case(COST) {
                cost = Some(parse_cost(value)?);
            } else if self.ttl.is_none() && key.eq_ignore_ascii_case(TTL) {
                self.ttl = Some(parse_ttl(value)?);
            } else {
                break;
            }
            end -= 2;
        }
        self.cost = cost.unwrap_or(self.cost);
        Ok(end)
    }
}

/// The token of a lease, before the domain.
pub(super) fn parse_token(arguments: &Arguments<'_>) -> Result<LeaseToken, CallError> {
    let token = arguments.texts().get(1).ok_or(CallError::NotUtf8 { index: 1 })?;
    token.parse().map_err(|_| CallError::InvalidToken)
}

const COST: &str = "COST";
const TTL: &str = "TTL";

#[inline]
fn parse_cost(number: &str) -> Result<u64, CallError> {
    number.parse().map_err(|_| CallError::InvalidCost(super::shortened(number.as_bytes())))
}

/// A duration such as `30s`, or a number of milliseconds.
fn parse_ttl(text: &str) -> Result<Nanos, CallError> {
    let nanos = match text.parse::<u64>() {
        Ok(millis) => Some(u128::from(millis) * u128::from(MILLI_NS)),
        Err(_) => tidegate_core::text::parse_duration(text).ok().map(u128::from),
    };
    nanos
        .filter(|nanos| *nanos >= u128::from(MILLI_NS))
        .map(Nanos::new)
        .ok_or_else(|| CallError::InvalidTtl(super::shortened(text.as_bytes())))
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ERR ")?;
        match self {
            Self::EmptyDomain => {
                f.write_str("the domain is empty (hint: use the name after `domain:` in a rules file)")
            }
            Self::MissingAttribute { usage } => write!(f, "there is no attribute (hint: {usage})"),
            Self::MissingValue(key) => write!(
                f,
                "attribute '{key}' has no value (hint: keys and values come in pairs; a value may be empty)"
            ),
            Self::InvalidCost(text) => write!(
                f,
                "COST '{text}' is not a whole number from 0 to {} (hint: if it is an attribute, add COST 1 after it)",
                u64::MAX
            ),
            Self::InvalidTtl(text) => write!(
                f,
                "TTL '{text}' is not a duration of at least 1 ms (hint: 30s, or a number of milliseconds)"
            ),
            Self::InvalidToken => f.write_str(
                "the token is not one of 80 hexadecimal digits (hint: send the token of TIDEGATE.ACQUIRE)",
            ),
            Self::NotUtf8 { index } => {
                write!(f, "argument {index} is not UTF-8 (hint: domains and attributes are text)")
            }
        }
    }
}
