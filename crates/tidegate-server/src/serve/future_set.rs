//! A set of waiting items, each with its own waker: a poll polls only those that were woken.
//!
//! A connection may have hundreds of waiting calls, and a batch as many waiting requests. If all of them were polled
//! whenever one of them or the connection was woken, each would pay for all the others.
//!
//! Written by hand, because a call is polled with the state of its connection as an argument. Sets of plain futures,
//! such as `FuturesUnordered`, cannot do that.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// A set of waiting items.
pub struct FutureSet<T> {
    /// By slot number.
    slots: Vec<Option<FutureSlot<T>>>,
    free_slots: Vec<usize>,
    woken: Arc<WokenSlots>,
    /// The slots that are being polled. Kept to reuse its memory.
    polled: Vec<usize>,
}

struct FutureSlot<T> {
    item: T,
    slot_waker: Arc<SlotWaker>,
    waker: Waker,
}

/// The slots that were woken, and the task to wake for them.
struct WokenSlots {
    slots: Mutex<Vec<usize>>,
    task: Waker,
}

/// Wakes one slot. The waker of a removed item wakes the next item in its slot at most once, which then finds nothing
/// to do.
struct SlotWaker {
    slot: usize,
    /// Whether the slot is in the list of woken slots already.
    is_woken: AtomicBool,
    woken: Arc<WokenSlots>,
}

