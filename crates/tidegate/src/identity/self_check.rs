//! Observations that hint at a wrong configuration. Each is reported once.
//!
//! They look at few requests, and take no lock that another request holds, so that they cost next to nothing.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher as _, Hash as _, Hasher as _};
use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use foldhash::quality::RandomState;
use tidegate_core::rules::{Descriptor, KeyPart, KeySpec, key_value, parse_client_address};

use super::{ClientAddress, ForwardedHeader, Headers};

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

    /// Looks at the key of a request for a limit, which `limit` names. A sample of requests is enough.
    pub fn observe_key(&self, limit: &str, key: &KeySpec, descriptor: &Descriptor<'_>) -> Option<SelfCheck> {
        if key.parts().is_empty() {
            return None;
        }
        let found_all =
            [&self.found_raw_ipv6, &self.found_one_key].iter().all(|found| found.load(Ordering::Relaxed));
        if found_all {
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
        let is_one_key = self.watch(self.hasher.hash_one(limit), hasher.finish());
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
                "all requests so far have the same key, so they share one counter (hint: check where the attribute comes \
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
    use tidegate_core::rules::{Attribute, Entry};

    use super::*;

    fn user_key() -> KeySpec {
        KeySpec::new([KeyPart::Attribute(Attribute::from_name("user"))])
    }

    fn observe(checks: &SelfChecks, key: &KeySpec, value: &str) -> Option<SelfCheck> {
        let entries = ["user", "ip"].map(|key| Entry { key, value });
        checks.observe_key("rule", key, &Descriptor::new(&entries, 1))
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
        assert_eq!(checks.observe_key("all", &KeySpec::default(), &Descriptor::new(&[], 1)), None);
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
            checks.observe_key(&number.to_string(), &user_key(), &Descriptor::new(&entries, 1));
        }
        assert_eq!(checks.watched.lock().unwrap().len(), WATCHED_LIMITS_MAX);
    }
}
