//! Gives memory back to the system after a flood of connections or waiting requests.
//!
//! glibc keeps freed memory for the process, because some small allocation is still alive in nearly every part of its heaps:
//! 256 MiB of 256 after 99,000 waiting requests. `malloc_trim` gives back the free pages in between and leaves 11 MiB.
//! Another allocator would do so on its own, but jemalloc takes a fifth of the time of a cold build, and mimalloc keeps the memory too.
//!
//! The one foreign function is the only `unsafe` item of the workspace.

use std::sync::Arc;
use std::time::Duration;

use crate::serve::App;
use crate::serve::connections_memory::WAITER_BYTES;

/// How often the memory in use is compared with what it was. A flood may come and go within a second.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Less freed memory is kept, because the next requests need it again.
const FREED_BYTES_MIN: u64 = 16 << 20;
/// How often memory is given back after a flood. Connections count as closed before all of their memory is free.
const TRIMS: u32 = 20;

/// Gives memory back until the server drains.
pub async fn watch(app: Arc<App>) {
    let (mut peak_bytes, mut trims_left) = (0, 0);
    let mut interval = tokio::time::interval(POLL_INTERVAL);
    loop {
        tokio::select! {
            () = app.drain.wait() => return,
            _ = interval.tick() => {}
        }
        let waiting_bytes = app.engine.waiting_requests().saturating_mul(WAITER_BYTES);
        let used_bytes = app.connections_memory.used().saturating_add(waiting_bytes);
        peak_bytes = used_bytes.max(peak_bytes);
        if peak_bytes - used_bytes >= FREED_BYTES_MIN {
            (peak_bytes, trims_left) = (used_bytes, TRIMS);
        }
        if trims_left > 0 {
            trims_left -= 1;
            // Walks the whole heap, so not on a thread that serves connections. It fails only if the task panicked.
            let _ = tokio::task::spawn_blocking(trim).await;
        }
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "glibc offers it only as a C function")]
fn trim() {
    // SAFETY: the declaration is that of glibc's malloc.h. Any thread may call the function at any time, with any padding.
    unsafe extern "C" {
        safe fn malloc_trim(padding_bytes: usize) -> std::ffi::c_int;
    }
    // Whether anything was given back does not matter.
    malloc_trim(0);
}

/// Other C libraries give memory back by themselves, or have no such function.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim() {}
