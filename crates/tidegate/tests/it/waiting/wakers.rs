//! Timers and wakers that do what they may and few do.

use std::any::Any;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

use tidegate::{Admitted, Clock, Limiter, ManualClock, Refused, Timer, Timestamp};

use crate::waiting::model::{KEY, limiter, ms, start};

/// A waker that owns a task, as those of some executors do: with its last clone the task is dropped.
struct Owner {
    _task: Mutex<Option<Box<dyn Any + Send>>>,
}

impl Wake for Owner {
    fn wake(self: Arc<Self>) {}
}

type Waits = Pin<Box<dyn Future<Output = Result<Admitted<'static, ManualClock>, Refused>> + Send>>;

/// In front of the line, and behind.
#[test]
fn a_task_that_is_dropped_with_a_waker_steps_out_of_the_same_line() {
    for owner_is_in_front in [true, false] {
        let limiter: &'static Limiter<ManualClock> =
            Box::leak(Box::new(limiter(&["1 per hour burst 1"], &ManualClock::at(start()))));
        assert!(limiter.check(KEY, 1).is_allowed());
        let mut owned: Waits = Box::pin(limiter.acquire(KEY, 1));
        let mut owning = Box::pin(limiter.acquire(KEY, 1));
        let owner = Arc::new(Owner { _task: Mutex::new(None) });
        let waker = Waker::from(owner.clone());
        let mut poll_owning = || assert!(owning.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        let poll_owned = |owned: &mut Waits| {
            assert!(owned.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        };
        if owner_is_in_front {
            poll_owning();
            poll_owned(&mut owned);
        } else {
            poll_owned(&mut owned);
            poll_owning();
        }
        *owner._task.lock().unwrap() = Some(Box::new(owned));
        drop((waker, owner));
        // A poll that replaces the waker, then a drop that lets go of it.
        let _ = owning.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        drop(owning);
        limiter.reset(KEY);
        assert!(limiter.acquire_blocking(KEY, 1).is_ok());
    }
}

/// A timer that goes by a clock of its own, which is ahead.
#[derive(Clone)]
struct Early(ManualClock);

impl Clock for Early {
    fn now(&self) -> Timestamp {
        self.0.now()
    }
}

impl Timer for Early {
    type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

    fn sleep_until(&self, at: Timestamp) -> Self::Sleep {
        let early = self.0.sleep_until(Timestamp::from_nanos(at.as_nanos() - 1_000));
        Box::pin(early)
    }
}

#[test]
fn a_timer_that_is_early_is_not_polled_after_its_end_and_lets_nobody_through() {
    let clock = ManualClock::at(start());
    let builder = Limiter::builder().limit("1/s burst 1").clock(Early(clock.clone()));
    let limiter = builder.build().unwrap();
    assert!(limiter.check(KEY, 1).is_allowed());
    let mut waiting = pin!(limiter.acquire(KEY, 1));
    let context = &mut Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(context).is_pending());
    clock.set(clock.next_wake().unwrap());
    assert!(waiting.as_mut().poll(context).is_pending());
    clock.advance(std::time::Duration::from_micros(1));
    let std::task::Poll::Ready(Ok(admitted)) = waiting.as_mut().poll(context) else {
        panic!("it is due");
    };
    assert_eq!(admitted.waited(), ms(1_000));
}
