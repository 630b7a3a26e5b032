//! The modes `leased` and `eventual`: a layer over a shared store that decides at the speed of memory.
//!
//! ```text
//! Fallback -> ModeStore -> RedisStore       strict charges pass through
//!                |
//!                |- quota leases            leased: units that were debited in the shared store in advance
//!                '- replicas                eventual: copies of shared counts, and own units that are not shared yet
//! ```
//!
//! A plan may mix modes. The charges that are decided in memory come first, then the strict ones. If the strict ones
//! deny the plan, the others are given back.
//!
//! Time is handed in: by [`Ask::now`], by [`Store::tick`], and by a [`Clock`] for what happens while a reply is waited
//! for. So a simulation can run this code as it is.

mod calls;
mod counter_pool;
mod demand;
mod eventual;
mod key_charge;
mod key_table;
mod leased;
mod plan;
mod quota_lease;
mod refill;
mod replica;
mod ticks;
mod usage_peaks;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate_core::{CounterId, Plan, Timestamp};

use self::counter_pool::CounterPool;
use self::eventual::EventualKeys;
use self::leased::LeasedKeys;
use self::ticks::Ticks;
use self::usage_peaks::UsagePeaks;
use super::{Ask, Reply, ReplyFuture, Response, SpawnFn, Store, StoreError, Watch};
use crate::{Clock, background};

/// A layer over a shared store that decides charges in the modes `leased` and `eventual` in this process. Clones share
/// their leases and counts.
pub struct ModeStore<S> {
    inner: Arc<Inner<S>>,
}

/// The bounds of a [`ModeStore`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModeSettings {
    /// The most keys with a quota lease. Further keys are asked strictly.
    pub leased_keys_max: usize,
    /// The most keys with a copy of their shared count. Further keys are asked strictly.
    pub eventual_keys_max: usize,
    /// Seeds the hashes of keys. Keys of one shard are swept together, so a simulation gives a seed to repeat its runs
    /// exactly. By default the hashes are random, so that clients cannot choose keys that collide.
    pub hash_seed: Option<u64>,
}

/// What a [`ModeStore`] has done since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModeStats {
    /// Units that were debited in the shared store in advance.
    pub units_leased: u64,
    /// Leased units that were given back unused.
    pub units_returned: u64,
    /// Units that are leased now and not used yet.
    pub units_held: u64,
    /// Units that are lost until the limit refills: they could not be given back, or the debit was not answered.
    pub units_stranded: u64,
    /// Debits that were sent to the shared store.
    pub refills: u64,
    /// Charges that were admitted from a quota lease, without waiting for the shared store.
    pub leased_in_memory: u64,
    /// Synchronisations of a key with the shared store.
    pub pushes: u64,
    /// Synchronisations that failed.
    pub push_failures: u64,
    /// Units that were added to shared counts.
    pub units_pushed: u64,
    /// Own units that the shared store does not know yet.
    pub units_pending: u64,
    /// Charges that were decided from a copy of the shared count.
    pub eventual_in_memory: u64,
    /// Units beyond their limits that the copies of shared counts have now.
    pub units_debt: u64,
    /// Charges that were asked strictly because there were too many keys.
    pub strict_for_room: u64,
    /// Debits, refunds and synchronisations that wait for the shared store now.
    pub calls_under_way: u64,
}

struct Inner<S> {
    shared: S,
    clock: Box<dyn Clock + Send + Sync>,
    leased: LeasedKeys,
    eventual: EventualKeys,
    counter_pool: CounterPool,
    usage: UsagePeaks,
    ticks: Ticks,
    calls_under_way: AtomicU64,
}

/// Which keys a sweep concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sweep {
    /// Leases that are over or idle, and counts that are due.
    Due,
    All,
}

impl Default for ModeSettings {
    fn default() -> Self {
        Self { leased_keys_max: 100_000, eventual_keys_max: 100_000, hash_seed: None }
    }
}

