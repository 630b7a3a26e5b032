//! Works out an outcome from the model alone, by searching for each number.
//!
//! Every search is for the point at which an answer changes for good: what fits at one cost fits at any lower
//! one, and what fits after one wait fits after any longer one.

use tidegate_core::{Nanos, Outcome, OutcomeKind, Wait};

use super::{Event, ModelKey};

/// What a limit says of `asked` in a request that passes or not by the word of all its limits; `after` is its
/// key with that request settled.
pub fn outcome(before: &ModelKey, after: &ModelKey, asked: Event, passes: bool) -> Outcome {
    let reset_after = least_wait(|wait| after.admits(Event { at: asked.at + wait, cost: after.capacity() }));
    Outcome {
        kind: if before.admits(asked) { OutcomeKind::Allowed } else { OutcomeKind::Denied },
        remaining: remaining(after, asked.at),
        retry_after: if passes { Wait::NONE } else { retry_after(after, asked) },
        reset_after: Nanos::new(reset_after),
        delay: Nanos::new(if passes { after.delay(asked) } else { 0 }),
    }
}

pub fn retry_after(after: &ModelKey, asked: Event) -> Wait {
    if asked.cost > after.capacity() {
        return Wait::NEVER;
    }
    Wait::of(Nanos::new(least_wait(|wait| after.admits(Event { at: asked.at + wait, ..asked }))))
}

fn remaining(after: &ModelKey, at: u128) -> u64 {
    let (mut fits, mut does_not) = (0, after.capacity() + 1);
    while does_not - fits > 1 {
        let cost = fits + (does_not - fits) / 2;
        if after.has_room(Event { at, cost }) {
            fits = cost;
        } else {
            does_not = cost;
        }
    }
    fits
}

/// The least wait that is enough; some wait has to be.
fn least_wait(enough: impl Fn(u128) -> bool) -> u128 {
    if enough(0) {
        return 0;
    }
    let (mut short, mut long) = (0, 1);
    while !enough(long) {
        (short, long) = (long, long * 2);
    }
    while long - short > 1 {
        let middle = short + (long - short) / 2;
        if enough(middle) {
            long = middle;
        } else {
            short = middle;
        }
    }
    long
}
