//! Atomics and locks. Under `--cfg loom` they are loom's, so that the model checker sees every access.

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

/// Waits one step for another thread that is inside a critical section of a few dozen instructions.
///
/// Each step is twice as long as the one before. While this thread waits, the other makes several decisions with the
/// cache lines that it has, which is cheaper than moving the lines between cores. After `DOUBLINGS_MAX` steps the other
/// thread has probably lost its core, so this thread yields.
#[cold]
#[inline(never)]
pub(crate) fn spin_or_yield(step: &mut u32) {
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

/// `len` zeroed values, or none if memory cannot be reserved. The operating system provides pages when they are first
/// written, so values that are never written use no memory.
#[cfg(not(loom))]
pub(crate) fn zeroed<T: bytemuck::Zeroable>(len: usize) -> Option<Box<[T]>> {
    bytemuck::allocation::try_zeroed_slice_box(len).ok()
}

/// Loom's atomics are not plain memory.
#[cfg(loom)]
pub(crate) fn zeroed<T: LoomZeroed>(len: usize) -> Option<Box<[T]>> {
    Some((0..len).map(|_| T::zeroed()).collect())
}

#[cfg(loom)]
pub(crate) trait LoomZeroed {
    fn zeroed() -> Self;
}

#[cfg(loom)]
impl LoomZeroed for AtomicU32 {
    fn zeroed() -> Self {
        Self::new(0)
    }
}

#[cfg(loom)]
impl<const N: usize> LoomZeroed for [AtomicU64; N] {
    fn zeroed() -> Self {
        std::array::from_fn(|_| AtomicU64::new(0))
    }
}

/// Locks, also after a panic in another thread: no critical section here leaves its data in an inconsistent state.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Runs every interleaving with at most `preemptions_max` preemptions.
///
/// Loom remembers only the last access to each word. So the thread that reads must be the spawned one and run after the
/// thread that writes: in the other order loom finds nothing to reorder.
#[cfg(all(test, loom))]
pub(crate) fn check_interleavings(preemptions_max: usize, test: impl Fn() + Sync + Send + 'static) {
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
