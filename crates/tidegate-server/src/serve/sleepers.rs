//! Things that wait, each woken by itself: who is woken is polled, and nobody else is.
//!
//! A connection may have hundreds of calls that wait, and so may a batch have requests. Were all of them polled whenever
//! one of them, or the connection itself, has something to do, each would pay for all the others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Things that wait.
pub struct Sleepers<T> {
    /// By their places.
    sleepers: Vec<Option<Sleeper<T>>>,
    free_places: Vec<usize>,
    woken: Arc<Woken>,
    /// Those that are polled, kept for its memory.
    polled: Vec<usize>,
}

struct Sleeper<T> {
    thing: T,
    alarm: Arc<Alarm>,
    waker: Waker,
}

/// Who was woken, and the task to wake for it.
struct Woken {
    places: Mutex<Vec<usize>>,
    task: Waker,
}

/// Wakes one. One whose sleeper is gone wakes, once, whoever has the place after it, which finds nothing to do.
struct Alarm {
    place: usize,
    /// Whether the place stands among those that were woken, where each stands once.
    is_rung: AtomicBool,
    woken: Arc<Woken>,
}

impl<T> Sleepers<T> {
    /// Nobody.
    pub fn new() -> Self {
        let woken = Woken::of(Waker::noop());
        Self { sleepers: Vec::new(), free_places: Vec::new(), woken, polled: Vec::new() }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.sleepers.len() == self.free_places.len()
    }

    /// One more, which is polled with those that were woken.
    pub fn add(&mut self, thing: T) {
        let place = self.free_places.pop().unwrap_or_else(|| {
            self.sleepers.push(None);
            self.sleepers.len() - 1
        });
        self.sleepers[place] = Some(Sleeper::awake(thing, place, &self.woken));
    }

    /// Has all of them polled.
    pub fn wake_all(&mut self) {
        self.sleepers.iter().flatten().for_each(|sleeper| sleeper.waker.wake_by_ref());
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
            self.move_to(context.waker());
        }
        let mut polled = std::mem::take(&mut self.polled);
        std::mem::swap(&mut *self.woken.places(), &mut polled);
        for place in polled.drain(..) {
            let Some(sleeper) = &mut self.sleepers[place] else { continue };
            // Before it is polled, so that what happens meanwhile is not missed.
            sleeper.alarm.is_rung.store(false, Ordering::Release);
            if poll(&mut sleeper.thing, &mut Context::from_waker(&sleeper.waker)).is_ready() {
                self.sleepers[place] = None;
                self.free_places.push(place);
            }
        }
        self.polled = polled;
    }

    /// Has another task woken for them from now on.
    #[cold]
    fn move_to(&mut self, task: &Waker) {
        self.woken = Woken::of(task);
        for (place, sleeper) in self.sleepers.iter_mut().enumerate() {
            *sleeper = sleeper.take().map(|sleeper| Sleeper::awake(sleeper.thing, place, &self.woken));
        }
    }
}

impl<T> Sleeper<T> {
    /// One that is awake, and is to be polled.
    fn awake(thing: T, place: usize, woken: &Arc<Woken>) -> Self {
        let alarm = Arc::new(Alarm { place, is_rung: AtomicBool::new(true), woken: Arc::clone(woken) });
        woken.places().push(place);
        Self { thing, waker: Waker::from(Arc::clone(&alarm)), alarm }
    }
}

impl Woken {
    fn of(task: &Waker) -> Arc<Self> {
        Arc::new(Self { places: Mutex::default(), task: task.clone() })
    }

    fn places(&self) -> std::sync::MutexGuard<'_, Vec<usize>> {
        // A list of numbers is whole, whatever became of who held it.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_rung.swap(true, Ordering::AcqRel) {
            self.woken.places().push(self.place);
            self.woken.task.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::wakes::Wakes;

    /// Polls all that were woken, which then wait, and says who they were and by what each is woken.
    fn polled(sleepers: &mut Sleepers<u32>, task: &Waker) -> Vec<(u32, Waker)> {
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
    fn who_is_woken_is_polled_and_nobody_else() {
        let wakes = Arc::new(Wakes::default());
        let task = Waker::from(Arc::clone(&wakes));
        let mut sleepers = Sleepers::new();
        (0..100).for_each(|number| sleepers.add(number));
        let all = polled(&mut sleepers, &task);
        assert_eq!(numbers(&all), (0..100).collect::<Vec<_>>());
        assert!(polled(&mut sleepers, &task).is_empty());
        assert_eq!(wakes.count(), 0);
        // However often.
        all[7].1.wake_by_ref();
        all[7].1.wake_by_ref();
        all[3].1.wake_by_ref();
        assert_eq!(wakes.count(), 2);
        assert_eq!(numbers(&polled(&mut sleepers, &task)), [7, 3]);
        sleepers.wake_all();
        assert_eq!(polled(&mut sleepers, &task).len(), 100);
    }

    #[test]
    fn who_is_woken_while_it_is_polled_is_polled_again() {
        let task = Waker::from(Arc::new(Wakes::default()));
        let mut sleepers = Sleepers::new();
        sleepers.add(1);
        sleepers.poll(&Context::from_waker(&task), |_, context| {
            context.waker().wake_by_ref();
            Poll::Pending
        });
        assert_eq!(numbers(&polled(&mut sleepers, &task)), [1]);
        assert!(polled(&mut sleepers, &task).is_empty());
    }

    #[test]
    fn who_is_ready_is_gone_and_its_place_is_used_again() {
        let task = Waker::from(Arc::new(Wakes::default()));
        let mut sleepers = Sleepers::new();
        (0..3).for_each(|number| sleepers.add(number));
        let gone = polled(&mut sleepers, &task)[1].1.clone();
        sleepers.wake_all();
        sleepers.poll(&Context::from_waker(&task), |number, _| match number {
            1 => Poll::Ready(()),
            _ => Poll::Pending,
        });
        sleepers.add(9);
        assert_eq!(numbers(&polled(&mut sleepers, &task)), [9]);
        assert_eq!(sleepers.sleepers.len(), 3);
        // By the alarm of who had the place before, once.
        gone.wake_by_ref();
        assert!(numbers(&polled(&mut sleepers, &task)).len() <= 1);
        gone.wake_by_ref();
        assert!(polled(&mut sleepers, &task).is_empty());
        sleepers.wake_all();
        sleepers.poll(&Context::from_waker(&task), |_, _| Poll::Ready(()));
        assert!(sleepers.is_empty());
    }

    #[test]
    fn another_task_polls_all_and_is_woken_from_then_on() {
        let (one, other) = (Arc::new(Wakes::default()), Arc::new(Wakes::default()));
        let mut sleepers = Sleepers::new();
        sleepers.add(1);
        polled(&mut sleepers, &Waker::from(Arc::clone(&one)));
        let moved = polled(&mut sleepers, &Waker::from(Arc::clone(&other)));
        assert_eq!(numbers(&moved), [1]);
        moved[0].1.wake_by_ref();
        assert_eq!((one.count(), other.count()), (0, 1));
    }
}
