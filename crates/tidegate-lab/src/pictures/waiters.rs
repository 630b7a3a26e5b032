//! The trace put through a pacer: futures that are polled by hand whenever the clock has moved.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tidegate::{ManualClock, Pacer, PacerError, Refused, pacer};

use super::paced::Paced;
use super::run::{Fate, Request, Run, instant};
use super::trace::{self, END_NS, START_NS};

impl Run {
    /// Puts the trace through this pacer. The level is how many wait.
    pub fn of_pacer(paced: &Paced) -> Result<Self, PacerError> {
        let clock = ManualClock::default();
        let pacer = paced.pacer(&clock)?;
        let mut run = Self::new(paced.room());
        let mut waiters = Waiters { clock: &clock, waiting: Vec::new(), answered: BTreeMap::new() };
        run.note(0, 0);
        for (number, at_ns) in (0..).zip(trace::arrivals()) {
            waiters.pass_time_until(at_ns, &mut run);
            waiters.come(Waiter { number, came_ns: at_ns, future: asking(&pacer, paced) });
            run.note(at_ns, waiters.waiting.len() as u64);
        }
        waiters.pass_time_until(END_NS, &mut run);
        run.requests = waiters.answered.into_values().collect();
        Ok(run)
    }
}

/// All who wait for their turn, and what became of those who do not.
struct Waiters<'a> {
    clock: &'a ManualClock,
    waiting: Vec<Waiter<'a>>,
    /// By their number.
    answered: BTreeMap<u64, Request>,
}

struct Waiter<'a> {
    number: u64,
    came_ns: u64,
    future: Pin<Box<dyn Future<Output = Result<pacer::Permits, Refused>> + 'a>>,
}

impl<'a> Waiters<'a> {
    /// Moves the clock from one sleeper to the next; one whose turn it is leaves before the next one comes.
    fn pass_time_until(&mut self, now_ns: u64, run: &mut Run) {
        while let Some(wake) = self.clock.next_wake().filter(|wake| *wake <= instant(now_ns)) {
            self.clock.set(wake);
            for waiter in std::mem::take(&mut self.waiting) {
                self.come(waiter);
            }
            run.note(wake.as_nanos().saturating_sub(START_NS), self.waiting.len() as u64);
        }
        self.clock.set(instant(now_ns));
    }

    /// Asks for a waiter's permit, the first time or again.
    fn come(&mut self, mut waiter: Waiter<'a>) {
        match waiter.future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => self.waiting.push(waiter),
            Poll::Ready(acquisition) => {
                let request = Request { at_ns: waiter.came_ns, fate: Fate::of_acquisition(acquisition) };
                self.answered.insert(waiter.number, request);
            }
        }
    }
}

impl Fate {
    fn of_acquisition(acquisition: Result<pacer::Permits, Refused>) -> Self {
        match acquisition.map(|paced| paced.waited()) {
            Err(_) => Self::Denied,
            Ok(waited) if waited.is_zero() => Self::Admitted,
            Ok(waited) => Self::Delayed { by_ns: u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX) },
        }
    }
}

fn asking<'a>(
    pacer: &'a Pacer<ManualClock>,
    paced: &Paced,
) -> Pin<Box<dyn Future<Output = Result<pacer::Permits, Refused>> + 'a>> {
    Box::pin(pacer.acquire_within(1, paced.timeout()))
}
