//! Judges an outcome by asking the model around it: just before a wait is over and just after, for what remains
//! and for one unit more.

use tidegate_core::{Nanos, Outcome, OutcomeKind, Wait};

use super::{Event, ModelKey};

/// Holds `outcome` to what the model says of `asked` on `key`; the key after it.
///
/// Panics if the outcome is wrong in any field, and says which.
#[must_use]
pub fn verify_outcome(key: &ModelKey, asked: Event, outcome: &Outcome) -> ModelKey {
    let admitted = key.admits(asked);
    assert_eq!(outcome.kind == OutcomeKind::Allowed, admitted, "verdict on {asked:?}");
    let after = key.after(asked, admitted);
    verify_remaining(&after, asked.at, outcome.remaining);
    if admitted {
        assert_eq!(outcome.retry_after, Wait::NONE, "retry_after of an allowed {asked:?}");
    } else {
        verify_retry_after(&after, asked, outcome.retry_after);
    }
    verify_reset_after(&after, asked.at, outcome.reset_after);
    let held = if admitted { after.delay(asked) } else { 0 };
    assert_eq!(outcome.delay, Nanos::new(held), "delay of {asked:?}");
    after
}

/// The most that has room now. None at all says nothing about cost 0, which may be denied as well.
fn verify_remaining(after: &ModelKey, at: u128, remaining: u64) {
    let has_room = |cost| after.has_room(Event { at, cost });
    assert!(remaining == 0 || has_room(remaining), "remaining {remaining} is too much");
    assert!(!has_room(remaining + 1), "remaining {remaining} is too little");
}

/// The least wait that helps; never, if and only if no wait does.
fn verify_retry_after(after: &ModelKey, asked: Event, retry_after: Wait) {
    let Some(wait) = retry_after.span().map(Nanos::get) else {
        assert!(asked.cost > after.capacity(), "retry_after never, but {asked:?} can be admitted");
        return;
    };
    assert!(asked.cost <= after.capacity(), "retry_after {wait}, but {asked:?} can never be admitted");
    assert!(wait > 0, "retry_after 0 of a denied {asked:?}");
    let admitted_after = |wait| after.admits(Event { at: asked.at + wait, ..asked });
    assert!(admitted_after(wait), "retry_after {wait} is too early for {asked:?}");
    for shorter in [1, wait / 3, wait / 2, wait - 1] {
        let helps = 0 < shorter && shorter < wait && admitted_after(shorter);
        assert!(!helps, "retry_after {wait}, but {shorter} is enough for {asked:?}");
    }
}

/// The least wait after which all that a key never seen has room for has room, and has from then on. While
/// anything is left of the past, that is a unit too much.
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
