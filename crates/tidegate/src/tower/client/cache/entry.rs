//! A stored response: what it is stored for, and when it may be used.

use std::time::Duration;

use bytes::Bytes;
use http::header::{
    AGE, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_RANGE, COOKIE, ETAG, HeaderMap, HeaderName,
    HeaderValue, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, LAST_MODIFIED,
    RANGE, SET_COOKIE, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, VARY,
};
use http::request::Parts;
use http::response::Parts as ResponseParts;
use http::{Method, StatusCode};
use tidegate_core::Timestamp;

use super::control::{CacheControl, Freshness};

/// Headers that tell users apart even if the server forgets to say so in `Vary`. One cache may serve several users.
const ALWAYS_VARIES: [HeaderName; 2] = [AUTHORIZATION, COOKIE];
/// Headers of requests that a caller makes conditional itself.
const CONDITIONAL: [HeaderName; 6] =
    [IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE, IF_RANGE, RANGE];
/// Headers of one connection.
const HOP_BY_HOP: [HeaderName; 5] = [CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];
/// Estimate of what an entry takes beside its texts.
const ENTRY_BYTES: usize = 512;

/// A response that may be used again.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub parts: ResponseParts,
    pub body: Bytes,
    /// Headers of the request that the response depends on, with their values.
    varies: Vec<(HeaderName, Vec<HeaderValue>)>,
    received_at: Timestamp,
    freshness: Freshness,
    /// Whether the server must be asked each time.
    no_cache: bool,
}

/// What a request allows the cache to do.
pub(super) struct CacheableRequest {
    pub key: Box<str>,
    pub control: CacheControl,
    headers: HeaderMap,
}

impl CacheableRequest {
    /// None if the request must not be answered from the cache, nor its response stored.
    pub fn read(parts: &Parts) -> Option<Self> {
        let control = CacheControl::read(&parts.headers);
        let is_plain = CONDITIONAL.iter().all(|name| !parts.headers.contains_key(name));
        let is_cacheable = parts.method == Method::GET && !control.no_store && is_plain;
        is_cacheable.then(|| Self { key: cache_key(parts), control, headers: parts.headers.clone() })
    }
}

/// The URI with the host.
pub(super) fn cache_key(parts: &Parts) -> Box<str> {
    let host = parts.headers.get(http::header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    match parts.uri.authority() {
        Some(_) => parts.uri.to_string().into(),
        None => format!("{host}{}", parts.uri).into(),
    }
}

impl Entry {
    /// The entry of a response, without its body. None if it must not be stored, or would never be used.
    pub fn new(parts: &ResponseParts, request: &CacheableRequest, now: Timestamp) -> Option<Self> {
        let headers = &parts.headers;
        let control = CacheControl::read(headers);
        let is_storable = is_cacheable_status(parts.status)
            && !control.no_store
            && ![CONTENT_RANGE, SET_COOKIE].iter().any(|name| headers.contains_key(name));
        if !is_storable {
            return None;
        }
        let freshness = Freshness::read(headers, control, now);
        let is_fresh = !control.no_cache && freshness.lifetime > freshness.age;
        if !is_fresh && !has_validator(headers) {
            return None;
        }
        let varies = varying_names(headers)?
            .map(|name| {
                let values = request.headers.get_all(&name).iter().cloned().collect();
                (name, values)
            })
            .collect();
        let mut parts = parts.clone();
        HOP_BY_HOP.iter().for_each(|name| drop(parts.headers.remove(name)));
        parts.extensions.clear();
        let no_cache = control.no_cache;
        Some(Self { parts, body: Bytes::new(), varies, received_at: now, freshness, no_cache })
    }

    /// Whether the stored response is one to this request.
    pub fn matches(&self, request: &CacheableRequest) -> bool {
        self.varies.iter().all(|(name, values)| request.headers.get_all(name).iter().eq(values))
    }

    /// Whether the response may be used without asking the server.
    pub fn is_fresh(&self, request: &CacheControl, now: Timestamp) -> bool {
        let age = self.age(now);
        let within = |max: Option<Duration>| max.is_none_or(|max| age <= max);
        let left = self.freshness.lifetime.saturating_sub(age);
        !self.no_cache
            && !request.no_cache
            && left > request.min_fresh.unwrap_or_default()
            && within(request.max_age)
    }

    /// Asks the server whether the response is still the same. None if it has nothing to compare by.
    pub fn add_validators(&self, request: &mut HeaderMap) -> Option<()> {
        let etag = self.parts.headers.get(ETAG).map(|etag| request.insert(IF_NONE_MATCH, etag.clone()));
        let modified = self.parts.headers.get(LAST_MODIFIED);
        let modified = modified.map(|date| request.insert(IF_MODIFIED_SINCE, date.clone()));
        etag.or(modified).map(drop)
    }

    /// The head of the response after the server has confirmed it with a 304, whose headers take precedence.
    pub fn confirmed_parts(&self, not_modified: &ResponseParts) -> ResponseParts {
        let mut parts = self.parts.clone();
        let is_of_response = |name: &&HeaderName| **name != CONTENT_LENGTH && !HOP_BY_HOP.contains(name);
        for name in not_modified.headers.keys().filter(is_of_response) {
            parts.headers.remove(name);
            for value in not_modified.headers.get_all(name) {
                parts.headers.append(name, value.clone());
            }
        }
        // The age of the first response ends with this one.
        if !not_modified.headers.contains_key(AGE) {
            parts.headers.remove(AGE);
        }
        parts
    }

    /// The head of a response from the cache, with its age.
    pub fn response_parts(&self, now: Timestamp) -> ResponseParts {
        let mut parts = self.parts.clone();
        parts.headers.insert(AGE, self.age(now).as_secs().into());
        parts
    }

    /// Whether the whole body was received, as far as the server said how long it is.
    pub fn is_complete(&self) -> bool {
        let length =
            self.parts.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        length.is_none_or(|length: usize| length == self.body.len())
    }

    /// What the entry takes, with its key.
    pub fn bytes(&self, key: &str) -> usize {
        let headers = self.parts.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 32);
        ENTRY_BYTES + 2 * key.len() + self.body.len() + headers.sum::<usize>()
    }

    fn age(&self, now: Timestamp) -> Duration {
        let here = now.as_nanos().saturating_sub(self.received_at.as_nanos());
        self.freshness.age.saturating_add(Duration::from_nanos(here))
    }
}

/// The headers of the request that the response depends on. None if on anything (`Vary: *`).
fn varying_names(headers: &HeaderMap) -> Option<impl Iterator<Item = HeaderName>> {
    let values: Option<Vec<&str>> = headers.get_all(VARY).iter().map(|value| value.to_str().ok()).collect();
    let names: Option<Vec<HeaderName>> =
        values?.into_iter().flat_map(|value| value.split(',')).map(|name| name.trim().parse().ok()).collect();
    // `*` is a valid name of a header.
    let names = names.filter(|names| names.iter().all(|name| name.as_str() != "*"))?;
    Some(names.into_iter().chain(ALWAYS_VARIES))
}

fn has_validator(headers: &HeaderMap) -> bool {
    headers.contains_key(ETAG) || headers.contains_key(LAST_MODIFIED)
}

fn is_cacheable_status(status: StatusCode) -> bool {
    matches!(status.as_u16(), 200 | 203 | 204 | 300 | 301 | 308 | 404 | 410 | 414)
}
