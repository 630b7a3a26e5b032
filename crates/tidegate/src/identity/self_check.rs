//! Observations that hint at a wrong configuration. Each is reported once.
//!
//! They look at few requests, and take no lock that another request holds, so that they cost next to nothing.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher as _, Hash, Hasher as _};
use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use foldhash::quality::RandomState;
use tidegate_core::rules::{
    Attribute, Descriptor, KeyPart, KeySpec, LimitAnswer, Pattern, Rule, key_value, parse_client_address,
};

use super::{ClientAddress, ForwardedHeader, Headers};

/// The keys of one in this many requests are looked at.
const OBSERVED_EVERY: u32 = 64;
/// The headers of this many requests are looked at.
const HEADERS_REQUESTS_MAX: u32 = 10_000;
/// After this many observed requests with the same key, it is reported.
const ONE_KEY_REQUESTS: u32 = 1_000;
/// The keys of this many limits are watched.
const WATCHED_LIMITS_MAX: usize = 256;

/// A hint at a wrong configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SelfCheck {
    /// Requests have X-Forwarded-For or Forwarded, but no proxy is trusted.
    ForwardedUntrusted,
    /// All requests have the same key.
    OneKey,
    /// A key has an IPv6 address as text, so that it is not grouped.
    RawIpv6Key,
}

/// Finds hints at a wrong configuration in requests.
#[derive(Debug, Default)]
pub struct SelfChecks {
    found_forwarded: AtomicBool,
    found_one_key: AtomicBool,
    found_raw_ipv6: AtomicBool,
    /// Requests whose headers were looked at. Threads may overwrite each other: it is a bound, not a count.
    headers_seen: AtomicU32,
    /// Requests whose keys might have been looked at, with the same restriction.
    keys_seen: AtomicU32,
    watched: Mutex<HashMap<u64, WatchedKey>>,
    hasher: RandomState,
}

/// The keys of one limit so far.
#[derive(Clone, Copy, Debug)]
enum WatchedKey {
    /// The same one, this many times.
    Same { key_hash: u64, requests: u32 },
    /// Several.
    Different,
}

impl SelfChecks {
    /// Looks at the headers of a request.
    pub fn observe_headers(
        &self,
        client_address: &ClientAddress,
        headers: &(impl Headers + ?Sized),
    ) -> Option<SelfCheck> {
        let seen = self.headers_seen.load(Ordering::Relaxed);
        if seen >= HEADERS_REQUESTS_MAX || client_address.header_name().is_some() {
            return None;
        }
        self.headers_seen.store(seen + 1, Ordering::Relaxed);
        let names = [ForwardedHeader::XForwardedFor, ForwardedHeader::Forwarded].map(ForwardedHeader::name);
        let is_forwarded = names.iter().any(|name| headers.values(name).next().is_some());
        (is_forwarded && is_first(&self.found_forwarded)).then_some(SelfCheck::ForwardedUntrusted)
    }

    /// Looks at the keys of some requests: those of the limits of a request that was decided. Calls `report` for what it
    /// finds.
    #[inline]
    pub fn observe_limits<'l>(
        &self,
        limits: impl IntoIterator<Item = LimitAnswer<'l>>,
        descriptor: &Descriptor<'_>,
        mut report: impl FnMut(SelfCheck, &LimitAnswer<'l>),
    ) {
        if self.next_in_sample().is_none() {
            return;
        }
        for limit in limits {
            let name = (&limit.rule.name, limit.id);
            if let Some(found) = self.observe_key(name, limit.rule, &limit.limit.key, descriptor) {
                report(found, &limit);
            }
        }
    }

    /// Whether to look at the keys of this request.
    #[inline]
    fn next_in_sample(&self) -> Option<()> {
        let seen = self.keys_seen.load(Ordering::Relaxed);
        self.keys_seen.store(seen.wrapping_add(1), Ordering::Relaxed);
        seen.is_multiple_of(OBSERVED_EVERY).then_some(())
    }

