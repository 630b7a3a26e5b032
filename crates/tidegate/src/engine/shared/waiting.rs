//! A request that may have to stand in line for limits that a fleet shares.
//!
//! While nobody waits for any of them it asks at once, as a request does that nothing can hold, so that those who come
//! together are asked about together. Who is told to wait gets in line and sleeps for as long as the store said, or a second,
//! for units may come back elsewhere. From then on those who come get in line behind it, and who is in front asks, sleeps,
//! and asks again; together with some of those behind it, where there is room for all of them. A place in line is by when a
//! request came, not by when it was told.
//!
//! Units may come back while a request is asked about that is in no line yet, so nobody finds it there. It looks how often
//! they did before it asks, and when it gets in line: if they did meanwhile, it asks again.

use tidegate_core::rules::Delay;
use tidegate_core::{Nanos, PlanFull, Timestamp, Wait};

use super::line::{Company, Newcomer, Standing, Woken};
use super::turn::{Put, Refused, Told, Turn, View, attempt, denied};
use super::{Asker, Want};
use crate::engine::Engine;
use crate::engine::waiting::{Judged, line, span};
use crate::waiting::{PutOff, Stood, Ticket};
use crate::{Refusal, Timer};

/// How often the one in front asks for what leases hold, which are given back elsewhere without a word.
const LEASES_ASKED_EVERY_NS: u128 = 100_000_000;

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
    Stand(usize, Company),
    /// To ask, where it stands in this line; and units may have come back so often.
    Ask { delay: usize, nudges: u64 },
    /// To wait for the limit at this place, for so long as it was told.
    PutOff(usize, Told<'r>),
    /// Nothing.
    End(Turn<'r>),
    /// To look at the rules again.
    Look,
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
                Next::Stand(delay, company) => self.stand(asker, view, delay, company).await?,
                Next::Ask { delay, nudges } => self.ask(asker, view, delay, nudges).await?,
                Next::PutOff(delay, told) => self.put_off(asker, view, delay, told).await?,
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
            Some(place) => Next::Stand(place, Company::Joins),
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
        let waits_in = at.or_else(|| self.earlier_in(view, None));
        let place = waits_in.unwrap_or(0);
        let (delay, now) = (&view.delays[place], self.engine.clock.now());
        self.deadline = self.deadline.min(self.arrived.saturating_add(delay.max_wait));
        if !delay.is_possible() {
            let refused = Refused { refusal: Refusal::Never, since: now };
            return self.refused(asker, view, delay, refused).await;
        }
        if waits_in.is_none() {
            return self.ask_at_once(asker, view, place, now).await;
        }
        let newcomer = Newcomer { ticket: self.ticket, since: now, deadline: self.deadline };
        match Standing::in_line_of(self.engine, delay, newcomer, view.changes).await {
            Err(refusal) => self.refused(asker, view, delay, Refused { refusal, since: now }).await,
            Ok(standing) => {
                self.ticket = Some(standing.stood.ticket);
                self.standing = Some(standing);
                Ok(Next::Stand(place, Company::Joins))
            }
        }
    }

    /// It asks without standing in line, for nobody waits who came earlier.
    async fn ask_at_once<'r>(
        &mut self,
        asker: &mut Asker<'e, C>,
        view: &View<'_, 'r>,
        place: usize,
        at: Timestamp,
    ) -> Result<Next<'r>, PlanFull> {
        let (queues, delay) = (&self.engine.queues, &view.delays[place]);
        if self.deadline < at {
            let refused = Refused { refusal: Refusal::TooLong { wait: None }, since: at };
            return self.refused(asker, view, delay, refused).await;
        }
        // Should it have to wait, it does so in front of all who come while it is asked.
        self.ticket.get_or_insert_with(|| queues.next_ticket());
        let nudges_of_all = queues.nudges();
        let (answer, judged) = attempt(asker, view, delay, at).await?;
        Ok(match judged {
            Judged::Passes | Judged::Denied => Next::End(Turn { answer, at, refusal: None }),
            Judged::Waits(_) => Next::PutOff(place, Told { answer, at, nudges_of_all }),
            Judged::WaitsFor(other) => Next::PutOff(other, Told { answer, at, nudges_of_all }),
        })
    }

    /// It gets in a line because it was told to wait, without asking anew. If others are in front, they go first.
    async fn put_off<'r>(
        &mut self,
        asker: &mut Asker<'e, C>,
        view: &View<'_, 'r>,
        place: usize,
        told: Told<'r>,
    ) -> Result<Next<'r>, PlanFull> {
        let Told { answer, at: since, nudges_of_all } = told;
        self.standing = None;
        let (delay, now) = (&view.delays[place], self.engine.clock.now());
        self.deadline = self.deadline.min(self.arrived.saturating_add(delay.max_wait));
        let wait = answer.limits[delay.place].outcome.retry_after;
        let newcomer = Newcomer { ticket: self.ticket, since, deadline: self.deadline };
        let stands = match self.due(delay, Put { since, now }, wait) {
            Ok(due) => Standing::in_line_of(self.engine, delay, newcomer, view.changes)
                .await
                .map(|standing| (due, standing)),
            Err(refusal) => Err(refusal),
        };
        let (due, standing) = match stands {
            Ok(stands) => stands,
            Err(refusal) => return Ok(Next::End(denied(answer, delay, Refused { refusal, since }, now))),
        };
        let standing = self.standing.insert(standing);
        let woken = match standing.stood {
            Stood { nudges, nudges_of_all: of_all, .. } if of_all == nudges_of_all => {
                standing.until_due(PutOff { due, pace: delay.pace(now), nudges }).await
            }
            _ => standing.until_front(Company::Joins).await,
        };
        self.woken(asker, view, place, woken, since).await
    }

    /// It waits for its turn.
    async fn stand<'r>(
        &mut self,
        asker: &mut Asker<'e, C>,
        view: &View<'_, 'r>,
        place: usize,
        company: Company,
    ) -> Result<Next<'r>, PlanFull> {
        let Some(standing) = &self.standing else { return Ok(Next::Arrive(None)) };
        let (woken, since) = (standing.until_front(company).await, standing.since);
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
            Woken::InFront { nudges } => Ok(match self.earlier_in(view, Some(place)) {
                Some(earlier) => Next::Arrive(Some(earlier)),
                None => Next::Ask { delay: place, nudges },
            }),
            // Somebody came earlier here as well, so it has no reason to go elsewhere yet.
            Woken::Joins { nudges } => Ok(match self.earlier_in(view, Some(place)) {
                Some(_) => Next::Stand(place, Company::Alone),
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
        // It has waited for its turn; or would have, had not units come back just then.
        asker.ask_anew();
        let nudges_of_all = self.engine.queues.nudges();
        let (answer, judged) = attempt(asker, view, delay, at).await?;
        let wait = match judged {
            Judged::Passes => {
                if let Some(standing) = self.standing.take() {
                    standing.leave(answer.limits[delay.place].outcome.remaining);
                }
                return Ok(Next::End(Turn { answer, at, refusal: None }));
            }
            Judged::Denied => return Ok(Next::End(Turn { answer, at, refusal: None })),
            Judged::WaitsFor(other) => {
                return Ok(Next::PutOff(other, Told { answer, at, nudges_of_all }));
            }
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

    /// One of the limits that may hold it for which somebody waits who came earlier, but for the one whose line it stands
    /// in. Others may not be overtaken where they wait, whatever it is that this one waits for.
    fn earlier_in(&self, view: &View<'_, '_>, stands_in: Option<usize>) -> Option<usize> {
        let came_earlier = |front: Ticket| self.ticket.is_none_or(|ticket| front < ticket);
        let waits_in =
            |place: &usize| self.engine.queues.front(&line(&view.delays[*place])).is_some_and(came_earlier);
        (0..view.delays.len()).filter(|place| Some(*place) != stands_in).find(waits_in)
    }
}
