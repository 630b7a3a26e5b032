//! One test, run.

use std::sync::Arc;

use tidegate_core::Timestamp;
use tidegate_core::rules::{Domain, Level};
use tidegate_core::text::did_you_mean;

use super::super::diagnostic::Diagnostic;
use super::super::file::Spanned;
use super::super::yaml::printable;
use super::super::{Answer, Span};
use super::compare::{Mismatch, mismatches, describe};
use super::model::{StepAction, StepRequest, TestStep, RuleTest};
use crate::{Engine, ManualClock, MemoryStore};

/// Runs a test on counters of its own. What comes out is what did not come as it was expected; nothing, if all did.
pub(super) fn run(test: &RuleTest, domains: &[Domain]) -> Vec<Diagnostic> {
    let domain = match domain_of(test, domains) {
        Ok(domain) => domain,
        Err(unknown) => return vec![*unknown],
    };
    let store = Arc::new(MemoryStore::unbounded());
    let engine = match Engine::with_store(vec![domain.clone()], store, ManualClock::at(test.start)) {
        Ok(engine) => engine,
        Err(error) => return vec![failure(test, test.span, &error.to_string())],
    };
    let run = TestRun { test, domain, engine };
    run.test.steps.iter().map(|step| run.run_step(step)).find(|failures| !failures.is_empty()).unwrap_or_default()
}

struct TestRun<'t> {
    test: &'t RuleTest,
    domain: &'t Domain,
    engine: Engine<ManualClock>,
}

/// A question, and when it is asked.
struct TimedRequest<'s> {
    question: &'s StepRequest,
    step: &'s TestStep,
    now: Timestamp,
}

impl TestRun<'_> {
    fn run_step(&self, step: &TestStep) -> Vec<Diagnostic> {
        match &step.action {
            StepAction::Signals(signals) => signals.iter().filter_map(|signal| self.push_signal(signal)).collect(),
            StepAction::Request(question) => {
                let now = self.test.start.saturating_add(step.at);
                self.run_request(&TimedRequest { question, step, now })
            }
        }
    }

    fn push_signal(&self, (name, level): &(Spanned<Box<str>>, Level)) -> Option<Diagnostic> {
        let unknown = self.engine.push_signal(&name.value, *level).err()?;
        Some(failure(self.test, name.span, &unknown.to_string()))
    }

    /// Ends with the first request that is answered otherwise than expected.
    fn run_request(&self, ask: &TimedRequest<'_>) -> Vec<Diagnostic> {
        ask.question.request.with_request(&self.domain.name, |request| {
            for number in 1..=ask.question.times {
                let failures = match self.engine.check_at(request, ask.now) {
                    Ok(answer) => self.compare(ask, number, &answer),
                    Err(full) => vec![failure(self.test, ask.step.span, &full.to_string())],
                };
                if !failures.is_empty() {
                    return failures;
                }
            }
            Vec::new()
        })
    }

    fn compare(&self, ask: &TimedRequest<'_>, number: u64, answer: &Answer) -> Vec<Diagnostic> {
        let which = match ask.question.times {
            1 => String::new(),
            times => format!("request {number} of {times}: "),
        };
        let failure = |Mismatch { span, field, expected, actual: came }: Mismatch| {
            let what = format!("{which}expected {field} {expected}, came {came}");
            let found = failure(self.test, span, &what).label(format!("came {came}"));
            let found = found.hint(format!("the answer was: {}", describe(answer)));
            match self.test.span {
                name if name.line == span.line => found,
                name => found.related(name, "in this test"),
            }
        };
        mismatches(&ask.question.expected, answer).into_iter().map(failure).collect()
    }
}

/// The domain that a test names, or the only one there is.
fn domain_of<'d>(test: &RuleTest, domains: &'d [Domain]) -> Result<&'d Domain, Box<Diagnostic>> {
    let names: Vec<&str> = domains.iter().map(|domain| &*domain.name).collect();
    let Some(wanted) = &test.domain else {
        return match domains {
            [domain] => Ok(domain),
            _ => {
                let found = failure(test, test.span, "the rules have several domains");
                let hint =
                    format!("name one of them in the test: `domain: NAME`. There are: {}", names.join(", "));
                Err(found.hint(hint).into())
            }
        };
    };
    domains.iter().find(|domain| domain.name == wanted.value).ok_or_else(|| {
        let hint = did_you_mean(&wanted.value, &names);
        let hint = hint.unwrap_or_else(|| format!("there are: {}", names.join(", ")));
        let message = format!("the rules have no domain `{}`", printable(&wanted.value));
        failure(test, wanted.span, &message).hint(hint).into()
    })
}

/// The test is named, so that no two of a file say the same.
fn failure(test: &RuleTest, at: Span, what: &str) -> Diagnostic {
    Diagnostic::error("expectation", at, format!("{}: {what}", printable(&test.name)))
}
