//! A response of the rate limit service: one status per descriptor, in order, and annotations.

use smallvec::SmallVec;
use tidegate::rules::{Action, Answer, AnswerKind, LimitAnswer};
use tidegate::{AlgorithmName, Wait};

use super::{Annotations, Details, DynamicMetadata, Header, HitsMode, RlsDescriptor, RlsRequest, RlsUnit};
use crate::serve::headers::{is_shown, retry_after_seconds};
use crate::serve::rounding;
use crate::serve::settings::RateLimitHeaders;

/// The longest duration in protobuf, in seconds: about ten thousand years.
pub const DURATION_SECONDS_MAX: u64 = 315_576_000_000;

/// The values of `RateLimitResponse.Code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RlsCode {
    /// Within the limit.
    Ok = 1,
    /// Over the limit.
    OverLimit = 2,
}

/// A response. It borrows from the rules that decided.
#[derive(Clone, Debug, PartialEq)]
pub struct RlsResponse<'r> {
    /// The result for the whole request.
    pub overall: Overall,
    /// The status of each descriptor, in the order of the request.
    pub statuses: DescriptorStatuses<'r>,
    /// For the client.
    pub response_headers: Vec<Header>,
    /// For the upstream.
    pub request_headers: Vec<Header>,
    /// For later filters.
    pub metadata: Option<DynamicMetadata<'r>>,
}

/// The result for a whole request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overall {
    /// Whether to deny the request.
    pub code: RlsCode,
    /// If it is denied because the shared store does not answer: seconds after which to retry.
    pub unavailable_seconds: Option<u64>,
    /// Whether the shared store did not answer, for the decision or for a refund.
    pub degraded: bool,
}

/// The statuses of several descriptors.
pub type DescriptorStatuses<'r> = SmallVec<[DescriptorStatus<'r>; 4]>;

/// The status of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorStatus<'r> {
    /// Whether it is over its limit or quota.
    pub code: RlsCode,
    /// The limit that decided; `None` if no limit matches.
    pub limit: Option<CurrentLimit<'r>>,
    /// What that limit would still allow.
    pub remaining: u32,
    /// Seconds, rounded up: until a denied descriptor would be allowed, else until the key is as if never used. `None`
    /// if that is never, or without a limit.
    pub until_reset_seconds: Option<u64>,
}

/// The limit that decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CurrentLimit<'r> {
    /// The limit's name, else its rule's; empty if the request brought the limit.
    pub name: &'r str,
    /// The limit's units.
    pub requests_per_unit: u32,
    /// The limit's window, if it equals a unit.
    pub unit: RlsUnit,
}

impl RlsCode {
    /// The name in protobuf.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::OverLimit => "OVER_LIMIT",
        }
    }
}

impl Overall {
    /// The result if no limit matches.
    pub const OK: Self = Self { code: RlsCode::Ok, unavailable_seconds: None, degraded: false };

    /// The result of an answer.
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
    /// The response to a request that charges all its hits.
    pub fn new(
        answer: &'r Answer,
        request: &RlsRequest<'_>,
        details: Details,
        headers: RateLimitHeaders,
    ) -> Self {
        let statuses = DescriptorStatus::for_descriptors(answer, request, HitsMode::Charge);
        Self::from_parts(Overall::from_answer(answer), Annotations::new(answer, details, headers), statuses)
    }

    /// Combines the parts of a response.
    pub fn from_parts(
        overall: Overall,
        annotations: Annotations<'r>,
        statuses: DescriptorStatuses<'r>,
    ) -> Self {
        let Annotations { response_headers, request_headers, metadata } = annotations;
        Self { overall, statuses, response_headers, request_headers, metadata }
    }
}

impl<'r> DescriptorStatus<'r> {
    /// The status if no limit matches.
    pub const UNLIMITED: Self =
        Self { code: RlsCode::Ok, limit: None, remaining: 0, until_reset_seconds: None };

    /// The statuses of the descriptors that this answer is about: those to charge, or those to refund.
    pub fn for_descriptors(
        answer: &'r Answer,
        request: &RlsRequest<'_>,
        hits: HitsMode,
    ) -> DescriptorStatuses<'r> {
        let descriptors = request.descriptors().iter().filter(|descriptor| descriptor.hits == hits);
        descriptors
            .enumerate()
            .map(|(index, descriptor)| Self::for_descriptor(answer, index, descriptor))
            .collect()
    }

    /// The status of the descriptor with this index in the answer.
    ///
    /// Envoy turns the numbers into headers for clients. So they come from a limit that clients may see; if there is
    /// none, from an observed limit, as in envoyproxy/ratelimit; and never from a limit that shadow-bans.
    fn for_descriptor(answer: &'r Answer, index: usize, descriptor: &RlsDescriptor) -> Self {
        let Some(decider) = answer.descriptor_decider(index) else { return Self::UNLIMITED };
        let code = match decider.kind {
            // Over a quota the request passes. Only this status shows it, as in envoyproxy/ratelimit.
            AnswerKind::Denied | AnswerKind::Unavailable | AnswerKind::OverQuota => RlsCode::OverLimit,
            _ => RlsCode::Ok,
        };
        let is_own = |limit: &LimitAnswer<'_>| limit.descriptor == index;
        let shown = answer.decider_among(|limit| is_own(limit) && is_shown(limit));
        let is_ban = |limit: &LimitAnswer<'_>| matches!(limit.limit.action, Action::ShadowBan);
        let limit = shown.or_else(|| answer.decider_among(|limit| is_own(limit) && !is_ban(limit)));
        match limit {
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
            until_reset_seconds: until
                .span()
                .map(|span| rounding::ceil_seconds(span).min(DURATION_SECONDS_MAX)),
        }
    }
}

impl<'r> CurrentLimit<'r> {
    fn from_limit(answer: &LimitAnswer<'r>, descriptor: &RlsDescriptor) -> Self {
        let limit = &answer.limit.limit;
        let name = match (descriptor.limit, limit.name()) {
            // A descriptor with its own limit matches no other limit.
            (Some(_), _) => "",
            (None, Some(name)) => name,
            (None, None) => &answer.rule.name,
        };
        // Leases have no window, only a ttl.
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