impl<T> FutureSet<T> {
    /// An empty set.
    pub fn new() -> Self {
        let woken = WokenSlots::new(Waker::noop());
        Self { slots: Vec::new(), free_slots: Vec::new(), woken, polled: Vec::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.slots.len() == self.free_slots.len()
    }

    /// Adds an item, which is polled at the next poll.
    pub fn add(&mut self, item: T) {
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = Some(FutureSlot::new_woken(item, slot, &self.woken));
    }

    /// Wakes all items.
    pub fn wake_all(&mut self) {
        self.slots.iter().flatten().for_each(|future| future.waker.wake_by_ref());
    }

    /// Polls the woken items, each with its own waker, and removes those that are ready. An item that is woken
    /// meanwhile wakes the task of `context` and is polled the next time.
    pub fn poll(
        &mut self,
        context: &Context<'_>,
        mut poll: impl FnMut(&mut T, &mut Context<'_>) -> Poll<()>,
    ) {
        if self.is_empty() {
            return;
        }
        if !self.woken.task.will_wake(context.waker()) {
            self.change_task(context.waker());
        }
        let mut polled = std::mem::take(&mut self.polled);
        std::mem::swap(&mut *self.woken.slots(), &mut polled);
        for slot in polled.drain(..) {
            let Some(future) = &mut self.slots[slot] else { continue };
            // Reset before the poll, so that a wake during the poll is not lost.
            future.slot_waker.is_woken.store(false, Ordering::Release);
            if poll(&mut future.item, &mut Context::from_waker(&future.waker)).is_ready() {
                self.slots[slot] = None;
                self.free_slots.push(slot);
            }
        }
        self.polled = polled;
    }

    /// Wakes another task from now on.
    #[cold]
    fn change_task(&mut self, task: &Waker) {
        self.woken = WokenSlots::new(task);
        for (slot, future) in self.slots.iter_mut().enumerate() {
            *future = future.take().map(|future| FutureSlot::new_woken(future.item, slot, &self.woken));
        }
    }
}

impl<T> FutureSlot<T> {
    /// An item that is already woken.
    fn new_woken(item: T, slot: usize, woken: &Arc<WokenSlots>) -> Self {
        let slot_waker =
            Arc::new(SlotWaker { slot, is_woken: AtomicBool::new(true), woken: Arc::clone(woken) });
        woken.slots().push(slot);
        Self { item, waker: Waker::from(Arc::clone(&slot_waker)), slot_waker }
    }
}

impl WokenSlots {
    fn new(task: &Waker) -> Arc<Self> {
        Arc::new(Self { slots: Mutex::default(), task: task.clone() })
    }

    fn slots(&self) -> std::sync::MutexGuard<'_, Vec<usize>> {
        // A list of numbers stays valid if a thread panics while it holds the lock.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for SlotWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_woken.swap(true, Ordering::AcqRel) {
            self.woken.slots().push(self.slot);
            self.woken.task.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::poll_on_wake::counting_waker::CountingWaker;

    /// Polls all woken items, which stay pending. Returns their numbers and wakers.
    fn poll_woken(futures: &mut FutureSet<u32>, task: &Waker) -> Vec<(u32, Waker)> {
        let mut polled = Vec::new();
        futures.poll(&Context::from_waker(task), |number, context| {
            polled.push((*number, context.waker().clone()));
            Poll::Pending
        });
        polled
    }

    fn numbers(polled: &[(u32, Waker)]) -> Vec<u32> {
        polled.iter().map(|(number, _)| *number).collect()
    }

    #[test]
    fn only_woken_items_are_polled() {
        let wakes = Arc::new(CountingWaker::default());
        let task = Waker::from(Arc::clone(&wakes));
        let mut futures = FutureSet::new();
        (0..100).for_each(|number| futures.add(number));
        let all = poll_woken(&mut futures, &task);
        assert_eq!(numbers(&all), (0..100).collect::<Vec<_>>());
        assert!(poll_woken(&mut futures, &task).is_empty());
        assert_eq!(wakes.count(), 0);
        // Polled once, however often it was woken.
        all[7].1.wake_by_ref();
        all[7].1.wake_by_ref();
        all[3].1.wake_by_ref();
        assert_eq!(wakes.count(), 2);
        assert_eq!(numbers(&poll_woken(&mut futures, &task)), [7, 3]);
        futures.wake_all();
        assert_eq!(poll_woken(&mut futures, &task).len(), 100);
    }

    #[test]
    fn an_item_woken_during_its_poll_is_polled_again() {
        let task = Waker::from(Arc::new(CountingWaker::default()));
        let mut futures = FutureSet::new();
        futures.add(1);
        futures.poll(&Context::from_waker(&task), |_, context| {
            context.waker().wake_by_ref();
            Poll::Pending
        });
        assert_eq!(numbers(&poll_woken(&mut futures, &task)), [1]);
        assert!(poll_woken(&mut futures, &task).is_empty());
    }

    #[test]
    fn a_ready_item_is_removed_and_its_slot_reused() {
        let task = Waker::from(Arc::new(CountingWaker::default()));
        let mut futures = FutureSet::new();
        (0..3).for_each(|number| futures.add(number));
        let gone = poll_woken(&mut futures, &task)[1].1.clone();
        futures.wake_all();
        futures.poll(&Context::from_waker(&task), |number, _| match number {
            1 => Poll::Ready(()),
            _ => Poll::Pending,
        });
        futures.add(9);
        assert_eq!(numbers(&poll_woken(&mut futures, &task)), [9]);
        assert_eq!(futures.slots.len(), 3);
        // The waker of the item that was in the slot before wakes it at most once.
        gone.wake_by_ref();
        assert!(numbers(&poll_woken(&mut futures, &task)).len() <= 1);
        gone.wake_by_ref();
        assert!(poll_woken(&mut futures, &task).is_empty());
        futures.wake_all();
        futures.poll(&Context::from_waker(&task), |_, _| Poll::Ready(()));
        assert!(futures.is_empty());
    }

    #[test]
    fn a_new_task_polls_all_items_and_is_woken_later() {
        let (one, other) = (Arc::new(CountingWaker::default()), Arc::new(CountingWaker::default()));
        let mut futures = FutureSet::new();
        futures.add(1);
        poll_woken(&mut futures, &Waker::from(Arc::clone(&one)));
        let moved = poll_woken(&mut futures, &Waker::from(Arc::clone(&other)));
        assert_eq!(numbers(&moved), [1]);
        moved[0].1.wake_by_ref();
        assert_eq!((one.count(), other.count()), (0, 1));
    }
}
