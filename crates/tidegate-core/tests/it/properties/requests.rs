//! Sequences of requests that hit edges.
//!
//! Uniformly random times and costs hardly ever hit an edge. So a request is generated as a step relative to the limit
//! and to the last outcome ("exactly the last retry_after, minus one"), and becomes numbers only when it is run.

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::algorithm::Align;
use tidegate_core::{LimitSpec, Outcome, TimedCost, Timestamp};

use crate::models::calendar::Calendar;

/// The most clock changes of a zone that are used.
const CHANGES_MAX: usize = 150;

/// When the next request comes.
#[derive(Clone, Copy, Debug)]
pub enum TimeStep {
    /// At the same instant.
    Stay,
    /// A few nanoseconds forward or back.
    Shift(i8),
    /// Some intervals W/L forward, plus or minus one nanosecond.
    Intervals(u8, i8),
    /// Some sub-windows W/n forward.
    SubWindows(u8, i8),
    /// Some windows forward.
    Windows(u8, i8),
    /// To the next multiple of W, or to the end of the calendar's window.
    Edge(i8),
    /// To a clock change of the calendar's zone, by number, plus or minus some days. No move without a calendar.
    ClockChange(u16, i8),
    /// To the start of the next sub-window.
    SubEdge(i8),
    /// When the last outcome says to retry.
    Retry(i8),
    /// When the last outcome says that the key is as if never seen.
    Reset(i8),
    /// A part of a window forward, in 1/65536.
    Part(u16),
    /// A part of two windows back.
    Back(u16),
    /// To this distance from the end of representable time.
    NearEnd(u32),
    /// Anywhere.
    To(u64),
}

/// What the next request costs.
#[derive(Clone, Copy, Debug)]
pub enum CostStep {
    Units(u64),
    /// What remains by the last outcome, plus or minus some.
    Remaining(i8),
    /// L, or the burst or queue if that bounds a single request, plus or minus some.
    Full(i8),
    /// A part of it, in 1/256.
    Share(u8),
}

/// A sequence, relative to a limit.
#[derive(Clone, Debug)]
pub struct Requests {
    start: TimeStep,
    steps: Vec<(TimeStep, CostStep)>,
}

/// Turns steps into numbers, given the outcomes so far.
#[derive(Clone, Debug)]
pub struct RequestDriver {
    limit: u64,
    window_ns: u64,
    calendar: Option<Calendar>,
    sub_windows: u64,
    full: u64,
    now_ns: u64,
    last: Option<Outcome>,
    steps: std::vec::IntoIter<(TimeStep, CostStep)>,
    never_back: bool,
}

fn time_step() -> impl Strategy<Value = TimeStep> {
    let off = -1..=1_i8;
    prop_oneof![
        8 => Just(TimeStep::Stay),
        3 => (-3..=3_i8).prop_map(TimeStep::Shift),
        6 => (1..4_u8, off.clone()).prop_map(|(times, off)| TimeStep::Intervals(times, off)),
        3 => (1..4_u8, off.clone()).prop_map(|(times, off)| TimeStep::SubWindows(times, off)),
        3 => (1..4_u8, off.clone()).prop_map(|(times, off)| TimeStep::Windows(times, off)),
        5 => off.clone().prop_map(TimeStep::Edge),
        3 => off.clone().prop_map(TimeStep::SubEdge),
        8 => off.clone().prop_map(TimeStep::Retry),
        2 => off.prop_map(TimeStep::Reset),
        6 => any::<u16>().prop_map(TimeStep::Part),
        3 => any::<u16>().prop_map(TimeStep::Back),
    ]
}

/// Steps, and sometimes a jump after which little of the past counts.
fn time_step_or_jump() -> impl Strategy<Value = TimeStep> {
    prop_oneof![
        60 => time_step(),
        1 => Just(TimeStep::To(0)),
        1 => any::<u64>().prop_map(TimeStep::To),
        1 => any::<u32>().prop_map(TimeStep::NearEnd),
        1 => (any::<u16>(), -2..=1_i8).prop_map(|(number, days)| TimeStep::ClockChange(number, days)),
    ]
}

fn start() -> impl Strategy<Value = TimeStep> {
    const A_DAY_IN_2025: u64 = 1_750_000_000_123_456_789;
    prop_oneof![
        3 => Just(TimeStep::To(0)),
        3 => (0..4_u8, -1..=1_i8).prop_map(|(times, off)| TimeStep::Windows(times, off)),
        4 => Just(TimeStep::To(A_DAY_IN_2025)),
        1 => (0..100_u32).prop_map(TimeStep::NearEnd),
        2 => any::<u32>().prop_map(TimeStep::NearEnd),
        2 => any::<u64>().prop_map(TimeStep::To),
        4 => (any::<u16>(), -2..=1_i8).prop_map(|(number, days)| TimeStep::ClockChange(number, days)),
    ]
}

