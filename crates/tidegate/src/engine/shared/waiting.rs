//! A request that may have to stand in line for limits that a fleet shares.
//!
//! Who is in front of a line asks, sleeps for as long as the store said, and asks again. It has its place before it asks
//! for the first time, so that whoever gives units back meanwhile finds it there.

use tidegate_core::rules::{Answer, Delay, Fate, Touches};
use tidegate_core::{Nanos, PlanFull, Timestamp, Wait};

use super::line::{Newcomer, Standing, Woken};
use super::{Asker, Want};
use crate::engine::Engine;
use crate::engine::waiting::{Delays, Judged, at_least, counts_denied, judge, line, span};
use crate::waiting::{PutOff, Ticket};
use crate::{Refusal, Timer};

/// How often the one in front asks for what leases hold, which are given back elsewhere without a word.
const LEASES_ASKED_EVERY_NS: u128 = 100_000_000;

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

/// A request that may have to wait.
pub(super) struct Waiting<'e, C: Timer> {
    engine: &'e Engine<C>,
    pub arrived: Timestamp,
    /// When it gives up: the earliest that any limit says which it waited for.
    deadline: Timestamp,
    /// Its place among those who wait, once it has one.
    ticket: Option<Ticket>,
    standing: Option<Standing<'e, C>>,
}

