//! Timers and wakers with rare but allowed behaviour.

use std::any::Any;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

use tidegate::{Clock, Limiter, ManualClock, Timer, Timestamp};

use super::model::{KEY, limiter, ms, start};

/// A waker that owns a task, as in some executors: dropping its last clone drops the task.
struct TaskOwner {
    _task: Mutex<Option<Box<dyn Any + Send>>>,
}

impl Wake for TaskOwner {
    fn wake(self: Arc<Self>) {}
}

/// As the head of the queue, and behind it.
#[test]
fn a_task_dropped_by_its_waker_leaves_the_queue() {
    for owner_is_in_front in [true, false] {
        let limiter: &'static Limiter<ManualClock> =
            Box::leak(Box::new(limiter(&["1 per hour burst 1"], &ManualClock::at(start()))));
        assert!(limiter.check(KEY, 1).is_allowed());
        let (mut owned, mut owning) = (Box::pin(limiter.acquire(KEY, 1)), Box::pin(limiter.acquire(KEY, 1)));
        let owner = Arc::new(TaskOwner { _task: Mutex::new(None) });
        let waker = Waker::from(owner.clone());
        let mut poll_owning = || assert!(owning.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        let poll_owned = |owned: &mut Pin<Box<tidegate::limiter::AcquireFuture<'_, ManualClock>>>| {
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
        // A poll that replaces the waker, then a drop that releases it.
        let _ = owning.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        drop(owning);
        limiter.reset(KEY);
        assert!(limiter.acquire_blocking(KEY, 1).is_ok());
    }
}

/// A timer with its own clock, which is ahead.
#[derive(Clone)]
struct EarlyTimer(ManualClock);

impl Clock for EarlyTimer {
    fn now(&self) -> Timestamp {
        self.0.now()
    }
}

impl Timer for EarlyTimer {
    type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

    fn sleep_until(&self, at: Timestamp) -> Self::Sleep {
        let early = self.0.sleep_until(Timestamp::from_nanos(at.as_nanos() - 1_000));
        Box::pin(early)
    }
}

#[test]
fn an_early_timer_is_not_polled_again_and_admits_no_request() {
    let clock = ManualClock::at(start());
    let builder = Limiter::builder().limit("1/s burst 1").clock(EarlyTimer(clock.clone()));
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
