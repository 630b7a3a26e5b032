//! Tasks of a runtime, and threads, on the machine's clock. These tests check only that requests are not admitted too
//! early.

use std::sync::Arc;

use tidegate::{Clock, LATE_NS_MAX, SystemClock};

use super::{decide, rules};
use crate::engine::fixture::{domains, with_request};
use crate::engine::setup::{Setup, TestEngine, over_each_store};

const INTERVAL_NS: u64 = 50_000;

fn engine(setup: Setup) -> Arc<TestEngine<SystemClock>> {
    let rule =
        "key: [user], limit: { limit: 20000 per second, burst: 1 }, action: { delay: { max_wait: 1h } }";
    Arc::new(setup.engine(domains(&rules(rule)), SystemClock::default()))
}

fn on_runtime(setup: Setup, runtime: &tokio::runtime::Runtime) {
    const TASKS: u64 = 200;
    let (engine, clock) = (engine(setup), SystemClock::new());
    let began_ns = clock.now().as_nanos();
    runtime.block_on(async {
        let spawn = |_| {
            let engine = engine.clone();
            tokio::spawn(async move { decide(&engine, "user=1", 1).await })
        };
        let tasks: Vec<_> = (0..TASKS).map(spawn).collect();
        for task in tasks {
            assert!(task.await.unwrap().answer.kind.passes());
        }
    });
    assert!(clock.now().as_nanos() + LATE_NS_MAX >= began_ns + (TASKS - 1) * INTERVAL_NS);
}

fn works_on_a_single_threaded_runtime(setup: Setup) {
    on_runtime(setup, &tokio::runtime::Builder::new_current_thread().build().unwrap());
}

fn works_on_a_multi_threaded_runtime(setup: Setup) {
    on_runtime(setup, &tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().unwrap());
}

fn an_aborted_task_leaves_the_queue(setup: Setup) {
    let rule = "key: [user], limit: 1 per minute, action: { delay: { max_wait: 1h } }";
    let engine = Arc::new(setup.engine(domains(&rules(rule)), SystemClock::default()));
    // On one thread, spawned tasks have been polled, and so are in the queue, when this task continues.
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        assert!(decide(&engine, "user=1", 1).await.answer.kind.passes());
        let spawn = |_| {
            let engine = engine.clone();
            tokio::spawn(async move { decide(&engine, "user=1", 1).await })
        };
        let tasks: Vec<_> = (0..20).map(spawn).collect();
        let stays = spawn(20);
        tokio::task::yield_now().await;
        tasks.iter().for_each(tokio::task::JoinHandle::abort);
        for task in tasks {
            assert!(task.await.unwrap_err().is_cancelled());
        }
        with_request("user=1", 1, |request| setup.reset(&engine, request));
        assert!(stays.await.unwrap().answer.kind.passes());
    });
}

fn works_on_threads_while_rules_and_signals_change(setup: Setup) {
    const THREADS: u64 = 4;
    const REQUESTS_PER_THREAD: u64 = 100;
    let file = "
domain: api
rules:
  - { name: slow, key: [user], limit: { limit: 20000 per second, burst: 1 }, action: { delay: { max_wait: 1h } } }
  - { name: all, limit: { limit: 40000 per second, burst: 1 }, action: { delay: { max_wait: 1h } } }
  - { name: moving, limit: 1000000 per second, action: { elastic: { min: 900000, max: 2000000, signal: load } } }
";
    let engine = setup.engine(domains(file), SystemClock::default());
    let clock = SystemClock::new();
    let began_ns = clock.now().as_nanos();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    (0..REQUESTS_PER_THREAD).for_each(|_| {
                        with_request("user=1", 1, |request| {
                            let passes =
                                engine.decide_blocking(request).map(|decided| decided.answer.kind.passes());
                            assert!(passes.unwrap());
                        });
                    });
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                engine.replace(domains(file)).unwrap();
                engine.push_signal("load", "0.5".parse().unwrap()).unwrap();
            }
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let least_ns = (THREADS * REQUESTS_PER_THREAD - 1) * INTERVAL_NS - LATE_NS_MAX;
    assert!(clock.now().as_nanos() >= began_ns + least_ns);
}

over_each_store!(
    works_on_a_single_threaded_runtime,
    works_on_a_multi_threaded_runtime,
    an_aborted_task_leaves_the_queue,
    works_on_threads_while_rules_and_signals_change,
);
