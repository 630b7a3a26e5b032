//! Runs one test.

use std::sync::Arc;

use tidegate_core::Timestamp;
use tidegate_core::rules::{Domain, Level};
use tidegate_core::text::did_you_mean;

use super::compare::{Mismatch, describe, mismatches};
use super::model::{RuleTest, StepAction, StepRequest, TestStep};
use crate::rules::diagnostic::Diagnostic;
use crate::rules::file::Spanned;
use crate::rules::yaml::printable;
use crate::rules::{Answer, Span};
use crate::{Engine, ManualClock, MemoryStore};

/// Runs a test with its own counters. Returns the expectations that were not met.
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
    run.test
        .steps
        .iter()
        .map(|step| run.run_step(step))
        .find(|failures| !failures.is_empty())
        .unwrap_or_default()
}

struct TestRun<'t> {
    test: &'t RuleTest,
    domain: &'t Domain,
    engine: Engine<ManualClock>,
}

/// A request and its time.
struct TimedRequest<'s> {
    step_request: &'s StepRequest,
    step: &'s TestStep,
    now: Timestamp,
}

impl TestRun<'_> {
    fn run_step(&self, step: &TestStep) -> Vec<Diagnostic> {
        match &step.action {
            StepAction::Signals(signals) => {
                signals.iter().filter_map(|signal| self.push_signal(signal)).collect()
            }
            StepAction::Request(step_request) => {
                let now = self.test.start.saturating_add(step.at);
                self.run_request(&TimedRequest { step_request, step, now })
            }
        }
    }

    fn push_signal(&self, (name, level): &(Spanned<Box<str>>, Level)) -> Option<Diagnostic> {
        let unknown = self.engine.push_signal(&name.value, *level).err()?;
        Some(failure(self.test, name.span, &unknown.to_string()))
    }

    /// Stops at the first request whose answer is not as expected.
    fn run_request(&self, timed: &TimedRequest<'_>) -> Vec<Diagnostic> {
        timed.step_request.request.with_request(&self.domain.name, |request| {
            for number in 1..=timed.step_request.times {
                let failures = match self.engine.check_at(request, timed.now) {
                    Ok(answer) => self.compare(timed, number, &answer),
                    Err(full) => vec![failure(self.test, timed.step.span, &full.to_string())],
                };
                if !failures.is_empty() {
                    return failures;
                }
            }
            Vec::new()
        })
    }

    fn compare(&self, timed: &TimedRequest<'_>, number: u64, answer: &Answer) -> Vec<Diagnostic> {
        let prefix = match timed.step_request.times {
            1 => String::new(),
            times => format!("request {number} of {times}: "),
        };
        let failure = |Mismatch { span, field, expected, actual }: Mismatch| {
            let message = format!("{prefix}expected {field} {expected}, got {actual}");
            let diagnostic = failure(self.test, span, &message).label(format!("got {actual}"));
            let diagnostic = diagnostic.hint(format!("the answer was: {}", describe(answer)));
            match self.test.span {
                name if name.line == span.line => diagnostic,
                name => diagnostic.related(name, "in this test"),
            }
        };
        mismatches(&timed.step_request.expected, answer).into_iter().map(failure).collect()
    }
}

/// The domain of a test, or the only domain of the rules.
fn domain_of<'d>(test: &RuleTest, domains: &'d [Domain]) -> Result<&'d Domain, Box<Diagnostic>> {
    let names: Vec<&str> = domains.iter().map(|domain| &*domain.name).collect();
    let Some(domain_name) = &test.domain else {
        return match domains {
            [domain] => Ok(domain),
            _ => {
                let diagnostic = failure(test, test.span, "the rules have several domains");
                let hint =
                    format!("name one of them in the test: `domain: NAME`. There are: {}", names.join(", "));
                Err(diagnostic.hint(hint).into())
            }
        };
    };
    domains.iter().find(|domain| domain.name == domain_name.value).ok_or_else(|| {
        let hint = did_you_mean(&domain_name.value, &names);
        let hint = hint.unwrap_or_else(|| format!("there are: {}", names.join(", ")));
        let message = format!("the rules have no domain `{}`", printable(&domain_name.value));
        failure(test, domain_name.span, &message).hint(hint).into()
    })
}

/// The message contains the name of the test, so it is unique in a file.
fn failure(test: &RuleTest, at: Span, message: &str) -> Diagnostic {
    Diagnostic::error("expectation", at, format!("{}: {message}", printable(&test.name)))
}
