//! What was decided, kept while hits are given back: an answer points into rules that may be replaced meanwhile.

use tidegate::rules::{Answer, LimitId};

use super::{
    Code, CurrentLimit, Details, Header, Hits, MarksOf, Metadata, Overall, RlsRequest, RlsUnit, Status,
    Statuses,
};

/// What was decided of the descriptors that were charged; of none, nothing.
#[derive(Default)]
pub(super) struct Kept {
    decided: Option<Decided>,
}

struct Decided {
    overall: Overall,
    statuses: Vec<KeptStatus>,
    response_headers: Vec<Header>,
    request_headers: Vec<Header>,
    metadata: Option<KeptMetadata>,
}

struct KeptStatus {
    code: Code,
    limit: Option<KeptLimit>,
    remaining: u32,
    until_reset_seconds: Option<u64>,
}

struct KeptLimit {
    name: Box<str>,
    requests_per_unit: u32,
    unit: RlsUnit,
}

struct KeptMetadata {
    decision: &'static str,
    rule: Option<Box<str>>,
    limit: Option<LimitId>,
    delay_ms: u64,
    retry_after_ms: Option<u64>,
    degraded: bool,
    carried: Vec<(Box<str>, Box<str>)>,
}

impl Kept {
    /// Of this answer to what the request charges.
    pub fn of(answer: &Answer<'_>, request: &RlsRequest<'_>, details: Details) -> Self {
        let MarksOf { response_headers, request_headers, metadata } = MarksOf::answer(answer, details);
        let statuses = Status::all(answer, request, Hits::Charged);
        Self {
            decided: Some(Decided {
                overall: Overall::of(answer),
                statuses: statuses.iter().map(KeptStatus::of).collect(),
                response_headers,
                request_headers,
                metadata: metadata.as_ref().map(KeptMetadata::of),
            }),
        }
    }

    /// What became of the request.
    pub fn overall(&self) -> Overall {
        self.decided.as_ref().map_or(Overall::OK, |decided| decided.overall)
    }

    /// What became of the descriptors.
    pub fn statuses(&self) -> Statuses<'_> {
        self.decided.iter().flat_map(|decided| &decided.statuses).map(KeptStatus::lent).collect()
    }

    /// What marks the answer.
    pub fn marks(&self) -> MarksOf<'_> {
        let Some(decided) = &self.decided else { return MarksOf::default() };
        MarksOf {
            response_headers: decided.response_headers.clone(),
            request_headers: decided.request_headers.clone(),
            metadata: decided.metadata.as_ref().map(KeptMetadata::lent),
        }
    }
}

impl KeptStatus {
    fn of(status: &Status<'_>) -> Self {
        let &Status { code, limit, remaining, until_reset_seconds } = status;
        let limit = limit.map(|CurrentLimit { name, requests_per_unit, unit }| KeptLimit {
            name: name.into(),
            requests_per_unit,
            unit,
        });
        Self { code, limit, remaining, until_reset_seconds }
    }

    fn lent(&self) -> Status<'_> {
        let &Self { code, ref limit, remaining, until_reset_seconds } = self;
        let limit = limit.as_ref().map(|limit| CurrentLimit {
            name: &limit.name,
            requests_per_unit: limit.requests_per_unit,
            unit: limit.unit,
        });
        Status { code, limit, remaining, until_reset_seconds }
    }
}

impl KeptMetadata {
    fn of(metadata: &Metadata<'_>) -> Self {
        Self {
            decision: metadata.decision,
            rule: metadata.rule.map(Box::from),
            limit: metadata.limit.cloned(),
            delay_ms: metadata.delay_ms,
            retry_after_ms: metadata.retry_after_ms,
            degraded: metadata.degraded,
            carried: metadata.carried.iter().map(|&(name, value)| (name.into(), value.into())).collect(),
        }
    }

    fn lent(&self) -> Metadata<'_> {
        Metadata {
            decision: self.decision,
            rule: self.rule.as_deref(),
            limit: self.limit.as_ref(),
            delay_ms: self.delay_ms,
            retry_after_ms: self.retry_after_ms,
            degraded: self.degraded,
            carried: self.carried.iter().map(|(name, value)| (&**name, &**value)).collect(),
        }
    }
}