fn cost_step() -> impl Strategy<Value = CostStep> {
    prop_oneof![
        2 => Just(CostStep::Units(0)),
        6 => Just(CostStep::Units(1)),
        2 => (2..6_u64).prop_map(CostStep::Units),
        4 => (-1..=1_i8).prop_map(CostStep::Remaining),
        2 => (-1..=1_i8).prop_map(CostStep::Full),
        5 => any::<u8>().prop_map(CostStep::Share),
        1 => Just(CostStep::Units(u64::MAX)),
        1 => any::<u64>().prop_map(CostStep::Units),
    ]
}

pub fn requests() -> impl Strategy<Value = Requests> {
    (start(), vec((time_step_or_jump(), cost_step()), 1..48))
        .prop_map(|(start, steps)| Requests { start, steps })
}

impl Requests {
    /// Runs these requests against `spec`.
    pub fn driver(self, spec: &LimitSpec) -> RequestDriver {
        let full = spec.burst.or(spec.queue.map(|queue| queue + 1)).unwrap_or(spec.limit);
        let mut driver = RequestDriver {
            limit: spec.limit,
            window_ns: spec.ttl_ns.unwrap_or(spec.per_ns),
            calendar: match &spec.align {
                Some(Align::Calendar(calendar)) => {
                    Some(Calendar { spec: calendar.clone(), window: spec.per_ns })
                }
                _ => None,
            },
            sub_windows: spec.sub_windows.unwrap_or(60),
            full,
            now_ns: 0,
            last: None,
            steps: self.steps.into_iter(),
            never_back: false,
        };
        driver.now_ns = driver.next_ns(self.start);
        driver
    }

    /// The same with a clock that never steps back.
    pub fn ordered_driver(self, spec: &LimitSpec) -> RequestDriver {
        RequestDriver { never_back: true, ..self.driver(spec) }
    }
}

impl RequestDriver {
    /// The next request.
    pub fn next_request(&mut self) -> Option<TimedCost> {
        let (time_step, cost_step) = self.steps.next()?;
        let now_ns = self.next_ns(time_step);
        self.now_ns = if self.never_back { now_ns.max(self.now_ns) } else { now_ns };
        Some(TimedCost { now: Timestamp::from_nanos(self.now_ns), cost: self.cost(cost_step) })
    }

    /// Records an outcome for the next request.
    pub fn observe(&mut self, outcome: Outcome) {
        self.last = Some(outcome);
    }

    fn next_ns(&self, step: TimeStep) -> u64 {
        let now = i128::from(self.now_ns);
        let window = i128::from(self.window_ns);
        let sub_windows = i128::from(self.sub_windows);
        let near = |span: i128, off: i8| now + span + i128::from(off);
        let span_of = |nanos: u128| i128::try_from(nanos).unwrap_or(0);
        let next_ns = match step {
            TimeStep::Stay => now,
            TimeStep::Shift(off) => near(0, off),
            TimeStep::Intervals(times, off) => {
                near(window * i128::from(times) / i128::from(self.limit.max(1)), off)
            }
            TimeStep::SubWindows(times, off) => near(window * i128::from(times) / sub_windows, off),
            TimeStep::Windows(times, off) => near(window * i128::from(times), off),
            TimeStep::Edge(off) => match &self.calendar {
                Some(calendar) => near(span_of(calendar.window(u128::from(self.now_ns)).end) - now, off),
                None => near(window - now % window, off),
            },
            TimeStep::ClockChange(number, days) => {
                let changes = self.calendar.as_ref().map(Calendar::changes).unwrap_or_default();
                // Most changes are far in the future and all alike.
                let changes = &changes[..changes.len().min(CHANGES_MAX)];
                match usize::from(number).checked_rem(changes.len()) {
                    Some(number) => (i128::from(changes[number]) + i128::from(days) * 86_400) * 1_000_000_000,
                    None => now,
                }
            }
            TimeStep::SubEdge(off) => {
                let next = now * sub_windows / window + 1;
                near((next * window + sub_windows - 1) / sub_windows - now, off)
            }
            TimeStep::Retry(off) => {
                let wait = self.last.and_then(|last| last.retry_after.span());
                near(wait.map_or(0, |wait| span_of(wait.get())), off)
            }
            TimeStep::Reset(off) => near(self.last.map_or(0, |last| span_of(last.reset_after.get())), off),
            TimeStep::Part(part) => now + window * i128::from(part) / 65_536,
            TimeStep::Back(part) => now - 2 * window * i128::from(part) / 65_536,
            TimeStep::NearEnd(distance) => i128::from(u64::MAX) - i128::from(distance),
            TimeStep::To(instant) => i128::from(instant),
        };
        u64::try_from(next_ns.max(0)).unwrap_or(u64::MAX)
    }

    fn cost(&self, step: CostStep) -> u64 {
        match step {
            CostStep::Units(units) => units,
            CostStep::Remaining(off) => {
                self.last.map_or(1, |last| last.remaining).saturating_add_signed(off.into())
            }
            CostStep::Full(off) => self.full.saturating_add_signed(off.into()),
            CostStep::Share(share) => {
                self.full / 256 * u64::from(share) + self.full % 256 * u64::from(share) / 256
            }
        }
    }
}