impl<S: Store + 'static> ModeStore<S> {
    /// A layer over `shared`, with default bounds. It does its background work in [`Store::tick`].
    pub fn new(shared: S, clock: impl Clock + Send + Sync + 'static) -> Self {
        Self::with_settings(shared, clock, ModeSettings::default())
    }

    /// As [`new`](Self::new), with these bounds.
    pub fn with_settings(
        shared: S,
        clock: impl Clock + Send + Sync + 'static,
        settings: ModeSettings,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                shared,
                clock: Box::new(clock),
                leased: LeasedKeys::new(settings),
                eventual: EventualKeys::new(settings),
                counter_pool: CounterPool::default(),
                usage: UsagePeaks::default(),
                ticks: Ticks::default(),
                calls_under_way: AtomicU64::new(0),
            }),
        }
    }

    /// The same layer, which does its background work by itself as soon as a charge has one of its modes.
    #[must_use]
    pub fn with_own_ticks(self) -> Self {
        self.inner.ticks.enable();
        self
    }

    /// Gives back all leased units that are not used, and pushes all counts. For a change of the rules and for the end
    /// of the process. If there are many, [`tick`](Store::tick) sends the rest. What cannot be given back expires.
    pub fn return_leases(&self, now: Timestamp) {
        self.inner.sweep_leases(now, Sweep::All);
        self.inner.sweep_replicas(now, Sweep::All);
    }

    /// What the layer has done.
    pub fn stats(&self) -> ModeStats {
        let Inner { leased, eventual, clock, .. } = &*self.inner;
        let (units_pending, units_debt) = eventual.units_pending_and_debt(clock.now());
        let (leases, copies) = (&leased.counters, &eventual.counters);
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ModeStats {
            units_leased: get(&leases.units_leased),
            units_returned: get(&leases.units_returned),
            units_held: leased.units_held(),
            units_stranded: get(&leases.units_stranded),
            refills: get(&leases.refills),
            leased_in_memory: get(&leases.in_memory),
            pushes: get(&copies.pushes),
            push_failures: get(&copies.push_failures),
            units_pushed: get(&copies.units_pushed),
            units_pending,
            eventual_in_memory: get(&copies.in_memory),
            units_debt,
            strict_for_room: get(&leases.strict_for_room) + get(&copies.strict_for_room),
            calls_under_way: get(&self.inner.calls_under_way),
        }
    }

    /// What the most used key of each limit has used of it in the present window or the one before, as far as this node
    /// knows: one if the limit was reached, and more if it was exceeded. Leased units count as used.
    pub fn usage_ratios(&self) -> Vec<(CounterId, f64)> {
        self.inner.usage.ratios(self.inner.clock.now())
    }

    /// The shared store.
    pub fn shared(&self) -> &S {
        &self.inner.shared
    }
}

impl<S: Store + 'static> Inner<S> {
    /// Runs `then` with the reply: now, if there is one, or else in the background.
    fn when_answered(
        self: &Arc<Self>,
        response: Response,
        then: impl FnOnce(Result<Reply, StoreError>) + Send + 'static,
    ) {
        let mut later = match response {
            Response::Now(reply) => return then(reply),
            Response::Later(later) => later,
        };
        if let Poll::Ready(reply) = poll_once(&mut later) {
            return then(reply);
        }
        self.calls_under_way.fetch_add(1, Ordering::Relaxed);
        let inner = self.clone();
        self.spawn(async move {
            then(later.await);
            inner.calls_under_way.fetch_sub(1, Ordering::Relaxed);
        });
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        match self.shared.spawner() {
            Some(spawn) => spawn(Box::pin(task)),
            None => background::spawn(task),
        }
    }
}

/// Polls a reply once. A store in memory has it at once.
fn poll_once(later: &mut ReplyFuture) -> Poll<Result<Reply, StoreError>> {
    later.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

impl<S: Store + 'static> Store for ModeStore<S> {
    #[inline]
    fn ask(&self, ask: &Ask<'_, '_>) -> Response {
        match plan::has_modes(ask.plan) {
            false => self.inner.shared.ask(ask),
            true => {
                self.inner.start_ticks();
                plan::ask(&self.inner, ask)
            }
        }
    }

    fn ask_fallback(&self, ask: &Ask<'_, '_>, error: &StoreError) -> Result<Reply, StoreError> {
        self.inner.shared.ask_fallback(ask, error)
    }

    fn timeout(&self) -> Option<Duration> {
        self.inner.shared.timeout()
    }

    fn live_nodes(&self) -> NonZeroU32 {
        self.inner.shared.live_nodes()
    }

    fn watch(&self, plan: &Plan<'_>) -> Option<Watch> {
        self.inner.shared.watch(plan)
    }

    fn spawner(&self) -> Option<SpawnFn> {
        self.inner.shared.spawner()
    }

    /// Gives back what was not used, and synchronises what is due. Call it every ten milliseconds.
    fn tick(&self, now: Timestamp) {
        self.inner.tick(now);
        self.inner.shared.tick(now);
    }
}

impl<S> Clone for ModeStore<S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<S> std::fmt::Debug for ModeStore<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModeStore").finish_non_exhaustive()
    }
}
