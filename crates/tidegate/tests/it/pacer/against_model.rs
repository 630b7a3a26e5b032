//! Random calls, pauses and changes of rate: every wait equals the model's, to the microsecond.
//!
//! The ranges keep the model's floating point precise to a thousandth of a microsecond: rates of 0.1 to 1,000 a second,
//! warm-ups of up to a minute, and sequences of hours, not years.

use std::task::Poll;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate::{Clock, ColdFactor, ManualClock, Pacer, PacerBuilder, Timestamp};

use crate::pacer::model::{Fractions, Model, ModelShape, PerSecond};
use crate::pacer::polling::Task;
use crate::pacer::{Acquired, proptest_config};

use super::{PacerTestExt as _, PermitsRefused};

#[derive(Clone, Copy, Debug)]
enum Step {
    Acquire(u64),
    /// With a timeout of this many sixteenths of the wait.
    Try {
        permits: u64,
        sixteenths: u32,
    },
    SetRate(Tenths),
    /// Microseconds.
    Pass(u64),
    /// Until the last call is done.
    Finish,
}

/// A rate in tenths of a permit per second.
#[derive(Clone, Copy, Debug)]
struct Tenths(u64);

impl Tenths {
    fn text(self) -> String {
        format!("{} per 10s", self.0)
    }

    fn per_second(self) -> PerSecond {
        PerSecond(self.0 as f64 / 10.0)
    }
}

#[derive(Clone, Copy, Debug)]
enum TestShape {
    Bursty { burst_ms: u64 },
    WarmingUp { warm_up_ms: u64, cold_factor: ColdFactor },
}

impl TestShape {
    fn builder(self) -> PacerBuilder {
        match self {
            Self::Bursty { burst_ms } => Pacer::builder().max_burst(Duration::from_millis(burst_ms)),
            Self::WarmingUp { warm_up_ms, cold_factor } => {
                Pacer::builder().warm_up(Duration::from_millis(warm_up_ms)).cold_factor(cold_factor)
            }
        }
    }

    fn model_shape(self) -> ModelShape {
        match self {
            Self::Bursty { burst_ms } => ModelShape::Bursty { max_burst_seconds: burst_ms as f64 / 1_000.0 },
            Self::WarmingUp { warm_up_ms, cold_factor: ColdFactor { numerator, denominator } } => {
                let cold_factor = f64::from(numerator) / f64::from(denominator);
                ModelShape::WarmingUp { warm_up_us: warm_up_ms as f64 * 1_000.0, cold_factor }
            }
        }
    }
}

fn rates() -> impl Strategy<Value = Tenths> {
    prop_oneof![1..100_u64, 1..10_000_u64].prop_map(Tenths)
}

fn shapes() -> impl Strategy<Value = TestShape> {
    let factor = |(denominator, more): (u32, u32)| ColdFactor { numerator: denominator + more, denominator };
    let cold_factor = prop_oneof![Just(ColdFactor::from(3)), (1..20_u32, 0..100_u32).prop_map(factor)];
    prop_oneof![
        (0..12_000_u64).prop_map(|burst_ms| TestShape::Bursty { burst_ms }),
        (1..60_000_u64, cold_factor)
            .prop_map(|(warm_up_ms, cold_factor)| TestShape::WarmingUp { warm_up_ms, cold_factor }),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let permits = || prop_oneof![4 => 1..4_u64, 1 => 1..60_u64];
    let step = prop_oneof![
        4 => permits().prop_map(Step::Acquire),
        2 => (permits(), 0..32_u32).prop_map(|(permits, sixteenths)| Step::Try { permits, sixteenths }),
        1 => rates().prop_map(Step::SetRate),
        2 => (1..3_000_000_u64).prop_map(Step::Pass),
        1 => (1..90_000_000_u64).prop_map(Step::Pass),
        4 => Just(Step::Finish),
    ];
    vec(step, 1..60)
}

/// A pacer on its clock, beside the model.
struct PacerAndModel<'a> {
    pacer: &'a Pacer<ManualClock>,
    clock: ManualClock,
    model: Model,
    waiting: Vec<Waiting<'a>>,
    costs: u32,
    fractions: Fractions,
}

struct Waiting<'a> {
    task: Task<'a, Acquired>,
    expected: Expected,
}

/// The model's wait, and by how much it may be too short.
#[derive(Clone, Copy)]
struct Expected {
    model_us: f64,
    short_us_max: f64,
}

