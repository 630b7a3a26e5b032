//! Waiting for a thing itself, and not for some time.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Waits until something is so, and not for ever.
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    const POLL_INTERVAL: Duration = Duration::from_millis(5);
    const POLLS_MAX: usize = 12_000;
    let (_never, nothing) = mpsc::channel::<()>();
    for _ in 0..POLLS_MAX {
        if is_so() {
            return;
        }
        assert_eq!(nothing.recv_timeout(POLL_INTERVAL), Err(RecvTimeoutError::Timeout));
    }
    panic!("{what} did not come");
}
