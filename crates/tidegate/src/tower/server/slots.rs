//! Leases of requests that are being answered: held until the body of the response ends, and renewed until then.
//!
//! One task renews all leases of a layer, in the background, so that neither a handler that takes long nor a client that
//! reads slowly loses its slot. There is no timer per lease: the task sleeps until the first one is due.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use foldhash::fast::RandomState;
use tidegate_core::{Nanos, Timestamp};

use crate::memory::Lease;
use crate::store::LeaseReply;
use crate::{Timer, background};

/// How often a lease is renewed per ttl, so that two renewals in a row may fail.
const RENEWALS_PER_TTL: u128 = 3;

/// A lease that is held. Dropping this releases it.
pub(super) struct Slot {
    keeper: Arc<dyn ReleaseSlot>,
    number: u64,
}

/// The guard of a lease, which releases it when it is dropped.
pub(super) trait LeaseGuard: Send + 'static {
    fn lease(&self) -> Option<Lease>;

    /// Starts to renew the lease. None if there is nothing left to renew.
    fn start_renewal(&self) -> Option<Renewing>;

    fn set_lease(&mut self, lease: Lease);
}

/// The reply to a renewal. None if the store did not answer.
pub(super) type Renewing = Pin<Box<dyn Future<Output = Option<LeaseReply>> + Send>>;

/// Keeps the leases of one layer.
pub(super) struct SlotKeeper<G, C> {
    state: Mutex<KeeperState<G>>,
    clock: C,
}

struct KeeperState<G> {
    slots: HashMap<u64, HeldLease<G>, RandomState>,
    /// The leases that are not being renewed, by when they are due for renewal.
    due: BTreeSet<(Timestamp, u64)>,
    slots_total: u64,
    renewal: Renewal,
}

struct HeldLease<G> {
    /// None while the lease is being renewed.
    guard: Option<G>,
    due: Timestamp,
}

/// What the renewal task does.
enum Renewal {
    Stopped,
    Renewing,
    SleepsUntil(Timestamp, Option<Waker>),
}

/// What to do when a lease is held.
enum OnHold {
    Start,
    Wake(Waker),
    None,
}

impl Renewal {
    /// A lease is due at this instant.
    fn on_due(&mut self, due: Timestamp) -> OnHold {
        match self {
            Self::Stopped => {
                *self = Self::Renewing;
                OnHold::Start
            }
            Self::SleepsUntil(until, waker) if due < *until => {
                waker.take().map_or(OnHold::None, OnHold::Wake)
            }
            _ => OnHold::None,
        }
    }
}

trait ReleaseSlot: Send + Sync {
    fn release(&self, number: u64);
}

impl<G: LeaseGuard, C: Timer + Send + Sync + 'static> SlotKeeper<G, C> {
    pub fn new(clock: C) -> Arc<Self> {
        let state = KeeperState {
            slots: HashMap::default(),
            due: BTreeSet::new(),
            slots_total: 0,
            renewal: Renewal::Stopped,
        };
        Arc::new(Self { state: Mutex::new(state), clock })
    }

    /// Holds a lease until the slot is dropped. None without a lease.
    pub fn hold(self: &Arc<Self>, guard: G) -> Option<Slot> {
        let lease = guard.lease()?;
        let due = renewal_due(&lease);
        let (number, action) = {
            let mut state = self.lock();
            state.slots_total += 1;
            let number = state.slots_total;
            state.slots.insert(number, HeldLease { guard: Some(guard), due });
            state.due.insert((due, number));
            (number, state.renewal.on_due(due))
        };
        // Without the mutex held: a waker may run its task immediately.
        match action {
            OnHold::Start => background::spawn(renew(Arc::clone(self))),
            OnHold::Wake(waker) => waker.wake(),
            OnHold::None => {}
        }
        Some(Slot { keeper: self.clone(), number })
    }
}

impl<G, C> SlotKeeper<G, C> {
    fn lock(&self) -> MutexGuard<'_, KeeperState<G>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<G: Send, C: Send + Sync> ReleaseSlot for SlotKeeper<G, C> {
    fn release(&self, number: u64) {
        // Drop the guard without the mutex held. If the lease is being renewed, that task drops the guard.
        let held = {
            let mut state = self.lock();
            let held = state.slots.remove(&number);
            if let Some(held) = &held {
                state.due.remove(&(held.due, number));
            }
            held
        };
        drop(held);
    }
}

