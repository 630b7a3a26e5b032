//! What happens to a request.

/// What happens to a request, mildest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum AnswerKind {
    /// It passes.
    Allowed,
    /// It passes; a dry run would have denied it.
    ShadowDenied,
    /// It passes; a quota is exceeded.
    OverQuota,
    /// It passes; it is over a limit, within the limit's margin.
    Soft,
    /// It passes after a delay.
    Delayed,
    /// It must look as if it passed, and must be dropped.
    ShadowBanned,
    /// It does not pass.
    Denied,
    /// It does not pass, although it may be within its limits: the shared store does not answer and a rule says to deny
    /// then, or the memory for leases is full. The first is degraded, the second is not.
    Unavailable,
}

impl AnswerKind {
    /// Whether the request goes on, now or after its delay.
    pub fn passes(self) -> bool {
        self <= Self::Delayed
    }

    /// As it is written in answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::ShadowDenied => "shadow_denied",
            Self::OverQuota => "over_quota",
            Self::Soft => "soft",
            Self::Delayed => "delayed",
            Self::ShadowBanned => "shadow_banned",
            Self::Denied => "denied",
            Self::Unavailable => "unavailable",
        }
    }
}
