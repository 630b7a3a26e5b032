//! The machine's clock, and several runtimes. These tests check only that requests are not admitted too early.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use tidegate::{Clock, LATE_NS_MAX, Limiter, SystemClock};

use crate::wait_result::{WaitResult, wait_result};

/// Woken tasks, by number.
struct FutureWaker {
    task: usize,
    woken: Sender<usize>,
}

impl Wake for FutureWaker {
    fn wake(self: Arc<Self>) {
        // The receiver may be gone once all tasks are done; ignore the error.
        let _ = self.woken.send(self.task);
    }
}

/// Runs tasks on this thread until all are done. A task is polled only if it was woken.
fn run_all<F: Future>(futures: impl IntoIterator<Item = F>, mut done: impl FnMut(usize, F::Output)) {
    let (woken, next): (_, Receiver<usize>) = mpsc::channel();
    let mut tasks: Vec<_> = futures.into_iter().map(|future| Some(Box::pin(future))).collect();
    let wakers: Vec<Waker> = (0..tasks.len())
        .map(|task| Waker::from(Arc::new(FutureWaker { task, woken: woken.clone() })))
        .collect();
    (0..tasks.len()).for_each(|task| woken.send(task).unwrap());
    let mut left = tasks.len();
    while left > 0 {
        let task = next.recv().unwrap();
        let Some(future) = &mut tasks[task] else { continue };
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&wakers[task])) {
            tasks[task] = None;
            left -= 1;
            done(task, output);
        }
    }
}

#[test]
fn two_thousand_waiters_leave_in_order_within_the_limit() {
    const WAITERS: usize = 2_000;
    const INTERVAL_NS: u64 = 100_000;
    let limiter = Limiter::new("10000/s burst 1").unwrap();
    let clock = SystemClock::new();
    let began_ns = clock.now().as_nanos();
    let mut left: Vec<(usize, u64)> = Vec::new();
    run_all((0..WAITERS).map(|_| wait_result(limiter.acquire("key", 1))), |task, result| {
        assert!(result.is_admitted(), "{task}: {result:?}");
        left.push((task, clock.now().as_nanos()));
    });
    assert!(left.iter().map(|(task, _)| *task).eq(0..WAITERS));
    // The head may have been late, so those behind it may follow more closely. But no request leaves before the limit
    // admits it, counted from the start.
    for (number, (_, left_ns)) in left.iter().enumerate() {
        let least_ns = began_ns + number as u64 * INTERVAL_NS - LATE_NS_MAX.min(number as u64 * INTERVAL_NS);
        assert!(*left_ns >= least_ns, "{number} left {} ns too early", least_ns - left_ns);
    }
    // The next request was decided after the first was seen to leave, or as of a little before, and the 499 behind it
    // an interval apart. Each was seen to leave after that.
    for pair in left.windows(1 + 500) {
        let took_ns = pair[500].1 - pair[0].1;
        assert!(took_ns + LATE_NS_MAX >= 499 * INTERVAL_NS, "500 left in {took_ns} ns");
    }
}

/// The requests of many tasks on a runtime, in the order in which they were admitted.
fn on_runtime(runtime: &tokio::runtime::Runtime) {
    const TASKS: u64 = 200;
    let limiter = Arc::new(Limiter::new("20000/s burst 1").unwrap());
    let waits = Arc::new(Mutex::new(Vec::new()));
    runtime.block_on(async {
        let spawn = |_| {
            let (limiter, waits) = (limiter.clone(), waits.clone());
            tokio::spawn(async move {
                let WaitResult::Admitted { waited, .. } = wait_result(limiter.acquire("key", 1)).await else {
                    panic!("refused")
                };
                waits.lock().unwrap().push(waited);
            })
        };
        let tasks: Vec<_> = (0..TASKS).map(spawn).collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(waits.lock().unwrap().len() as u64, TASKS);
}

#[test]
fn works_on_a_single_threaded_runtime() {
    on_runtime(&tokio::runtime::Builder::new_current_thread().build().unwrap());
}

#[test]
fn works_on_a_multi_threaded_runtime() {
    on_runtime(&tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().unwrap());
}

#[test]
fn an_aborted_task_leaves_the_queue() {
    let limiter = Arc::new(Limiter::new("1 per hour burst 1").unwrap());
    assert!(limiter.check("key", 1).is_allowed());
    // On one thread, spawned tasks have been polled, and so are in the queue, when this task continues.
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let spawn = |_| {
            let limiter = limiter.clone();
            tokio::spawn(async move { wait_result(limiter.acquire("key", 1)).await })
        };
        let tasks: Vec<_> = (0..20).map(spawn).collect();
        tokio::task::yield_now().await;
        for task in &tasks {
            task.abort();
        }
        for task in tasks {
            assert!(task.await.unwrap_err().is_cancelled());
        }
        // Units that come back go to the task that stayed.
        let stays = spawn(20);
        tokio::task::yield_now().await;
        limiter.reset("key");
        assert!(stays.await.unwrap().is_admitted());
    });
}

#[test]
fn works_on_threads() {
    const THREADS: u64 = 8;
    const REQUESTS_PER_THREAD: u64 = 50;
    let limiter = Limiter::new("10000/s burst 1").unwrap();
    let clock = SystemClock::new();
    let began_ns = clock.now().as_nanos();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                (0..REQUESTS_PER_THREAD).for_each(|_| assert!(limiter.acquire_blocking("key", 1).is_ok()));
            });
        }
    });
    let least_ns = (THREADS * REQUESTS_PER_THREAD - 1) * 100_000 - LATE_NS_MAX;
    assert!(clock.now().as_nanos() >= began_ns + least_ns);
}
