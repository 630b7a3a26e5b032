//! Until when servers have said that their limits are used up.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use tidegate_core::{Nanos, Timestamp};

/// The most servers whose limits are remembered.
const SERVERS_MAX: usize = 1_024;
/// How long a limit is remembered at most. A longer one may be that of a single endpoint or client. So other requests are sent
/// now and then, and learn whether they are denied too.
const REMEMBERED_MAX: Nanos = Nanos::new(60_000_000_000);

/// Instants by server. Only those in the future are kept.
#[derive(Debug, Default)]
pub(super) struct KnownLimits {
    until: Mutex<HashMap<Box<str>, Timestamp, RandomState>>,
}

impl KnownLimits {
    /// The limits of the server are used up until then, as far as is known.
    pub fn set(&self, server: &str, until: Timestamp, now: Timestamp) {
        let until = until.min(now.saturating_add(REMEMBERED_MAX));
        let mut known = self.lock();
        if let Some(known_until) = known.get_mut(server) {
            *known_until = until;
            return;
        }
        if known.len() >= SERVERS_MAX {
            known.retain(|_, until| *until > now);
        }
        if known.len() >= SERVERS_MAX {
            // Forget the one that matters least. A request to it may be denied once more.
            let next = known.iter().min_by_key(|(_, until)| **until).map(|(server, _)| server.clone());
            next.and_then(|server| known.remove(&server));
        }
        known.insert(server.into(), until);
    }

    /// Until when the limits of the server are used up, if that is in the future.
    pub fn used_up_until(&self, server: &str, now: Timestamp) -> Option<Timestamp> {
        let mut known = self.lock();
        let until = *known.get(server)?;
        if until <= now {
            known.remove(server);
            return None;
        }
        Some(until)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Timestamp, RandomState>> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_answer_of_a_server_counts_and_servers_are_bounded() {
        let at = Timestamp::from_nanos;
        let known = KnownLimits::default();
        known.set("a", at(100), at(0));
        assert_eq!(known.used_up_until("a", at(99)), Some(at(100)));
        assert_eq!(known.used_up_until("b", at(0)), None);
        known.set("a", at(50), at(10));
        assert_eq!(known.used_up_until("a", at(50)), None);
        known.set("a", Timestamp::from_nanos(u64::MAX), at(60));
        assert_eq!(known.used_up_until("a", at(60)), Some(at(60).saturating_add(REMEMBERED_MAX)));
        for server in 0..2 * SERVERS_MAX as u64 {
            known.set(&server.to_string(), at(1_000 + server), at(60));
        }
        assert_eq!(known.lock().len(), SERVERS_MAX);
        assert_eq!(known.used_up_until("0", at(60)), None, "the first to end is forgotten");
    }
}
