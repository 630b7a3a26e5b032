//! What a rule does when a limit is exceeded.

use std::fmt;

use crate::Nanos;
use crate::text::write_duration;

/// What happens to a request that is over a limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// Deny it and charge nothing.
    #[default]
    Reject,
    /// Dry run: charge it, report it, and let it pass.
    Shadow,
    /// The client sees success and the upstream is told to drop the request. Charges nothing.
    ShadowBan,
    /// Hold it until it fits, first come first served. Deny it immediately if that would take longer than `max_wait`.
    Delay {
        /// The longest time that a request is held.
        max_wait: Nanos,
    },
    /// Let it pass and mark it while it is over by no more than a margin; deny it beyond.
    Soft(Margin),
    /// The limit varies between two bounds.
    Elastic(Elastic),
    /// Let it pass. The status of the descriptor says that it is over.
    Quota,
}

/// How far a request may be over a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Margin {
    /// By this many percent of the limit.
    Percent(u32),
    /// By any amount: the limit marks requests and never denies them.
    Unlimited,
}

/// A limit with a variable L.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elastic {
    /// Always granted. At most L.
    pub min: u64,
    /// Never exceeded. At least L.
    pub max: u64,
    /// What decides between the two.
    pub source: ElasticSource,
}

/// What changes the L of an elastic limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElasticSource {
    /// A pool of the same domain: the limit may exceed `min` while the pool has room.
    Pool(Box<str>),
    /// A pushed signal from 0 to 1: L is `min` at 0 and `max` at 1. Without a signal, L is as written.
    Signal(Box<str>),
}

impl Action {
    /// Its name in rules.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Reject => "reject",
            Self::Shadow => "shadow",
            Self::ShadowBan => "shadow_ban",
            Self::Delay { .. } => "delay",
            Self::Soft(_) => "soft",
            Self::Elastic(_) => "elastic",
            Self::Quota => "quota",
        }
    }
}

/// As written in rules, without the braces around it.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())?;
        match self {
            Self::Reject | Self::Shadow | Self::ShadowBan | Self::Quota => Ok(()),
            Self::Delay { max_wait } => {
                let max_wait_ns = u64::try_from(max_wait.get()).unwrap_or(u64::MAX);
                write!(f, " {{max_wait: {}}}", write_duration(max_wait_ns))
            }
            Self::Soft(Margin::Percent(percent)) => write!(f, " {{margin: {percent}%}}"),
            Self::Soft(Margin::Unlimited) => f.write_str(" {margin: unlimited}"),
            Self::Elastic(Elastic { min, max, source }) => {
                let (by, name) = match source {
                    ElasticSource::Pool(name) => ("pool", name),
                    ElasticSource::Signal(name) => ("signal", name),
                };
                write!(f, " {{min: {min}, max: {max}, {by}: {name}}}")
            }
        }
    }
}
