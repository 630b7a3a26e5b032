//! The background work of the layer, done regularly once it is needed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tidegate_core::{Nanos, Timestamp};

use super::{Inner, Sweep};
use crate::clock::Timer as _;
use crate::store::Store;
use crate::{Clock as _, SystemClock};

/// Leases may live for a few milliseconds only, and new keys are synchronised this soon.
const TICK_INTERVAL: Nanos = Nanos::new(10_000_000);

/// Whether the layer does its background work by itself.
#[derive(Default)]
pub(super) struct Ticks {
    state: AtomicU8,
}

/// The caller ticks.
const BY_CALLER: u8 = 0;
/// The layer ticks as soon as it has something to do.
const ENABLED: u8 = 1;
const RUNNING: u8 = 2;

impl Ticks {
    pub fn enable(&self) {
        let _ = self.state.compare_exchange(BY_CALLER, ENABLED, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether ticks have to be started now.
    #[inline]
    fn start(&self) -> bool {
        self.state.load(Ordering::Relaxed) == ENABLED
            && self.state.compare_exchange(ENABLED, RUNNING, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

impl<S: Store + 'static> Inner<S> {
    /// Starts the ticks, unless the caller ticks. They end with the layer.
    #[inline]
    pub fn start_ticks(self: &Arc<Self>) {
        if !self.ticks.start() {
            return;
        }
        let weak = Arc::downgrade(self);
        self.spawn(async move {
            let timer = SystemClock::new();
            loop {
                timer.sleep_until(timer.now().saturating_add(TICK_INTERVAL)).await;
                match weak.upgrade() {
                    Some(inner) => inner.tick(inner.clock.now()),
                    None => return,
                }
            }
        });
    }

    pub fn tick(self: &Arc<Self>, now: Timestamp) {
        self.sweep_leases(now, Sweep::Due);
        self.send_returns(now, usize::MAX);
        self.sweep_replicas(now, Sweep::Due);
    }
}
