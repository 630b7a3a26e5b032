//! Tables of calls and waits.
//!
//! ```text
//!          0 | acquire 10             | waits 0
//!       next | try 1 within 500_000   | refused 2_000_000
//!   +300_000 | rate 10/s              |
//! ```
//!
//! The first column is when the call is made, in microseconds: at that time, as soon as the call above it has finished
//! waiting (`next`), or some time after that (`+300_000`). The last column is how long it waits, or would have to, to
//! the nanosecond. A `+` after it stands for the fraction of a microsecond that Guava, which has only whole ones, does
//! not show.

use std::task::Poll;
use std::time::Duration;

use tidegate::{Clock, ManualClock, Pacer, PacerBuilder, Timestamp};

use crate::pacer::Acquired;
use crate::pacer::polling::Task;

use super::{PacerTestExt as _, PermitsRefused};

/// Makes all calls of the table and compares.
pub fn check(builder: PacerBuilder, table: &str) {
    let clock = ManualClock::default();
    let pacer = builder.clock(clock.clone()).build().unwrap();
    let mut calls = Calls { pacer: &pacer, clock, waiting: Vec::new(), last_done: Timestamp::from_nanos(0) };
    for row in table.lines().filter(|row| !row.trim().is_empty()) {
        let mut cells = row.split('|').map(str::trim);
        let mut cell = || cells.next().unwrap_or_else(|| panic!("a cell is missing in `{row}`"));
        let (at, call, answer) = (cell(), cell(), cell());
        calls.advance_to(at);
        calls.start_call(call, Expected { row: row.to_owned(), answer: answer.to_owned() });
    }
    calls.run_until(None);
    assert!(calls.waiting.is_empty(), "not all waits came to an end");
}

struct Calls<'a> {
    pacer: &'a Pacer<ManualClock>,
    clock: ManualClock,
    waiting: Vec<Waiting<'a>>,
    last_done: Timestamp,
}

struct Waiting<'a> {
    task: Task<'a, Acquired>,
    since: Timestamp,
    expected: Expected,
}

struct Expected {
    row: String,
    answer: String,
}

impl<'a> Calls<'a> {
    fn advance_to(&mut self, at: &str) {
        let at = match at.strip_prefix('+') {
            _ if at == "next" => None,
            Some(later) => {
                self.finish_last();
                Some(self.last_done.as_nanos() + number(later) * 1_000)
            }
            None => Some(number(at) * 1_000),
        };
        match at {
            None => self.finish_last(),
            Some(at_ns) => self.run_until(Some(Timestamp::from_nanos(at_ns))),
        }
    }

    /// The last call waits longest, because calls are served in order.
    fn finish_last(&mut self) {
        self.run_until(None);
    }

    /// Moves the clock from one sleeper to the next, and polls them all each time.
    fn run_until(&mut self, end: Option<Timestamp>) {
        while let Some(wake) = self.clock.next_wake().filter(|wake| end.is_none_or(|end| *wake <= end)) {
            self.clock.set(wake);
            self.poll_all();
        }
        if let Some(end) = end {
            assert!(end >= self.clock.now(), "calls are in order of time");
            self.clock.set(end);
        }
    }

    fn start_call(&mut self, call: &str, expected: Expected) {
        let words: Vec<&str> = call.split_whitespace().collect();
        let (pacer, since) = (self.pacer, self.clock.now());
        let task = match words[..] {
            ["acquire", permits] => {
                let permits = number(permits);
                Task::new(async move { Ok(pacer.wait_for(permits).await) })
            }
            ["try", permits, "within", timeout_us] => {
                let timeout = Duration::from_micros(number(timeout_us));
                Task::new(pacer.wait_within(number(permits), timeout))
            }
            ["rate", ..] => {
                self.last_done = since;
                return pacer.set_rate(call.trim_start_matches("rate")).unwrap();
            }
            _ => panic!("`{call}` is no call"),
        };
        self.waiting.push(Waiting { task, since, expected });
        self.poll_all();
    }

    fn poll_all(&mut self) {
        let now = self.clock.now();
        self.waiting.retain_mut(|one| match one.task.poll() {
            Poll::Pending => true,
            Poll::Ready(answer) => {
                one.expected.compare(answer, Duration::from_nanos(now.as_nanos() - one.since.as_nanos()));
                self.last_done = now;
                false
            }
        });
    }
}

impl Expected {
    /// `took` is what really passed on the clock.
    fn compare(&self, answer: Acquired, took: Duration) {
        let actual = match answer {
            Ok(waited) => {
                assert_eq!(waited, took, "waited as long as it says: {}", self.row);
                ("waits", waited)
            }
            Err(PermitsRefused { would_wait }) => {
                assert_eq!(took, Duration::ZERO, "a refusal does not wait: {}", self.row);
                ("refused", would_wait)
            }
        };
        let (word, wait_us) = self.answer.split_once(' ').expect("an answer is a word and a number");
        let (whole, has_fraction) = match wait_us.strip_suffix('+') {
            Some(whole) => (number(whole), true),
            None => (number(wait_us), false),
        };
        assert_eq!((actual.0, actual.1.as_micros()), (word, u128::from(whole)), "{}", self.row);
        let fraction_ns = actual.1.as_nanos() % 1_000;
        assert_eq!(fraction_ns > 0, has_fraction, "and {fraction_ns} ns: {}", self.row);
    }
}

fn number(text: &str) -> u64 {
    text.replace('_', "").parse().unwrap_or_else(|_| panic!("`{text}` is no number"))
}
