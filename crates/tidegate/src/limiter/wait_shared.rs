//! Waiting for a limit over a store that may answer later.

use std::time::Duration;

use tidegate_core::{Nanos, Timestamp, Wait};

use super::admitted::LimiterRef;
use super::{Admitted, Asking, Limiter, span};
use crate::store::Store;
use crate::{Clock, Refused, StoreFailure, Timer};

/// How often the store is asked at least: units that come back to other nodes are not announced.
const POLL_EVERY: Nanos = Nanos::new(1_000_000_000);
/// The same for leases, which are given back at any time.
const POLL_LEASES_EVERY: Nanos = Nanos::new(100_000_000);

/// What a request waits for.
pub(crate) struct Wanted {
    pub key: Box<[u8]>,
    pub cost: u64,
    /// How long it holds, if that is less than the limits would give.
    pub ttl: Option<Nanos>,
    pub max_wait: Option<Duration>,
}

/// Waits until a request is admitted.
///
/// The store is asked again when it said that the request may fit. Requests of one process do not queue here: whichever asks first
/// gets the units.
pub(crate) async fn until_admitted<'a, C: Timer, S: Store>(
    limiter: LimiterRef<'a, C, S>,
    wanted: Wanted,
) -> Result<Admitted<'a, C, S>, Refused> {
    let Wanted { key, cost, ttl, max_wait } = wanted;
    let clock = limiter.get().clock();
    let arrived = clock.now();
    let deadline = max_wait.map(|max_wait| arrived.saturating_add(span(max_wait)));
    loop {
        let wait = match limiter.get().wait_without_charge(&key, cost).await? {
            Some(wait) => wait,
            None => match Asking::acquire(limiter.clone(), &key, cost, ttl).await {
                Ok(admitted) => return held_for_its_delay(limiter.get(), admitted, arrived).await,
                Err(Refused::OverLimit(decision)) => decision.retry_after,
                Err(refused) => return Err(refused),
            },
        };
        let Some(wait) = wait.span() else { return Err(Refused::Never) };
        let now = clock.now();
        let (due, is_known) = (now.saturating_add(wait), !limiter.get().has_leases(now));
        if let Some(deadline) = deadline {
            if is_known && due > deadline {
                return Err(Refused::TooLong { wait: Some(between(arrived, due)) });
            }
            if now >= deadline {
                return Err(Refused::TooLong { wait: None });
            }
        }
        let poll_at = now.saturating_add(if is_known { POLL_EVERY } else { POLL_LEASES_EVERY });
        clock.sleep_until(deadline.into_iter().fold(due.min(poll_at), Timestamp::min)).await;
    }
}

/// A leaky bucket admits a request that is to leave later.
async fn held_for_its_delay<'a, C: Timer, S: Store>(
    limiter: &Limiter<C, S>,
    admitted: Admitted<'a, C, S>,
    arrived: Timestamp,
) -> Result<Admitted<'a, C, S>, Refused> {
    let leaves = limiter.clock().now().saturating_add(admitted.decision().delay);
    if admitted.decision().delay > Nanos::ZERO {
        limiter.clock().sleep_until(leaves).await;
    }
    Ok(admitted.after(between(arrived, leaves).as_duration()))
}

impl<C: Clock, S: Store> Limiter<C, S> {
    /// A request that waits makes one attempt, when it is admitted: until then it only peeks, where attempts count.
    async fn wait_without_charge(&self, key: &[u8], cost: u64) -> Result<Option<Wait>, StoreFailure> {
        if !self.counts_denied(self.clock().now()) {
            return Ok(None);
        }
        let decision = Asking::peek(LimiterRef::Borrowed(self), key, cost).await?;
        Ok((!decision.is_allowed()).then_some(decision.retry_after))
    }
}

fn between(from: Timestamp, to: Timestamp) -> Nanos {
    Nanos::new(u128::from(to.as_nanos().saturating_sub(from.as_nanos())))
}
