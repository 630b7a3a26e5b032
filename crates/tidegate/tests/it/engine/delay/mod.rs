//! Requests that wait for limits with the action `delay`.

mod answers;
mod queue;
mod random_events;
mod rule_changes;
mod runtimes;
mod several_limits;

use tidegate::rules::{Descriptor, Request};
use tidegate::{ManualClock, Timer};

use crate::engine::fixture::{AnswerSummary, EngineFixture, entries};
use crate::engine::setup::{Setup, TestEngine};
use crate::executor::{Executor, Task};
use crate::wait_result::Refusal;

/// The result of a request. Borrows nothing of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecideResult {
    pub answer: AnswerSummary,
    pub waited_ms: u128,
    pub refusal: Option<Refusal>,
}

/// Tasks that the fixture decides.
pub type Tasks<'a> = Executor<'a, DecideResult>;

pub async fn decide<C: Timer + Send + Sync + 'static>(
    engine: &TestEngine<C>,
    attributes: &str,
    cost: u64,
) -> DecideResult {
    let entries = entries(attributes);
    let descriptors: Vec<_> = entries.iter().map(|entries| Descriptor::new(entries, cost)).collect();
    let request = Request { domain: "api", descriptors: &descriptors };
    let decided = engine.decide(&request).await.unwrap();
    DecideResult {
        answer: AnswerSummary::from_answer(&decided.answer),
        waited_ms: decided.waited.get().div_ceil(1_000_000),
        refusal: decided.refused().map(Refusal::from),
    }
}

/// A fixture with this rule, which is named `slow`.
pub fn fixture_with_rule(setup: Setup, rule: &str) -> EngineFixture {
    setup.fixture(&rules(rule))
}

pub fn rules(rule: &str) -> String {
    format!("{{ domain: api, rules: [ {{ name: slow, {rule} }} ] }}")
}

/// One a second for each user, and up to five seconds of waiting.
pub const SLOW: &str = "key: [user], limit: 1 per second, action: { delay: { max_wait: 5s } }";

impl EngineFixture {
    pub fn tasks(&self) -> Tasks<'_> {
        Executor::new(&self.clock)
    }

    /// Starts `times` requests, one after the other.
    pub fn spawn_requests<'a>(
        &'a self,
        tasks: &mut Tasks<'a>,
        attributes: &'a str,
        times: usize,
    ) -> Vec<Task> {
        (0..times).map(|_| tasks.spawn(decide(&self.engine, attributes, 1))).collect()
    }
}

/// When each task was done, in milliseconds. None if it is not.
pub fn finished_ms(tasks: &Tasks<'_>, all: &[Task]) -> Vec<Option<u64>> {
    let at_ms = |task: &Task| tasks.finished(*task).map(|finished| finished.at.as_nanos() / 1_000_000);
    all.iter().map(at_ms).collect()
}

pub fn result_of(tasks: &Tasks<'_>, task: Task) -> DecideResult {
    tasks.finished(task).expect("done").output.clone()
}

pub fn passed(tasks: &Tasks<'_>, all: &[Task]) -> Vec<bool> {
    all.iter().map(|task| result_of(tasks, *task).answer.kind.passes()).collect()
}

fn run_until_second(clock: &ManualClock, tasks: &mut Tasks<'_>, seconds: u64) {
    tasks.run_until(tidegate::Timestamp::from_nanos(seconds * 1_000_000_000));
    assert_eq!(tidegate::Clock::now(clock).as_nanos(), seconds * 1_000_000_000);
}
