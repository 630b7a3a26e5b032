//! What is answered: one status for each descriptor, in order, and what is marked.

use smallvec::SmallVec;
use tidegate::rules::{Action, Answer, Fate, LimitAnswer};
use tidegate::{AlgorithmName, Wait};

use super::{Details, Header, Hits, MarksOf, Metadata, RlsDescriptor, RlsRequest, RlsUnit};
use crate::serve::limit_headers::{is_shown, retry_after_seconds};
use crate::serve::rounded;

/// The longest duration that protobuf has, in seconds: about ten thousand years.
pub const DURATION_SECONDS_MAX: u64 = 315_576_000_000;

/// Whether something is over its limit, by the number it has in `RateLimitResponse.Code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// It is not.
    Ok = 1,
    /// It is.
    OverLimit = 2,
}

/// The answer. It points into the rules that were in force.
#[derive(Clone, Debug, PartialEq)]
pub struct RlsResponse<'r> {
    /// What becomes of the request.
    pub overall: Overall,
    /// What became of each descriptor, in the order of the request.
    pub statuses: Statuses<'r>,
    /// For the client.
    pub response_headers: Vec<Header>,
    /// For the upstream.
    pub request_headers: Vec<Header>,
    /// For the filters behind.
    pub metadata: Option<Metadata<'r>>,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overall {
    /// Whether it is to be turned away.
    pub code: Code,
    /// If it is because the store that a fleet shares does not answer: seconds after which to come again.
    pub unavailable_seconds: Option<u64>,
    /// Whether that store did not answer, be it that it was asked for a decision or to take something back.
    pub degraded: bool,
}

/// What became of several descriptors.
pub type Statuses<'r> = SmallVec<[Status<'r>; 4]>;

/// What became of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status<'r> {
    /// Whether it is over its limit, or its quota.
    pub code: Code,
    /// The limit that decided it; none if it touches no limit.
    pub limit: Option<CurrentLimit<'r>>,
    /// What that one would still admit.
    pub remaining: u32,
    /// Seconds, rounded up: of a denied one until it would be admitted, else until the key is as if never seen. None if
    /// that is never, or if there is no limit.
    pub until_reset_seconds: Option<u64>,
}

/// The limit that decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CurrentLimit<'r> {
    /// The limit's own name, else its rule's; empty if the request brought it along.
    pub name: &'r str,
    /// L.
    pub requests_per_unit: u32,
    /// W, if there is a name for it.
    pub unit: RlsUnit,
}

impl Code {
    /// Its name in protobuf.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::OverLimit => "OVER_LIMIT",
        }
    }
}

impl Overall {
    /// Of a request that nothing was asked about.
    pub const OK: Self = Self { code: Code::Ok, unavailable_seconds: None, degraded: false };

    /// What this answer says.
    pub fn of(answer: &Answer) -> Self {
        let code = match answer.fate {
            Fate::Denied | Fate::Unavailable => Code::OverLimit,
            _ => Code::Ok,
        };
        let is_unavailable = answer.fate == Fate::Unavailable;
        let unavailable_seconds = retry_after_seconds(answer).filter(|_| is_unavailable);
        Self { code, unavailable_seconds, degraded: answer.degraded }
    }
}

impl<'r> RlsResponse<'r> {
    /// The answer to a request of which all hits were charged.
    pub fn new(answer: &'r Answer, request: &RlsRequest<'_>, details: Details) -> Self {
        let statuses = Status::all(answer, request, Hits::Charged);
        Self::of(Overall::of(answer), MarksOf::answer(answer, details), statuses)
    }

    /// Made of its parts.
    pub fn of(overall: Overall, marks: MarksOf<'r>, statuses: Statuses<'r>) -> Self {
        let MarksOf { response_headers, request_headers, metadata } = marks;
        Self { overall, statuses, response_headers, request_headers, metadata }
    }
}

impl<'r> Status<'r> {
    /// Of a descriptor that touches no limit.
    pub const UNLIMITED: Self = Self { code: Code::Ok, limit: None, remaining: 0, until_reset_seconds: None };

    /// What became of those descriptors of the request that this is the answer to: those whose hits were charged, or those
    /// whose hits were given back.
    pub fn all(answer: &'r Answer, request: &RlsRequest<'_>, hits: Hits) -> Statuses<'r> {
        let asked = request.descriptors().iter().filter(|descriptor| descriptor.hits == hits);
        asked.enumerate().map(|(number, descriptor)| Self::of(answer, number, descriptor)).collect()
    }

    /// What became of a descriptor, which has this number in the answer.
    ///
    /// Envoy makes headers for clients of the numbers. So they are those of a limit that clients are told of; if there is
    /// none, of one that looks on, as in envoyproxy/ratelimit; and never of one that is to look as if it were not there.
    fn of(answer: &'r Answer, number: usize, descriptor: &RlsDescriptor) -> Self {
        let Some(decider) = answer.descriptor(number) else { return Self::UNLIMITED };
        let code = match decider.fate {
            // Over a quota the request passes, and only this says so, as in envoyproxy/ratelimit.
            Fate::Denied | Fate::Unavailable | Fate::OverQuota => Code::OverLimit,
            _ => Code::Ok,
        };
        let is_mine = |limit: &LimitAnswer<'_>| limit.descriptor == number;
        let shown = answer.decider_of(|limit| is_mine(limit) && is_shown(limit));
        let looks_on = |limit: &LimitAnswer<'_>| !matches!(limit.limit.action, Action::ShadowBan);
        let told = shown.or_else(|| answer.decider_of(|limit| is_mine(limit) && looks_on(limit)));
        match told {
            Some(limit) => Self { code, ..Self::with_numbers(&limit, descriptor) },
            None => Self { code, ..Self::UNLIMITED },
        }
    }

    fn with_numbers(limit: &LimitAnswer<'r>, descriptor: &RlsDescriptor) -> Self {
        let until = match limit.fate {
            Fate::Denied | Fate::Unavailable | Fate::OverQuota => limit.outcome.retry_after,
            _ => Wait::of(limit.outcome.reset_after),
        };
        Self {
            code: Code::Ok,
            limit: Some(CurrentLimit::of(limit, descriptor)),
            remaining: saturating(limit.outcome.remaining),
            until_reset_seconds: until.span().map(|span| rounded::seconds(span).min(DURATION_SECONDS_MAX)),
        }
    }
}

impl<'r> CurrentLimit<'r> {
    fn of(answer: &LimitAnswer<'r>, descriptor: &RlsDescriptor) -> Self {
        let limit = &answer.limit.limit;
        let name = match (descriptor.limit, limit.name()) {
            // A descriptor that brings a limit along is limited by nothing else.
            (Some(_), _) => "",
            (None, Some(name)) => name,
            (None, None) => &answer.rule.name,
        };
        // Units that are held have no window, only a time after which they are taken back.
        let unit = match limit.algorithm_name() {
            AlgorithmName::Concurrency => RlsUnit::Unknown,
            _ => RlsUnit::of_window(limit.rate().window_ns()),
        };
        Self { name, requests_per_unit: saturating(answer.limit_now()), unit }
    }
}

fn saturating(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