    /// Looks at the keys of some requests: the key of a request to a limiter that has one key for each request.
    #[cfg(feature = "tower")]
    pub(crate) fn observe_limiter_key(&self, key: &[u8]) -> Option<SelfCheck> {
        // Without a key there is nothing to separate.
        if key.is_empty() || self.has_found_all() || self.next_in_sample().is_none() {
            return None;
        }
        if str::from_utf8(key).is_ok_and(is_ipv6) && is_first(&self.found_raw_ipv6) {
            return Some(SelfCheck::RawIpv6Key);
        }
        let is_one_key = self.watch(0, self.hasher.hash_one(key));
        (is_one_key && is_first(&self.found_one_key)).then_some(SelfCheck::OneKey)
    }

    fn has_found_all(&self) -> bool {
        [&self.found_raw_ipv6, &self.found_one_key].iter().all(|found| found.load(Ordering::Relaxed))
    }

    fn observe_key(
        &self,
        limit: impl Hash,
        rule: &Rule,
        key: &KeySpec,
        descriptor: &Descriptor<'_>,
    ) -> Option<SelfCheck> {
        if key.parts().is_empty() || self.has_found_all() {
            return None;
        }
        let mut hasher = self.hasher.build_hasher();
        let mut has_raw_ipv6 = false;
        for part in key.parts() {
            // A request without the attribute says nothing about the others.
            let value = key_value(part, descriptor)?;
            value.hash(&mut hasher);
            has_raw_ipv6 |= !matches!(part, KeyPart::Address { .. }) && is_ipv6(&value);
        }
        if has_raw_ipv6 && is_first(&self.found_raw_ipv6) {
            return Some(SelfCheck::RawIpv6Key);
        }
        let is_one_key = !key.parts().iter().all(|part| is_fixed(part, rule))
            && self.watch(self.hasher.hash_one(limit), hasher.finish());
        (is_one_key && is_first(&self.found_one_key)).then_some(SelfCheck::OneKey)
    }

    /// Whether a limit has had many requests, all with this key.
    fn watch(&self, limit: u64, key_hash: u64) -> bool {
        let Ok(mut watched) = self.watched.try_lock() else { return false };
        if watched.len() >= WATCHED_LIMITS_MAX && !watched.contains_key(&limit) {
            return false;
        }
        let entry = watched.entry(limit).or_insert(WatchedKey::Same { key_hash, requests: 0 });
        match entry {
            WatchedKey::Same { key_hash: first, requests } if *first == key_hash => {
                *requests = requests.saturating_add(1);
                *requests >= ONE_KEY_REQUESTS
            }
            _ => {
                *entry = WatchedKey::Different;
                false
            }
        }
    }
}

/// Whether the rule matches only requests that have the same value for this part.
fn is_fixed(part: &KeyPart, rule: &Rule) -> bool {
    let is_exact = |attribute: &Attribute| {
        let mut conditions = rule.conditions.iter();
        conditions.any(|known| known.attribute == *attribute && matches!(known.pattern, Pattern::Exact(_)))
    };
    match part {
        KeyPart::Attribute(attribute) => is_exact(attribute),
        KeyPart::PathSegment { .. } => is_exact(&Attribute::Path),
        KeyPart::Entry(index) => {
            let entry = rule.entries.as_ref().and_then(|entries| entries.patterns.get(*index));
            entry.is_some_and(|(_, pattern)| matches!(pattern, Pattern::Exact(_)))
        }
        KeyPart::Address { .. } | KeyPart::EntryName(_) => false,
    }
}

/// Whether this is the first time.
fn is_first(found: &AtomicBool) -> bool {
    !found.load(Ordering::Relaxed) && !found.swap(true, Ordering::Relaxed)
}

fn is_ipv6(value: &str) -> bool {
    value.contains(':') && matches!(parse_client_address(value), Some(IpAddr::V6(_)))
}

impl SelfCheck {
    /// The code, which does not change.
    pub fn code(self) -> &'static str {
        match self {
            Self::ForwardedUntrusted => "forwarded-untrusted",
            Self::OneKey => "one-key",
            Self::RawIpv6Key => "raw-ipv6-key",
        }
    }
}