impl<'a> PacerAndModel<'a> {
    fn apply(&mut self, step: Step) -> Result<(), TestCaseError> {
        let now_us = self.clock.now().as_nanos() as f64 / 1_000.0;
        let pacer = self.pacer;
        match step {
            Step::Pass(micros) => {
                let end_ns = self.clock.now().as_nanos() + micros * 1_000;
                self.run_until(Some(Timestamp::from_nanos(end_ns)))
            }
            Step::Finish => self.run_until(None),
            Step::SetRate(rate) => {
                pacer.set_rate(rate.text()).unwrap();
                self.model.set_rate(rate.per_second(), now_us);
                Ok(())
            }
            Step::Acquire(permits) => {
                let call = async move { Ok(pacer.wait_for(permits).await) };
                self.start(Task::new(call), permits, now_us)
            }
            Step::Try { permits, sixteenths } => {
                let model_us = self.model.wait_us(now_us);
                // Too close to predict what floating point gives.
                if model_us < CLOSE_US || sixteenths == 16 {
                    return Ok(());
                }
                let timeout = Duration::from_secs_f64(model_us / 1_000_000.0) * sixteenths / 16;
                let mut task = Task::new(pacer.wait_within(permits, timeout));
                if sixteenths > 16 {
                    return self.start(task, permits, now_us);
                }
                match task.poll() {
                    Poll::Ready(Err(PermitsRefused { would_wait })) => {
                        self.expected(model_us).compare(would_wait)
                    }
                    other => {
                        Err(TestCaseError::fail(format!("{other:?} within {timeout:?} of {model_us} us")))
                    }
                }
            }
        }
    }

    fn start(&mut self, task: Task<'a, Acquired>, permits: u64, now_us: f64) -> Result<(), TestCaseError> {
        let model_us = self.model.acquire(permits, now_us);
        self.waiting.push(Waiting { task, expected: self.expected(model_us) });
        self.costs += 1;
        self.poll_all()
    }

    /// The model may have dropped a fraction of every cost so far.
    fn expected(&self, model_us: f64) -> Expected {
        let short_us_max = if self.fractions == Fractions::Dropped { f64::from(self.costs) } else { 0.0 };
        Expected { model_us, short_us_max }
    }

    /// Moves from one sleeper to the next, until there is none before the end.
    fn run_until(&mut self, end: Option<Timestamp>) -> Result<(), TestCaseError> {
        while let Some(wake) = self.clock.next_wake().filter(|wake| end.is_none_or(|end| *wake <= end)) {
            self.clock.set(wake);
            self.poll_all()?;
        }
        end.into_iter().for_each(|end| self.clock.set(end));
        Ok(())
    }

    fn poll_all(&mut self) -> Result<(), TestCaseError> {
        for mut one in std::mem::take(&mut self.waiting) {
            match one.task.poll() {
                Poll::Pending => self.waiting.push(one),
                Poll::Ready(Ok(waited)) => one.expected.compare(waited)?,
                Poll::Ready(refused) => return Err(TestCaseError::fail(format!("{refused:?}"))),
            }
        }
        Ok(())
    }
}

impl Expected {
    fn compare(self, wait: Duration) -> Result<(), TestCaseError> {
        let Self { model_us, short_us_max } = self;
        let longer_us = wait.as_nanos() as f64 / 1_000.0 - model_us;
        let range = -SAME_US..=short_us_max + SAME_US;
        prop_assert!(range.contains(&longer_us), "{wait:?} is {longer_us} us longer than {model_us} us");
        Ok(())
    }
}

/// Differences below a hundredth of a microsecond count as equal.
const SAME_US: f64 = 0.01;
const CLOSE_US: f64 = 1_000.0;

fn run(shape: TestShape, fractions: Fractions, rate: Tenths, steps: &[Step]) -> Result<(), TestCaseError> {
    let clock = ManualClock::default();
    let pacer = shape.builder().rate(rate.text()).clock(clock.clone()).build().unwrap();
    let model = Model::new(shape.model_shape(), fractions, rate.per_second());
    let mut pair = PacerAndModel { pacer: &pacer, clock, model, waiting: Vec::new(), costs: 0, fractions };
    for step in steps {
        pair.apply(*step)?;
    }
    pair.apply(Step::Finish)
}

proptest! {
    #![proptest_config(proptest_config(500))]

    #[test]
    fn every_wait_matches_the_formulas(shape in shapes(), rate in rates(), steps in steps()) {
        run(shape, Fractions::Kept, rate, &steps)?;
    }

    /// Guava itself gets ahead by the fractions of a microsecond that it drops, one for each call.
    #[test]
    fn every_wait_matches_guava_except_for_dropped_fractions(
        burst_ms in 0..12_000_u64,
        rate in rates(),
        steps in steps(),
    ) {
        run(TestShape::Bursty { burst_ms }, Fractions::Dropped, rate, &steps)?;
    }
}
