//! Things that wait, each woken by itself: who is woken is polled, and nobody else is.
//!
//! A connection may have hundreds of calls that wait, and so may a batch have requests. Were all of them polled whenever
//! one of them, or the connection itself, has something to do, each would pay for all the others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Things that wait.
pub struct FutureSet<T> {
    /// By their places.
    slots: Vec<Option<FutureSlot<T>>>,
    free_slots: Vec<usize>,
    woken: Arc<WokenSlots>,
    /// Those that are polled, kept for its memory.
    polled: Vec<usize>,
}

struct FutureSlot<T> {
    item: T,
    slot_waker: Arc<SlotWaker>,
    waker: Waker,
}

/// Who was woken, and the task to wake for it.
struct WokenSlots {
    slots: Mutex<Vec<usize>>,
    task: Waker,
}

/// Wakes one. One whose sleeper is gone wakes, once, whoever has the place after it, which finds nothing to do.
struct SlotWaker {
    slot: usize,
    /// Whether the place stands among those that were woken, where each stands once.
    is_woken: AtomicBool,
    woken: Arc<WokenSlots>,
}

impl<T> FutureSet<T> {
    /// Nobody.
    pub fn new() -> Self {
        let woken = WokenSlots::new(Waker::noop());
        Self { slots: Vec::new(), free_slots: Vec::new(), woken, polled: Vec::new() }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.slots.len() == self.free_slots.len()
    }

    /// One more, which is polled with those that were woken.
    pub fn add(&mut self, thing: T) {
        let place = self.free_slots.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[place] = Some(FutureSlot::new_woken(thing, place, &self.woken));
    }

    /// Has all of them polled.
    pub fn wake_all(&mut self) {
        self.slots.iter().flatten().for_each(|sleeper| sleeper.waker.wake_by_ref());
    }

    /// Polls those that were woken, each with a waker of its own; who is ready is gone. Who is woken meanwhile has the
    /// task of this context woken, to be polled the next time.
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
        for place in polled.drain(..) {
            let Some(sleeper) = &mut self.slots[place] else { continue };
            // Before it is polled, so that what happens meanwhile is not missed.
            sleeper.slot_waker.is_woken.store(false, Ordering::Release);
            if poll(&mut sleeper.item, &mut Context::from_waker(&sleeper.waker)).is_ready() {
                self.slots[place] = None;
                self.free_slots.push(place);
            }
        }
        self.polled = polled;
    }

    /// Has another task woken for them from now on.
    #[cold]
    fn change_task(&mut self, task: &Waker) {
        self.woken = WokenSlots::new(task);
        for (place, sleeper) in self.slots.iter_mut().enumerate() {
            *sleeper = sleeper.take().map(|sleeper| FutureSlot::new_woken(sleeper.item, place, &self.woken));
        }
    }
}

impl<T> FutureSlot<T> {
    /// One that is awake, and is to be polled.
    fn new_woken(thing: T, place: usize, woken: &Arc<WokenSlots>) -> Self {
        let alarm = Arc::new(SlotWaker { slot: place, is_woken: AtomicBool::new(true), woken: Arc::clone(woken) });
        woken.slots().push(place);
        Self { item: thing, waker: Waker::from(Arc::clone(&alarm)), slot_waker: alarm }
    }
}

impl WokenSlots {
    fn new(task: &Waker) -> Arc<Self> {
        Arc::new(Self { slots: Mutex::default(), task: task.clone() })
    }

    fn slots(&self) -> std::sync::MutexGuard<'_, Vec<usize>> {
        // A list of numbers is whole, whatever became of who held it.
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
    use crate::serve::wakes::CountingWaker;

    /// Polls all that were woken, which then wait, and says who they were and by what each is woken.
    fn poll_woken(sleepers: &mut FutureSet<u32>, task: &Waker) -> Vec<(u32, Waker)> {
        let mut polled = Vec::new();
        sleepers.poll(&Context::from_waker(task), |number, context| {
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
        let mut sleepers = FutureSet::new();
        (0..100).for_each(|number| sleepers.add(number));
        let all = poll_woken(&mut sleepers, &task);
        assert_eq!(numbers(&all), (0..100).collect::<Vec<_>>());
        assert!(poll_woken(&mut sleepers, &task).is_empty());
        assert_eq!(wakes.count(), 0);
        // However often.
        all[7].1.wake_by_ref();
        all[7].1.wake_by_ref();
        all[3].1.wake_by_ref();
        assert_eq!(wakes.count(), 2);
        assert_eq!(numbers(&poll_woken(&mut sleepers, &task)), [7, 3]);
        sleepers.wake_all();
        assert_eq!(poll_woken(&mut sleepers, &task).len(), 100);
    }

    #[test]
    fn an_item_woken_during_its_poll_is_polled_again() {
        let task = Waker::from(Arc::new(CountingWaker::default()));
        let mut sleepers = FutureSet::new();
        sleepers.add(1);
        sleepers.poll(&Context::from_waker(&task), |_, context| {
            context.waker().wake_by_ref();
            Poll::Pending
        });
        assert_eq!(numbers(&poll_woken(&mut sleepers, &task)), [1]);
        assert!(poll_woken(&mut sleepers, &task).is_empty());
    }

    #[test]
    fn a_ready_item_is_removed_and_its_slot_reused() {
        let task = Waker::from(Arc::new(CountingWaker::default()));
        let mut sleepers = FutureSet::new();
        (0..3).for_each(|number| sleepers.add(number));
        let gone = poll_woken(&mut sleepers, &task)[1].1.clone();
        sleepers.wake_all();
        sleepers.poll(&Context::from_waker(&task), |number, _| match number {
            1 => Poll::Ready(()),
            _ => Poll::Pending,
        });
        sleepers.add(9);
        assert_eq!(numbers(&poll_woken(&mut sleepers, &task)), [9]);
        assert_eq!(sleepers.slots.len(), 3);
        // By the alarm of who had the place before, once.
        gone.wake_by_ref();
        assert!(numbers(&poll_woken(&mut sleepers, &task)).len() <= 1);
        gone.wake_by_ref();
        assert!(poll_woken(&mut sleepers, &task).is_empty());
        sleepers.wake_all();
        sleepers.poll(&Context::from_waker(&task), |_, _| Poll::Ready(()));
        assert!(sleepers.is_empty());
    }

    #[test]
    fn a_new_task_polls_all_items_and_is_woken_later() {
        let (one, other) = (Arc::new(CountingWaker::default()), Arc::new(CountingWaker::default()));
        let mut sleepers = FutureSet::new();
        sleepers.add(1);
        poll_woken(&mut sleepers, &Waker::from(Arc::clone(&one)));
        let moved = poll_woken(&mut sleepers, &Waker::from(Arc::clone(&other)));
        assert_eq!(numbers(&moved), [1]);
        moved[0].1.wake_by_ref();
        assert_eq!((one.count(), other.count()), (0, 1));
    }
}
