//! One turn of a request that may have to wait: what it is about, how it is asked, how it ends.

use tidegate_core::rules::{Answer, Delay, Fate, Touches};
use tidegate_core::{Nanos, PlanFull, Timestamp, Wait};

use super::{Asker, Want};
use crate::engine::waiting::{Delays, Judged, at_least, counts_denied, judge, span};
use crate::{Refusal, Timer};

/// What a request touches, by the rules as they are.
pub(super) struct View<'t, 'r> {
    pub touches: &'t Touches<'r>,
    pub delays: Delays<'t>,
    pub want: Want,
    /// What the rules were counted as.
    pub changes: u64,
}

/// How it ended.
pub(super) struct Turn<'r> {
    pub answer: Answer<'r>,
    /// As of when.
    pub at: Timestamp,
    /// Why it was not held, or no longer, if it was denied for that.
    pub refusal: Option<Refusal>,
}

/// What a request was told that has to wait.
pub(super) struct Told<'r> {
    pub answer: Answer<'r>,
    /// When it asked.
    pub at: Timestamp,
    /// How often units may have come back before that, in all lines.
    pub nudges_of_all: u64,
}

/// Since when a request stands in its line, and when it was last answered.
#[derive(Clone, Copy)]
pub(super) struct Put {
    pub since: Timestamp,
    pub now: Timestamp,
}

/// Why a request does not wait, and since when it asked to.
#[derive(Clone, Copy)]
pub(super) struct Refused {
    pub refusal: Refusal,
    pub since: Timestamp,
}

impl<'t, 'r> View<'t, 'r> {
    pub fn of(touches: &'t Touches<'r>, want: Want, changes: u64) -> Self {
        let mut delays = Delays::new();
        // Not collected: that is done in one place, of which it is part, where a request is decided in memory.
        for delay in touches.delays() {
            delays.push(delay);
        }
        Self { touches, delays, want, changes }
    }
}

/// Asks for all that the request touches, and what that means to one who stands in line for `delay`.
pub(super) async fn attempt<'r, C: Timer>(
    asker: &mut Asker<'_, C>,
    view: &View<'_, 'r>,
    delay: &Delay<'_>,
    at: Timestamp,
) -> Result<(Answer<'r>, Judged), PlanFull> {
    // A request that waits makes one attempt, when it leaves: it asks without asking until then.
    if counts_denied(view.touches, at) {
        let answer = asker.settle(view.touches, at, Want::Look).await?;
        let judged = judge(&answer, &view.delays, delay);
        if let Judged::Waits(_) | Judged::WaitsFor(_) = judged {
            return Ok((answer, judged));
        }
    }
    let answer = asker.settle(view.touches, at, view.want).await?;
    let judged = judge(&answer, &view.delays, delay);
    Ok((answer, judged))
}

/// The end of a request that does not wait, or no longer, though it is not admitted.
pub(super) fn denied<'r>(
    mut answer: Answer<'r>,
    delay: &Delay<'_>,
    refused: Refused,
    now: Timestamp,
) -> Turn<'r> {
    let retry_after = match refused.refusal {
        Refusal::Never => Wait::NEVER,
        Refusal::TooLong { wait: Some(wait) } => at_least(span(now, refused.since.saturating_add(wait))),
        Refusal::TooLong { wait: None } | Refusal::QueueFull => at_least(Nanos::ZERO),
    };
    // What nobody could be asked about is not denied because so many wait.
    if answer.fate != Fate::Unavailable {
        answer.deny(delay.place, retry_after);
    }
    Turn { answer, at: now, refusal: Some(refused.refusal) }
}