/// What comes next.
#[allow(clippy::large_enum_variant, reason = "it stays in the future, where a box would be an allocation")]
enum Next<'r> {
    /// To get in the line of the limit at this place among those that may hold it; or in any.
    Arrive(Option<usize>),
    /// To wait for its turn in the line of this one.
    Stand(usize),
    /// To ask, in front of this line; and units may have come back so often.
    Ask { delay: usize, nudges: u64 },
    /// Nothing.
    End(Turn<'r>),
    /// To look at the rules again.
    Look,
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

impl<'e, C: Timer> Waiting<'e, C> {
    pub fn new(engine: &'e Engine<C>) -> Self {
        let (arrived, deadline) = (engine.clock.now(), Timestamp::from_nanos(u64::MAX));
        Self { engine, arrived, deadline, ticket: None, standing: None }
    }

    /// It leaves the line that it stands in, if it does.
    pub fn leave(&mut self) {
        self.standing = None;
    }

    /// Goes as far as it can by these rules, which have limits that may hold it; none if they have to be looked at again.
    pub async fn turn<'r>(
        &mut self,
        asker: &mut Asker<'e, C>,
        view: &View<'_, 'r>,
    ) -> Result<Option<Turn<'r>>, PlanFull> {
        let mut next = self.begin(view);
        loop {
            next = match next {
                Next::Arrive(at) => self.arrive(asker, view, at).await?,
                Next::Stand(delay) => self.stand(asker, view, delay).await?,
                Next::Ask { delay, nudges } => self.ask(asker, view, delay, nudges).await?,
                Next::End(turn) => return Ok(Some(turn)),
                Next::Look => return Ok(None),
            };
        }
    }

    /// Where it begins by rules that it has not seen before: where it stands, unless that line is gone.
    fn begin<'r>(&mut self, view: &View<'_, 'r>) -> Next<'r> {
        let Some(standing) = &mut self.standing else { return Next::Arrive(None) };
        standing.looked_at(view.changes);
        match view.delays.iter().position(|delay| standing.is_of(delay)) {
            Some(place) => Next::Stand(place),
            None => {
                // The rule is gone, or counts in another way.
                self.standing = None;
                Next::Arrive(None)
            }
        }
    }

    /// It comes, or comes from another line.
    async fn arrive<'r>(
        &mut self,
        asker: &mut Asker<'e, C>,
        view: &View<'_, 'r>,
        at: Option<usize>,
    ) -> Result<Next<'r>, PlanFull> {
        self.standing = None;
        let place = at.or_else(|| self.earlier_in(view)).unwrap_or(0);
        let (delay, now) = (&view.delays[place], self.engine.clock.now());
        self.deadline = self.deadline.min(self.arrived.saturating_add(delay.max_wait));
        if !delay.is_possible() {
            let refused = Refused { refusal: Refusal::Never, since: now };
            return self.refused(asker, view, delay, refused).await;
        }
        let newcomer = Newcomer { ticket: self.ticket, now, deadline: self.deadline };
        match Standing::in_line_of(self.engine, delay, newcomer, view.changes).await {
            Err(refusal) => self.refused(asker, view, delay, Refused { refusal, since: now }).await,
            Ok(standing) => {
                self.ticket = Some(standing.ticket);
                self.standing = Some(standing);
                Ok(Next::Stand(place))
            }
        }
    }

    /// It waits for its turn.
    async fn stand<'r>(
        &mut self,
        asker: &mut Asker<'e, C>,
        view: &View<'_, 'r>,
        place: usize,
    ) -> Result<Next<'r>, PlanFull> {
        let Some(standing) = &self.standing else { return Ok(Next::Arrive(None)) };
        let (woken, since) = (standing.until_front().await, standing.since);
        self.woken(asker, view, place, woken, since).await
    }

    async fn woken<'r>(
        &mut self,
        asker: &mut Asker<'e, C>,
        view: &View<'_, 'r>,
        place: usize,
        woken: Woken,
        since: Timestamp,
    ) -> Result<Next<'r>, PlanFull> {
        match woken {
            Woken::Changed => Ok(Next::Look),
            Woken::Refused(refusal) => {
                self.standing = None;
                self.refused(asker, view, &view.delays[place], Refused { refusal, since }).await
            }
            Woken::InFront { nudges } => Ok(match self.earlier_in(view) {
                Some(earlier) => Next::Arrive(Some(earlier)),
                None => Next::Ask { delay: place, nudges },
            }),
        }
    }

    /// It asks, and leaves with the answer or waits.
    async fn ask<'r>(
        &mut self,
        asker: &mut Asker<'e, C>,
        view: &View<'_, 'r>,
        place: usize,
        nudges: u64,
    ) -> Result<Next<'r>, PlanFull> {
        let Some(standing) = &self.standing else { return Ok(Next::Arrive(None)) };
        let (delay, since, at) = (&view.delays[place], standing.since, self.engine.clock.now());
        if self.deadline < at {
            let refused = Refused { refusal: Refusal::TooLong { wait: None }, since };
            return self.refused(asker, view, delay, refused).await;
        }
        let (answer, judged) = attempt(asker, view, delay, at).await?;
        let wait = match judged {
            Judged::Passes => {
                if let Some(standing) = self.standing.take() {
                    standing.leave();
                }
                return Ok(Next::End(Turn { answer, at, refusal: None }));
            }
            Judged::Denied => return Ok(Next::End(Turn { answer, at, refusal: None })),
            Judged::WaitsFor(other) => return Ok(Next::Arrive(Some(other))),
            Judged::Waits(wait) => wait,
        };
        let now = self.engine.clock.now();
        let due = match self.due(delay, Put { since, now }, wait) {
            Ok(due) => due,
            Err(refusal) => return Ok(Next::End(denied(answer, delay, Refused { refusal, since }, now))),
        };
        let woken = standing.until_due(PutOff { due, pace: delay.pace(now), nudges }).await;
        self.woken(asker, view, place, woken, since).await
    }

    /// When to ask again if it has to wait this long: no later than when a limit goes that may be the one it waits for.
    fn due(&self, delay: &Delay<'_>, asked: Put, wait: Wait) -> Result<Timestamp, Refusal> {
        let Put { since, now } = asked;
        let due = wait.span().map(|wait| now.saturating_add(wait.max(Nanos::new(1))));
        let due = due.into_iter().chain(delay.retires(now)).min().filter(|due| *due > now);
        let Some(due) = due else { return Err(Refusal::Never) };
        match (delay.is_foreseeable(), due > self.deadline) {
            (true, false) => Ok(due),
            (true, true) => Err(Refusal::TooLong { wait: Some(span(since, due)) }),
            (false, _) if self.deadline <= now => Err(Refusal::TooLong { wait: None }),
            (false, _) => {
                Ok(due.min(self.deadline).min(now.saturating_add(Nanos::new(LEASES_ASKED_EVERY_NS))))
            }
        }
    }

    /// The answer to a request that does not wait, or no longer, without having asked.
    async fn refused<'r>(
        &mut self,
        asker: &mut Asker<'e, C>,
        view: &View<'_, 'r>,
        delay: &Delay<'_>,
        refused: Refused,
    ) -> Result<Next<'r>, PlanFull> {
        self.standing = None;
        asker.ask_anew();
        let now = self.engine.clock.now();
        let answer = asker.settle(view.touches, now, Want::Look).await?;
        Ok(Next::End(denied(answer, delay, refused, now)))
    }

    /// One of the limits that may hold it for which somebody waits who came earlier. Others may not be overtaken where
    /// they wait, whatever it is that this one waits for.
    fn earlier_in(&self, view: &View<'_, '_>) -> Option<usize> {
        if view.delays.len() < 2 {
            return None;
        }
        let came_earlier = |front: Ticket| self.ticket.is_none_or(|ticket| front < ticket);
        view.delays.iter().position(|delay| self.engine.queues.front(&line(delay)).is_some_and(came_earlier))
    }
}

/// Since when a request stands in its line, and when it was last answered.
#[derive(Clone, Copy)]
struct Put {
    since: Timestamp,
    now: Timestamp,
}

/// Why a request does not wait, and since when it asked to.
#[derive(Clone, Copy)]
struct Refused {
    refusal: Refusal,
    since: Timestamp,
}

/// Asks for all that the request touches, and what that means to one who stands in line for `delay`.
async fn attempt<'r, C: Timer>(
    asker: &mut Asker<'_, C>,
    view: &View<'_, 'r>,
    delay: &Delay<'_>,
    at: Timestamp,
) -> Result<(Answer<'r>, Judged), PlanFull> {
    asker.ask_anew();
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
fn denied<'r>(mut answer: Answer<'r>, delay: &Delay<'_>, refused: Refused, now: Timestamp) -> Turn<'r> {
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
