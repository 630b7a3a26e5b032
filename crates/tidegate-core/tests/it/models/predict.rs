//! Computes an outcome from the model alone, by searching for each number.
//!
//! Every search looks for the point where a result changes for good: if a cost fits, every lower cost fits, and if a
//! request fits after a wait, it fits after every longer one.

use tidegate_core::{Nanos, Outcome, OutcomeKind, Wait};

use super::{Event, ModelKey};

/// The outcome of `request` for a limit. `passes` is the decision of all limits of the plan. `after` is the key after
/// the request was charged, if it was.
pub fn outcome(before: &ModelKey, after: &ModelKey, request: Event, passes: bool) -> Outcome {
    let reset_after =
        least_wait(|wait| after.admits(Event { at: request.at + wait, cost: after.capacity() }));
    Outcome {
        kind: if before.admits(request) { OutcomeKind::Allowed } else { OutcomeKind::Denied },
        remaining: remaining(after, request.at),
        retry_after: if passes { Wait::NONE } else { retry_after(after, request) },
        reset_after: Nanos::new(reset_after),
        delay: Nanos::new(if passes { after.delay(request) } else { 0 }),
        over: after.over(request.at),
    }
}

pub fn retry_after(after: &ModelKey, request: Event) -> Wait {
    if request.cost > after.capacity() {
        return Wait::NEVER;
    }
    Wait::of(Nanos::new(least_wait(|wait| after.admits(Event { at: request.at + wait, ..request }))))
}

fn remaining(after: &ModelKey, at: u128) -> u64 {
    let (mut fits, mut too_much) = (0, after.capacity() + 1);
    while too_much - fits > 1 {
        let cost = fits + (too_much - fits) / 2;
        if after.has_room(Event { at, cost }) {
            fits = cost;
        } else {
            too_much = cost;
        }
    }
    fits
}

/// The shortest wait that is enough. There must be one.
fn least_wait(is_enough: impl Fn(u128) -> bool) -> u128 {
    if is_enough(0) {
        return 0;
    }
    let (mut short, mut long) = (0, 1);
    while !is_enough(long) {
        (short, long) = (long, long * 2);
    }
    while long - short > 1 {
        let middle = short + (long - short) / 2;
        if is_enough(middle) {
            long = middle;
        } else {
            short = middle;
        }
    }
    long
}
