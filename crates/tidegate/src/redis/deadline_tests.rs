//! Deadlines without a runtime, and from wakers that start other deadlines.

use std::future::{pending, poll_fn, ready};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, ThreadId};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Deadlines, Elapsed, RunState, ThreadState};

const SOON: Duration = Duration::from_millis(20);
const FAR: Duration = Duration::from_secs(3_600);

struct UnparkWaker(thread::Thread);

impl Wake for UnparkWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks without any runtime.
fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(UnparkWaker(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

fn deadlines() -> Deadlines {
    Deadlines::start().expect("a thread")
}

fn wakers_len(deadlines: &Deadlines) -> usize {
    deadlines.0.lock().wakers.len()
}

#[test]
fn a_pending_future_ends_at_its_deadline() {
    let (deadlines, started) = (deadlines(), Instant::now());
    assert_eq!(block_on(deadlines.timeout_at(started + SOON, pending::<()>())), Err(Elapsed));
    assert!(started.elapsed() >= SOON);
    assert_eq!(wakers_len(&deadlines), 0);
}

#[test]
fn a_future_that_is_ready_wins_even_after_its_deadline() {
    let deadlines = deadlines();
    assert_eq!(block_on(deadlines.timeout_at(Instant::now(), ready(7))), Ok(7));
    assert_eq!(block_on(deadlines.timeout_at(Instant::now(), pending::<()>())), Err(Elapsed));
}

#[test]
fn a_future_ready_in_time_removes_its_waker() {
    let deadlines = deadlines();
    let (send, receive) = oneshot::channel();
    let sender = thread::spawn(move || send.send(5));
    assert_eq!(block_on(deadlines.timeout_at(Instant::now() + FAR, receive)), Ok(Ok(5)));
    assert_eq!(wakers_len(&deadlines), 0);
    sender.join().expect("no panic").expect("a receiver");
}

#[test]
fn a_nearer_deadline_wakes_the_thread_that_sleeps_until_a_far_one() {
    let deadlines = deadlines();
    let now = Instant::now();
    let mut far = Box::pin(deadlines.timeout_at(now + FAR, pending::<()>()));
    assert!(far.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    for _ in 0..3 {
        let soon = Instant::now() + SOON;
        assert_eq!(block_on(deadlines.timeout_at(soon, pending::<()>())), Err(Elapsed));
    }
    assert_eq!(wakers_len(&deadlines), 1);
    drop(far);
    assert_eq!(wakers_len(&deadlines), 0);
}

#[test]
fn deadlines_in_any_order_and_equal_ones_all_pass() {
    let deadlines = Arc::new(deadlines());
    let started = Instant::now();
    let threads: Vec<_> = [5, 1, 3, 3, 2, 5, 1]
        .map(|factor| {
            let deadlines = deadlines.clone();
            thread::spawn(move || block_on(deadlines.timeout_at(started + SOON * factor, pending::<()>())))
        })
        .into_iter()
        .collect();
    for thread in threads {
        assert_eq!(thread.join().expect("no panic"), Err(Elapsed));
    }
    assert!(started.elapsed() >= SOON * 5);
    assert_eq!(wakers_len(&deadlines), 0);
}

#[test]
fn the_last_registered_waker_is_woken() {
    let deadlines = deadlines();
    let mut late = pin!(deadlines.timeout_at(Instant::now() + SOON, pending::<()>()));
    // The first poll is by another task, which must not be woken.
    assert!(late.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!(block_on(poll_fn(|context| late.as_mut().poll(context))), Err(Elapsed));
}

/// A task that is woken and dropped on the deadline thread, and starts another deadline there.
struct Reentrant {
    deadlines: Arc<Deadlines>,
    woken: std::sync::mpsc::Sender<ThreadId>,
}

impl Wake for Reentrant {
    fn wake(self: Arc<Self>) {
        let mut again = pin!(self.deadlines.timeout_at(Instant::now() + FAR, pending::<()>()));
        assert!(again.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        self.woken.send(thread::current().id()).expect("a receiver");
    }
}

#[test]
fn a_task_that_is_woken_may_wait_for_another_deadline() {
    let deadlines = Arc::new(deadlines());
    let (woken, receiver) = std::sync::mpsc::channel();
    let waker = Waker::from(Arc::new(Reentrant { deadlines: deadlines.clone(), woken }));
    let mut late = pin!(deadlines.timeout_at(Instant::now() + SOON, pending::<()>()));
    assert!(late.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    assert_ne!(receiver.recv().expect("a wake"), thread::current().id());
}

#[test]
fn the_thread_ends_with_its_owner() {
    let deadlines = deadlines();
    let queue = deadlines.0.clone();
    drop(deadlines);
    assert!(queue.lock().run_state == RunState::Stopping);
    // The thread holds the only other reference.
    while Arc::strong_count(&queue) > 1 {
        thread::yield_now();
    }
    assert!(matches!(queue.lock().thread_state, ThreadState::Awake));
}
