//! The reply of the script, parsed.

use std::fmt;

use redis::Value;
use tidegate_core::{OutcomeKind, Timestamp};

use super::term::NANOS_PER_MICRO;

/// A reply that is malformed or that contradicts the replay: the script or the replay is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadReply(Box<str>);

/// The reply of the script.
pub(super) struct ScriptReply {
    /// What each key held before the call.
    pub states: Vec<Option<Vec<u8>>>,
    /// The server's time of the decision.
    pub at: Timestamp,
    /// Which plans were admitted.
    pub admitted: AdmittedBits,
    /// Plans that changed nothing, each with the index of the key that could not be read.
    pub errors: Vec<(usize, usize)>,
}

/// Which plans were admitted: one bit per plan.
pub(super) struct AdmittedBits(Vec<u32>);

const PLANS_PER_WORD: usize = 32;

impl ScriptReply {
    /// Parses the reply to a call with this number of keys and plans.
    pub fn read(reply: Value, keys: usize, plans: usize) -> Result<Self, BadReply> {
        let Value::Array(values) = reply else { return Err(BadReply::new("it is not a list")) };
        let words = plans.div_ceil(PLANS_PER_WORD);
        if values.len() < keys + 1 + words {
            return Err(BadReply::new("it is too short"));
        }
        let mut values = values.into_iter();
        let states = values.by_ref().take(keys).map(read_state).collect::<Result<_, _>>()?;
        let at_us = values.next().and_then(read_number::<u64>);
        let at = at_us.and_then(|us| us.checked_mul(NANOS_PER_MICRO)).map(Timestamp::from_nanos);
        let at = at.ok_or_else(|| BadReply::new("the time is missing"))?;
        let admitted = values.by_ref().take(words).map(read_number).collect::<Option<_>>();
        let admitted = admitted.ok_or_else(|| BadReply::new("the admitted plans are missing"))?;
        let errors: Option<Vec<usize>> = values.map(read_number).collect();
        let errors = errors.filter(|errors| errors.len() % 2 == 0);
        let errors = errors.ok_or_else(|| BadReply::new("the errors are malformed"))?;
        // The script counts keys from 1.
        let errors = errors.chunks_exact(2).map(|pair| (pair[0], pair[1].saturating_sub(1))).collect();
        Ok(Self { states, at, admitted: AdmittedBits(admitted), errors })
    }
}

impl AdmittedBits {
    /// Whether this plan was admitted.
    pub fn get(&self, plan: usize) -> OutcomeKind {
        let word = self.0.get(plan / PLANS_PER_WORD).copied().unwrap_or(0);
        if word >> (plan % PLANS_PER_WORD) & 1 == 1 { OutcomeKind::Allowed } else { OutcomeKind::Denied }
    }
}

fn read_state(value: Value) -> Result<Option<Vec<u8>>, BadReply> {
    match value {
        Value::Nil => Ok(None),
        Value::BulkString(bytes) => Ok(Some(bytes)),
        _ => Err(BadReply::new("a state is neither a string nor nil")),
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
            "a reply of the script is wrong: {} (hint: this is a bug in Tidegate, please report it; it may also be caused by \
             a server that is compatible with Redis but is neither Redis nor Valkey)",
            self.0
        )
    }
}

impl std::error::Error for BadReply {}
