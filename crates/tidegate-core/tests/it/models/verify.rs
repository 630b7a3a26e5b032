//! Verifies an outcome by asking the model about nearby requests: just before and just after a wait ends, for the
//! remaining cost and for one unit more.

use tidegate_core::{Nanos, Outcome, OutcomeKind, Wait};

use super::{Event, ModelKey};

/// Compares `outcome` with the model, for `request` on `key`. Returns the key after the request.
///
/// Panics with the name of the field if the outcome is wrong.
#[must_use]
pub fn verify_outcome(key: &ModelKey, request: Event, outcome: &Outcome) -> ModelKey {
    let admitted = key.admits(request);
    assert_eq!(outcome.kind == OutcomeKind::Allowed, admitted, "kind of {request:?}");
    let after = key.after(request, admitted);
    verify_remaining(&after, request.at, outcome.remaining);
    if admitted {
        assert_eq!(outcome.retry_after, Wait::NONE, "retry_after of an allowed {request:?}");
    } else {
        verify_retry_after(&after, request, outcome.retry_after);
    }
    verify_reset_after(&after, request.at, outcome.reset_after);
    let delay = if admitted { after.delay(request) } else { 0 };
    assert_eq!(outcome.delay, Nanos::new(delay), "delay of {request:?}");
    after
}

/// The largest cost that fits now. Zero says nothing about cost 0, which may be denied too.
fn verify_remaining(after: &ModelKey, at: u128, remaining: u64) {
    let has_room = |cost| after.has_room(Event { at, cost });
    assert!(remaining == 0 || has_room(remaining), "remaining {remaining} is too much");
    assert!(!has_room(remaining + 1), "remaining {remaining} is too little");
}

/// The shortest wait that is enough. Never if and only if no wait is enough.
fn verify_retry_after(after: &ModelKey, request: Event, retry_after: Wait) {
    let Some(wait) = retry_after.span().map(Nanos::get) else {
        assert!(request.cost > after.capacity(), "retry_after never, but {request:?} can be admitted");
        return;
    };
    assert!(request.cost <= after.capacity(), "retry_after {wait}, but {request:?} can never be admitted");
    assert!(wait > 0, "retry_after 0 of a denied {request:?}");
    let admitted_after = |wait| after.admits(Event { at: request.at + wait, ..request });
    assert!(admitted_after(wait), "retry_after {wait} is too early for {request:?}");
    for shorter in [1, wait / 3, wait / 2, wait - 1] {
        let helps = 0 < shorter && shorter < wait && admitted_after(shorter);
        assert!(!helps, "retry_after {wait}, but {shorter} is enough for {request:?}");
    }
}

/// The shortest wait after which everything fits that fits a key never seen, and still fits later. While any of the
/// past counts, one unit is too much.
fn verify_reset_after(after: &ModelKey, at: u128, reset_after: Nanos) {
    let wait = reset_after.get();
    let as_new_after = |wait| after.admits(Event { at: at + wait, cost: after.capacity() });
    for later in [wait, wait + 1, 2 * wait] {
        assert!(as_new_after(later), "reset_after {wait}, but after {later} the past still counts");
    }
    for earlier in [0, wait / 3, wait / 2, wait.saturating_sub(1)] {
        assert!(earlier >= wait || !as_new_after(earlier), "reset_after {wait}, but {earlier} is enough");
    }
}
