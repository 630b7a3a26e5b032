//! Atomics, and the memory they live in. Under `--cfg loom` they are the model checker's.

#[cfg(loom)]
pub(crate) use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU32, AtomicU64, Ordering},
};
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU32, AtomicU64, Ordering},
};

/// One step of a wait for another thread that is inside a critical section of a few dozen instructions.
///
/// Each step is twice as long as the one before: while one thread waits, the other makes several decisions with
/// the cache lines it has, which is cheaper for both than handing them to and fro. After a while the other has
/// probably lost its core, so ours is given away.
#[cold]
#[inline(never)]
pub(crate) fn pause(step: &mut u32) {
    const DOUBLINGS_MAX: u32 = 6;
    if cfg!(loom) {
        loom_yield();
    } else if *step > DOUBLINGS_MAX {
        std::thread::yield_now();
    } else {
        (0..1 << *step).for_each(|_| std::hint::spin_loop());
        *step += 1;
    }
}

fn loom_yield() {
    #[cfg(loom)]
    loom::thread::yield_now();
}

/// `len` zeroed words, or none if the machine has no room for them. The operating system hands out their
/// pages as they are first written, so words that are never written cost nothing.
pub(crate) fn zeroed_u64(len: usize) -> Option<Box<[AtomicU64]>> {
    #[cfg(not(loom))]
    return bytemuck::allocation::try_zeroed_slice_box(len).ok();
    #[cfg(loom)]
    return Some((0..len).map(|_| AtomicU64::new(0)).collect());
}

/// As [`zeroed_u64`], in half the width.
pub(crate) fn zeroed_u32(len: usize) -> Option<Box<[AtomicU32]>> {
    #[cfg(not(loom))]
    return bytemuck::allocation::try_zeroed_slice_box(len).ok();
    #[cfg(loom)]
    return Some((0..len).map(|_| AtomicU32::new(0)).collect());
}

/// The lock's data, also after a panic elsewhere: no critical section here leaves anything half done that a
/// later one could trip over.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Runs every interleaving with at most this many preemptions.
///
/// The checker notes only the last access to each word, so a thread that reads is run after the one that
/// writes, as the spawned one; the other way round it would find nothing to reorder.
#[cfg(all(test, loom))]
pub(crate) fn model(preemptions_max: usize, test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions_max);
    builder.max_branches = 10_000;
    let runs = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let count = runs.clone();
    builder.check(move || {
        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        test();
    });
    let runs = runs.load(std::sync::atomic::Ordering::Relaxed);
    assert!(runs > 10, "only {runs} interleavings were tried");
    println!("{runs} interleavings");
}
