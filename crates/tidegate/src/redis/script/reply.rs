//! What the script replied, taken apart.

use std::fmt;

use redis::Value;
use tidegate_core::{Timestamp, OutcomeKind};

use super::term::NANOS_PER_MICRO;

/// A reply that is not what the script replies, or that cannot be: one of the two is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::redis) struct BadReply(Box<str>);

/// What the script replied.
pub(super) struct ScriptReply {
    /// Of each key what it held before the call.
    pub states: Vec<Option<Vec<u8>>>,
    /// The time by which it was decided.
    pub at: Timestamp,
    /// Which plans were admitted.
    pub admitted: AdmittedBits,
    /// Plans that changed nothing, and the place among the keys of what could not be read.
    pub errors: Vec<(usize, usize)>,
}

/// Which plans were admitted: a bit for each, so many in a word.
pub(super) struct AdmittedBits(Vec<u32>);

const PLANS_PER_WORD: usize = 32;

impl ScriptReply {
    /// What this says of a call of so many keys and plans.
    pub fn read(reply: Value, keys: usize, plans: usize) -> Result<Self, BadReply> {
        let Value::Array(values) = reply else { return Err(BadReply::new("it is no list")) };
        let words = plans.div_ceil(PLANS_PER_WORD);
        if values.len() < keys + 1 + words {
            return Err(BadReply::new("it is too short"));
        }
        let mut values = values.into_iter();
        let states = values.by_ref().take(keys).map(read_state).collect::<Result<_, _>>()?;
        let at_us = values.next().and_then(read_number::<u64>);
        let at = at_us.and_then(|us| us.checked_mul(NANOS_PER_MICRO)).map(Timestamp::from_nanos);
        let at = at.ok_or_else(|| BadReply::new("there is no time in it"))?;
        let admitted = values.by_ref().take(words).map(read_number).collect::<Option<_>>();
        let admitted = admitted.ok_or_else(|| BadReply::new("it does not say who was admitted"))?;
        let errors: Option<Vec<usize>> = values.map(read_number).collect();
        let errors = errors.filter(|errors| errors.len() % 2 == 0);
        let errors = errors.ok_or_else(|| BadReply::new("it does not say what could not be read"))?;
        // Keys are counted from 1 there.
        let errors = errors.chunks_exact(2).map(|pair| (pair[0], pair[1].saturating_sub(1))).collect();
        Ok(Self { states, at, admitted: AdmittedBits(admitted), errors })
    }
}

impl AdmittedBits {
    /// Whether a plan was.
    pub fn get(&self, plan: usize) -> OutcomeKind {
        let word = self.0.get(plan / PLANS_PER_WORD).copied().unwrap_or(0);
        if word >> (plan % PLANS_PER_WORD) & 1 == 1 { OutcomeKind::Allowed } else { OutcomeKind::Denied }
    }
}

fn read_state(value: Value) -> Result<Option<Vec<u8>>, BadReply> {
    match value {
        Value::Nil => Ok(None),
        Value::BulkString(bytes) => Ok(Some(bytes)),
        _ => Err(BadReply::new("a state in it is neither a string nor nothing")),
    }
}

#[allow(clippy::needless_pass_by_value, reason = "for iterators of values")]
fn read_number<N: TryFrom<i64>>(value: Value) -> Option<N> {
    match value {
        Value::Int(number) => N::try_from(number).ok(),
        _ => None,
    }
}

impl BadReply {
    pub(super) fn new(why: impl Into<Box<str>>) -> Self {
        Self(why.into())
    }
}

impl fmt::Display for BadReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a reply of the script cannot be right: {} (hint: this is a fault of Tidegate, please report it; if Redis is not \
             Redis or Valkey but something like it, that may be why)",
            self.0
        )
    }
}

impl std::error::Error for BadReply {}
