//! The header map of an answer.
//!
//! Inserting a header into a map hashes its name. Nearly all answers have one of two lists of headers, so their maps are
//! made once. An answer clones one of them and writes its values.

use std::iter;
use std::sync::LazyLock;

use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use crate::serve::headers::LimitHeader;
use crate::serve::rls;

/// The headers of a request that passes.
static PASSED: LazyLock<Template> = LazyLock::new(|| Template::new(&PASSED_HEADERS));
const PASSED_HEADERS: [LimitHeader; 5] =
    [LimitHeader::Limit, LimitHeader::Remaining, LimitHeader::Reset, LimitHeader::Policy, LimitHeader::State];
/// The headers of a request that is denied.
static DENIED: LazyLock<Template> = LazyLock::new(|| Template::new(&DENIED_HEADERS));
const DENIED_HEADERS: [LimitHeader; 7] = [
    LimitHeader::RetryAfter,
    LimitHeader::XRetryAfter,
    LimitHeader::Limit,
    LimitHeader::Remaining,
    LimitHeader::Reset,
    LimitHeader::Policy,
    LimitHeader::State,
];

/// The decision.
pub(super) const DECISION_HEADER: HeaderName = HeaderName::from_static(rls::DECISION_HEADER);
/// The number of `COMMON_HEADERS`.
const COMMON_COUNT: usize = 2;
/// The headers of every answer, before those about limits.
const COMMON_HEADERS: [HeaderName; COMMON_COUNT] = [CONTENT_TYPE, DECISION_HEADER];

/// A map of the common headers and these, with empty values.
struct Template {
    headers: &'static [LimitHeader],
    map: HeaderMap,
}

/// A map of the common headers and these. There is a value for each.
pub(super) fn header_map(
    common: [HeaderValue; COMMON_COUNT],
    headers: impl ExactSizeIterator<Item = LimitHeader> + Clone,
    values: impl Iterator<Item = HeaderValue>,
) -> HeaderMap {
    match [&PASSED, &DENIED].into_iter().find(|template| headers.clone().eq(template.headers.iter().copied()))
    {
        Some(template) => template.filled(common.into_iter().chain(values)),
        None => inserted(common, headers, values),
    }
}

impl Template {
    fn new(headers: &'static [LimitHeader]) -> Self {
        let empty = || HeaderValue::from_static("");
        let common = [empty(), empty()];
        Self { headers, map: inserted(common, headers.iter().copied(), iter::repeat_with(empty)) }
    }

    /// Its map with other values, in the order of its headers.
    fn filled(&self, values: impl Iterator<Item = HeaderValue>) -> HeaderMap {
        let mut map = self.map.clone();
        // A map that nothing was removed from has its headers in the order in which they were inserted.
        map.values_mut().zip(values).for_each(|(place, value)| *place = value);
        map
    }
}

fn inserted(
    common: [HeaderValue; COMMON_COUNT],
    headers: impl ExactSizeIterator<Item = LimitHeader>,
    values: impl Iterator<Item = HeaderValue>,
) -> HeaderMap {
    let mut map = HeaderMap::with_capacity(headers.len() + COMMON_COUNT);
    map.extend(COMMON_HEADERS.into_iter().zip(common));
    map.extend(headers.map(header_name).zip(values));
    map
}

fn header_name(header: LimitHeader) -> HeaderName {
    macro_rules! name {
        ($header:ident) => {{
            const NAME: HeaderName = HeaderName::from_static(LimitHeader::$header.name());
            NAME
        }};
    }
    match header {
        LimitHeader::RetryAfter => name!(RetryAfter),
        LimitHeader::XRetryAfter => name!(XRetryAfter),
        LimitHeader::Limit => name!(Limit),
        LimitHeader::Remaining => name!(Remaining),
        LimitHeader::Reset => name!(Reset),
        LimitHeader::Policy => name!(Policy),
        LimitHeader::State => name!(State),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filled_template_is_as_if_inserted() {
        let common = || ["application/json", "allowed"].map(HeaderValue::from_static);
        for headers in [&PASSED_HEADERS[..], &DENIED_HEADERS, &[LimitHeader::Limit], &[]] {
            let values = || headers.iter().map(|header| HeaderValue::from_static(header.name()));
            let map = header_map(common(), headers.iter().copied(), values());
            assert_eq!(map, inserted(common(), headers.iter().copied(), values()));
            assert_eq!(map.len(), headers.len() + COMMON_COUNT);
            assert!(headers.iter().all(|header| map[header.name()] == header.name()), "{map:?}");
        }
    }
}