impl fmt::Display for SelfCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ForwardedUntrusted => {
                "requests have X-Forwarded-For or Forwarded, but no proxy is trusted, so all clients behind a proxy are \
                 one client (hint: set the number of trusted hops)"
            }
            Self::OneKey => {
                "all requests so far have the same key for a limit, so they share one counter (hint: check where the attribute comes \
                 from; behind a proxy, set the number of trusted hops)"
            }
            Self::RawIpv6Key => {
                "a key has an IPv6 address as text, so a client has a new counter for each of its addresses (hint: use \
                 `ip` or `remote_address` in a native rule, which groups addresses by /64)"
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::rules::{Condition, Entry};

    use super::*;

    fn user_key() -> KeySpec {
        KeySpec::new([KeyPart::Attribute(Attribute::from_name("user"))])
    }

    fn observe(checks: &SelfChecks, key: &KeySpec, value: &str) -> Option<SelfCheck> {
        let entries = ["user", "ip"].map(|key| Entry { key, value });
        checks.observe_key("limit", &Rule::default(), key, &Descriptor::new(&entries, 1))
    }

    #[test]
    fn untrusted_headers_are_reported_once() {
        let checks = SelfChecks::default();
        let (peer, trusted) =
            (ClientAddress::peer(), ClientAddress::trusted_hops(ForwardedHeader::Forwarded, 1));
        let (none, forwarded): (&[(&str, &str)], _) = (&[], [("X-Forwarded-For", "1.1.1.1")].as_slice());
        assert_eq!(checks.observe_headers(&peer, none), None);
        assert_eq!(checks.observe_headers(&trusted, forwarded), None);
        assert_eq!(checks.observe_headers(&peer, forwarded), Some(SelfCheck::ForwardedUntrusted));
        assert_eq!(checks.observe_headers(&peer, forwarded), None);
    }

    #[test]
    fn one_key_is_reported_after_many_requests() {
        let checks = SelfChecks::default();
        let findings = |value: &dyn Fn(u32) -> String| -> Vec<_> {
            (0..3 * ONE_KEY_REQUESTS)
                .filter_map(|number| observe(&checks, &user_key(), &value(number)))
                .collect()
        };
        assert_eq!(findings(&|number| if number == 5 { "bob" } else { "ann" }.to_owned()), []);
        let checks = SelfChecks::default();
        let mut at = (1..=3 * ONE_KEY_REQUESTS).filter(|_| observe(&checks, &user_key(), "ann").is_some());
        assert_eq!((at.next(), at.next()), (Some(ONE_KEY_REQUESTS), None));
        // Without a key there is nothing to separate.
        let none = checks.observe_key("all", &Rule::default(), &KeySpec::default(), &Descriptor::new(&[], 1));
        assert_eq!(none, None);
    }

    #[test]
    fn a_rule_for_one_key_is_not_reported() {
        let condition = |pattern| Condition { attribute: Attribute::from_name("user"), pattern };
        let findings = |pattern| {
            let rule = Rule { conditions: vec![condition(pattern)], ..Rule::default() };
            let (checks, entries) = (SelfChecks::default(), [Entry { key: "user", value: "ann" }]);
            let descriptor = Descriptor::new(&entries, 1);
            let findings =
                (0..ONE_KEY_REQUESTS).filter_map(|_| checks.observe_key(1, &rule, &user_key(), &descriptor));
            findings.count()
        };
        assert_eq!(findings(Pattern::Exact("ann".into())), 0);
        assert_eq!(findings(Pattern::Prefix("a".into())), 1);
    }

    #[test]
    fn addresses_in_other_attributes_are_reported_once() {
        let checks = SelfChecks::default();
        for value in ["ann", "10:30", "192.0.2.1", "::ffff:192.0.2.1"] {
            assert_eq!(observe(&checks, &user_key(), value), None, "{value}");
        }
        let address = "2001:db8::1";
        assert_eq!(observe(&checks, &KeySpec::new([KeyPart::IP]), address), None);
        assert_eq!(observe(&checks, &user_key(), address), Some(SelfCheck::RawIpv6Key));
        assert_eq!(observe(&checks, &user_key(), address), None);
    }

    #[test]
    fn the_number_of_watched_limits_is_bounded() {
        let checks = SelfChecks::default();
        let entries = [Entry { key: "user", value: "ann" }];
        for number in 0..2 * WATCHED_LIMITS_MAX {
            checks.observe_key(number, &Rule::default(), &user_key(), &Descriptor::new(&entries, 1));
        }
        assert_eq!(checks.watched.lock().unwrap().len(), WATCHED_LIMITS_MAX);
    }
}