/// Renews leases until there are none.
async fn renew<G: LeaseGuard, C: Timer + Send + Sync + 'static>(keeper: Arc<SlotKeeper<G, C>>) {
    while let Some(due) = next_due(&keeper) {
        sleep_until_due(&keeper, due).await;
        let renewals: Vec<(u64, G, Option<Renewing>)> = take_due(&keeper);
        for (number, mut guard, renewing) in renewals {
            let reply = match renewing {
                Some(renewing) => renewing.await,
                None => Some(LeaseReply::None),
            };
            let next = match reply.map(LeaseReply::into_lease) {
                Some(Some(lease)) => {
                    guard.set_lease(lease);
                    Some(renewal_due(&lease))
                }
                // The lease is gone. The request goes on without it.
                Some(None) => None,
                None => guard.lease().and_then(|lease| retry_due(&lease, keeper.clock.now())),
            };
            let ended = {
                let mut state = keeper.lock();
                let state = &mut *state;
                match (state.slots.get_mut(&number), next) {
                    (Some(held), Some(due)) => {
                        (held.due, held.guard) = (due, Some(guard));
                        state.due.insert((due, number));
                        None
                    }
                    // The lease is gone, or the response ended meanwhile.
                    _ => Some((guard, state.slots.remove(&number))),
                }
            };
            // Without the mutex held: it releases the lease.
            drop(ended);
        }
    }
}

/// The first instant at which a lease is due. Stops the task if there is none.
fn next_due<G, C>(keeper: &SlotKeeper<G, C>) -> Option<Timestamp> {
    let mut state = keeper.lock();
    let due = state.due.first().map(|(due, _)| *due);
    state.renewal = due.map_or(Renewal::Stopped, |due| Renewal::SleepsUntil(due, None));
    due
}

/// Sleeps until `due`, or until a lease is held that is due earlier.
async fn sleep_until_due<G, C: Timer>(keeper: &SlotKeeper<G, C>, due: Timestamp) {
    let mut sleep = keeper.clock.sleep_until(due);
    poll_fn(|context| {
        {
            let mut state = keeper.lock();
            if state.due.first().is_some_and(|(first, _)| *first < due) {
                return Poll::Ready(());
            }
            state.renewal = Renewal::SleepsUntil(due, Some(context.waker().clone()));
        }
        Pin::new(&mut sleep).poll(context)
    })
    .await;
}

/// Takes the guards of the leases that are due, and starts to renew them.
fn take_due<G: LeaseGuard, C: Timer>(keeper: &SlotKeeper<G, C>) -> Vec<(u64, G, Option<Renewing>)> {
    let now = keeper.clock.now();
    let taken: Vec<(u64, G)> = {
        let mut state = keeper.lock();
        let state = &mut *state;
        state.renewal = Renewal::Renewing;
        let later = state.due.split_off(&(now, u64::MAX));
        let due = std::mem::replace(&mut state.due, later);
        let mut guard = |number: u64| Some((number, state.slots.get_mut(&number)?.guard.take()?));
        due.into_iter().filter_map(|(_, number)| guard(number)).collect()
    };
    // All start before the first is waited for.
    let start = |(number, guard): (u64, G)| {
        let renewing = guard.start_renewal();
        (number, guard, renewing)
    };
    taken.into_iter().map(start).collect()
}

fn renewal_due(lease: &Lease) -> Timestamp {
    lease.since.saturating_add(Nanos::new(lease.ttl().get() / RENEWALS_PER_TTL))
}

/// When to try again after the store did not answer. None if the lease has expired by then.
fn retry_due(lease: &Lease, now: Timestamp) -> Option<Timestamp> {
    let next = now.saturating_add(Nanos::new((lease.ttl().get() / (4 * RENEWALS_PER_TTL)).max(1)));
    (next < lease.expires).then_some(next)
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.keeper.release(self.number);
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("number", &self.number).finish_non_exhaustive()
    }
}
