//! What is answered: one status for each descriptor, in order, and what is marked.

use smallvec::SmallVec;
use tidegate::rules::{Action, Answer, AnswerKind, LimitAnswer};
use tidegate::{AlgorithmName, Wait};

use super::{Details, Header, HitsMode, Annotations, DynamicMetadata, RlsDescriptor, RlsRequest, RlsUnit};
use crate::serve::headers::{is_shown, retry_after_seconds};
use crate::serve::rounded;

/// The longest duration that protobuf has, in seconds: about ten thousand years.
pub const DURATION_SECONDS_MAX: u64 = 315_576_000_000;

/// Whether something is over its limit, by the number it has in `RateLimitResponse.Code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RlsCode {
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
    pub statuses: DescriptorStatuses<'r>,
    /// For the client.
    pub response_headers: Vec<Header>,
    /// For the upstream.
    pub request_headers: Vec<Header>,
    /// For the filters behind.
    pub metadata: Option<DynamicMetadata<'r>>,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overall {
    /// Whether it is to be turned away.
    pub code: RlsCode,
    /// If it is because the store that a fleet shares does not answer: seconds after which to come again.
    pub unavailable_seconds: Option<u64>,
    /// Whether that store did not answer, be it that it was asked for a decision or to take something back.
    pub degraded: bool,
}

/// What became of several descriptors.
pub type DescriptorStatuses<'r> = SmallVec<[DescriptorStatus<'r>; 4]>;

/// What became of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorStatus<'r> {
    /// Whether it is over its limit, or its quota.
    pub code: RlsCode,
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

impl RlsCode {
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
    pub const OK: Self = Self { code: RlsCode::Ok, unavailable_seconds: None, degraded: false };

    /// What this answer says.
    pub fn from_answer(answer: &Answer) -> Self {
        let code = match answer.kind {
            AnswerKind::Denied | AnswerKind::Unavailable => RlsCode::OverLimit,
            _ => RlsCode::Ok,
        };
        let is_unavailable = answer.kind == AnswerKind::Unavailable;
        let unavailable_seconds = retry_after_seconds(answer).filter(|_| is_unavailable);
        Self { code, unavailable_seconds, degraded: answer.degraded }
    }
}

impl<'r> RlsResponse<'r> {
    /// The answer to a request of which all hits were charged.
    pub fn new(answer: &'r Answer, request: &RlsRequest<'_>, details: Details) -> Self {
        let statuses = DescriptorStatus::for_descriptors(answer, request, HitsMode::Charge);
        Self::from_parts(Overall::from_answer(answer), Annotations::new(answer, details), statuses)
    }

    /// Made of its parts.
    pub fn from_parts(overall: Overall, marks: Annotations<'r>, statuses: DescriptorStatuses<'r>) -> Self {
        let Annotations { response_headers, request_headers, metadata } = marks;
        Self { overall, statuses, response_headers, request_headers, metadata }
    }
}

impl<'r> DescriptorStatus<'r> {
    /// Of a descriptor that touches no limit.
    pub const UNLIMITED: Self = Self { code: RlsCode::Ok, limit: None, remaining: 0, until_reset_seconds: None };

    /// What became of those descriptors of the request that this is the answer to: those whose hits were charged, or those
    /// whose hits were given back.
    pub fn for_descriptors(answer: &'r Answer, request: &RlsRequest<'_>, hits: HitsMode) -> DescriptorStatuses<'r> {
        let asked = request.descriptors().iter().filter(|descriptor| descriptor.hits == hits);
        asked.enumerate().map(|(number, descriptor)| Self::for_descriptor(answer, number, descriptor)).collect()
    }

    /// What became of a descriptor, which has this number in the answer.
    ///
    /// Envoy makes headers for clients of the numbers. So they are those of a limit that clients are told of; if there is
    /// none, of one that looks on, as in envoyproxy/ratelimit; and never of one that is to look as if it were not there.
    fn for_descriptor(answer: &'r Answer, number: usize, descriptor: &RlsDescriptor) -> Self {
        let Some(decider) = answer.descriptor_decider(number) else { return Self::UNLIMITED };
        let code = match decider.kind {
            // Over a quota the request passes, and only this says so, as in envoyproxy/ratelimit.
            AnswerKind::Denied | AnswerKind::Unavailable | AnswerKind::OverQuota => RlsCode::OverLimit,
            _ => RlsCode::Ok,
        };
        let is_mine = |limit: &LimitAnswer<'_>| limit.descriptor == number;
        let shown = answer.decider_among(|limit| is_mine(limit) && is_shown(limit));
        let looks_on = |limit: &LimitAnswer<'_>| !matches!(limit.limit.action, Action::ShadowBan);
        let told = shown.or_else(|| answer.decider_among(|limit| is_mine(limit) && looks_on(limit)));
        match told {
            Some(limit) => Self { code, ..Self::from_limit(&limit, descriptor) },
            None => Self { code, ..Self::UNLIMITED },
        }
    }

    fn from_limit(limit: &LimitAnswer<'r>, descriptor: &RlsDescriptor) -> Self {
        let until = match limit.kind {
            AnswerKind::Denied | AnswerKind::Unavailable | AnswerKind::OverQuota => limit.outcome.retry_after,
            _ => Wait::of(limit.outcome.reset_after),
        };
        Self {
            code: RlsCode::Ok,
            limit: Some(CurrentLimit::from_limit(limit, descriptor)),
            remaining: saturating_u32(limit.outcome.remaining),
            until_reset_seconds: until.span().map(|span| rounded::ceil_seconds(span).min(DURATION_SECONDS_MAX)),
        }
    }
}

impl<'r> CurrentLimit<'r> {
    fn from_limit(answer: &LimitAnswer<'r>, descriptor: &RlsDescriptor) -> Self {
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
            _ => RlsUnit::from_window(limit.rate().window_ns()),
        };
        Self { name, requests_per_unit: saturating_u32(answer.current_limit()), unit }
    }
}

fn saturating_u32(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
