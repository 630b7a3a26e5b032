//! A response of the rate limit service: one status per descriptor, in order, and annotations.

use smallvec::SmallVec;
use tidegate::headers::HeaderDialect;
use tidegate::rules::{Action, Answer, AnswerKind, LimitAnswer};
use tidegate::{Algorithm, AlgorithmName, Nanos, Timestamp, Wait};
use tidegate_core::algorithm::{Edges, PackedAlgorithm};

use super::{Annotations, Details, DynamicMetadata, Header, HitsMode, RlsDescriptor, RlsRequest, RlsUnit};
use crate::serve::headers::{is_shown, retry_after_seconds};
use crate::serve::rounding;

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
    /// Seconds, rounded up: for a fixed window that is aligned to the epoch, until it ends. For other limits, until a
    /// denied descriptor would be allowed, else until the key is as if never used. `None` if that is never, or without
    /// a limit.
    pub until_reset_seconds: Option<u64>,
}

/// The limit that decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CurrentLimit<'r> {
    /// The limit's name, else its rule's. Empty if the request brought the limit, and for a limit without a name in a
    /// file for envoyproxy/ratelimit.
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
        headers: HeaderDialect,
        now: Timestamp,
    ) -> Self {
        let statuses = DescriptorStatus::for_descriptors(answer, request, HitsMode::Charge, now);
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
    pub const NO_LIMIT: Self =
        Self { code: RlsCode::Ok, limit: None, remaining: 0, until_reset_seconds: None };
    /// The status of a descriptor that is unlimited in a file for envoyproxy/ratelimit.
    const UNLIMITED: Self = Self { remaining: u32::MAX, ..Self::NO_LIMIT };

    /// The statuses of the descriptors that this answer is about: those to charge, or those to refund.
    pub fn for_descriptors(
        answer: &'r Answer,
        request: &RlsRequest<'_>,
        hits: HitsMode,
        now: Timestamp,
    ) -> DescriptorStatuses<'r> {
        let descriptors = request.descriptors().iter().filter(|descriptor| descriptor.hits == hits);
        descriptors
            .enumerate()
            .map(|(index, descriptor)| Self::for_descriptor(answer, index, descriptor, now))
            .collect()
    }

    /// The status of the descriptor with this index in the answer.
    ///
    /// Envoy turns the numbers into headers for clients. So they come from a limit that clients may see; if there is
    /// none, from an observed limit, as in envoyproxy/ratelimit; and never from a limit that shadow-bans.
    fn for_descriptor(answer: &'r Answer, index: usize, descriptor: &RlsDescriptor, now: Timestamp) -> Self {
        let Some(decider) = answer.descriptor_decider(index) else {
            return if answer.is_unlimited(index) { Self::UNLIMITED } else { Self::NO_LIMIT };
        };
        let code = match decider.kind {
            // Over a quota the request passes. Only this status shows it, as in envoyproxy/ratelimit.
            AnswerKind::Denied | AnswerKind::Unavailable | AnswerKind::OverQuota => RlsCode::OverLimit,
            // In a dry run of all rules only the overall code changes.
            AnswerKind::ShadowDenied if decider.is_global_shadow() => RlsCode::OverLimit,
            _ => RlsCode::Ok,
        };
        let is_own = |limit: &LimitAnswer<'_>| limit.descriptor == index;
        let shown = answer.decider_among(|limit| is_own(limit) && is_shown(limit));
        let is_ban = |limit: &LimitAnswer<'_>| matches!(limit.limit.action, Action::ShadowBan);
        let limit = shown.or_else(|| answer.decider_among(|limit| is_own(limit) && !is_ban(limit)));
        match limit {
            Some(limit) => Self { code, ..Self::from_limit(&limit, descriptor, now) },
            None => Self { code, ..Self::NO_LIMIT },
        }
    }

    fn from_limit(limit: &LimitAnswer<'r>, descriptor: &RlsDescriptor, now: Timestamp) -> Self {
        let until = match limit.kind {
            _ if is_epoch_window(limit) => Wait::of(until_window_ends(limit, now)),
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
        // A descriptor with its own limit matches no other limit.
        let name = if descriptor.limit.is_some() { "" } else { answer.public_name() };
        // Leases have no window, only a ttl.
        let unit = match limit.algorithm_name() {
            AlgorithmName::Concurrency => RlsUnit::Unknown,
            _ => RlsUnit::from_window(limit.rate().window_ns()),
        };
        Self { name, requests_per_unit: saturating_u32(answer.current_limit()), unit }
    }
}

/// Whether the limit is a fixed window that is aligned to the epoch.
fn is_epoch_window(limit: &LimitAnswer<'_>) -> bool {
    match limit.limit.limit.algorithm() {
        Algorithm::Packed(PackedAlgorithm::FixedWindow(window)) => *window.edges() == Edges::Epoch,
        _ => false,
    }
}

/// How long the window lasts. A key that was not used has no window yet.
fn until_window_ends(limit: &LimitAnswer<'_>, now: Timestamp) -> Nanos {
    if limit.outcome.reset_after > Nanos::ZERO {
        return limit.outcome.reset_after;
    }
    let window_ns = limit.limit.limit.rate().window_ns();
    Nanos::new((window_ns - now.as_nanos() % window_ns).into())
}

fn saturating_u32(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
