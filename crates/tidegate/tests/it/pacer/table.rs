//! Tables of calls and waits.
//!
//! ```text
//!          0 | acquire 10             | waits 0
//!       next | try 1 within 500_000   | refused 2_000_000
//!   +300_000 | rate 10/s              |
//! ```
//!
//! The first column is when the call is made, in microseconds: at that time, as soon as the call above it is done
//! waiting (`next`), or so much later than that (`+300_000`). The last one is how long it waits, or would have to, to
//! the nanosecond; a `+` after it stands for the fraction of a microsecond that Guava, which knows only whole ones,
//! does not say.

use std::task::Poll;
use std::time::Duration;

use tidegate::{Clock, ManualClock, Pacer, PacerBuilder, Timestamp};

use crate::pacer::Acquired;
use crate::pacer::polling::Task;

use super::{PermitsRefused, PacerTestExt as _};

/// Makes all calls of the table and compares.
pub fn check(builder: PacerBuilder, table: &str) {
    let clock = ManualClock::default();
    let pacer = builder.clock(clock.clone()).build().unwrap();
    let mut calls = Calls { pacer: &pacer, clock, waiting: Vec::new(), last_done: Timestamp::from_nanos(0) };
    for line in table.lines().filter(|line| !line.trim().is_empty()) {
        let mut cells = line.split('|').map(str::trim);
        let mut cell = || cells.next().unwrap_or_else(|| panic!("a cell is missing in `{line}`"));
        let (at, call, answer) = (cell(), cell(), cell());
        calls.advance_to(at);
        calls.start_call(call, Expected { line: line.to_owned(), answer: answer.to_owned() });
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
    line: String,
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

    /// The last call waits for the longest: calls are served in order.
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
        let found = match answer {
            Ok(waited) => {
                assert_eq!(waited, took, "waited as long as it says: {}", self.line);
                ("waits", waited)
            }
            Err(PermitsRefused { would_wait }) => {
                assert_eq!(took, Duration::ZERO, "a refusal does not wait: {}", self.line);
                ("refused", would_wait)
            }
        };
        let (word, wait_us) = self.answer.split_once(' ').expect("an answer is a word and a number");
        let (whole, has_fraction) = match wait_us.strip_suffix('+') {
            Some(whole) => (number(whole), true),
            None => (number(wait_us), false),
        };
        assert_eq!((found.0, found.1.as_micros()), (word, u128::from(whole)), "{}", self.line);
        let fraction_ns = found.1.as_nanos() % 1_000;
        assert_eq!(fraction_ns > 0, has_fraction, "and {fraction_ns} ns: {}", self.line);
    }
}

fn number(text: &str) -> u64 {
    text.replace('_', "").parse().unwrap_or_else(|_| panic!("`{text}` is no number"))
}
