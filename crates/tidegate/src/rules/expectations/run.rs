//! One test, run.

use std::sync::Arc;

use tidegate_core::Timestamp;
use tidegate_core::rules::{Domain, Level};
use tidegate_core::text::did_you_mean;

use super::super::diagnostic::Diagnostic;
use super::super::file::Spanned;
use super::super::yaml::shown;
use super::super::{Answer, Span};
use super::compare::{Mismatch, mismatches, said};
use super::model::{Does, Question, Step, Test};
use crate::{Engine, ManualClock, MemoryStore};

/// Runs a test on counters of its own. What comes out is what did not come as it was expected; nothing, if all did.
pub(super) fn run(test: &Test, domains: &[Domain]) -> Vec<Diagnostic> {
    let domain = match domain_of(test, domains) {
        Ok(domain) => domain,
        Err(unknown) => return vec![*unknown],
    };
    let store = Arc::new(MemoryStore::unbounded());
    let engine = match Engine::over(vec![domain.clone()], store, ManualClock::at(test.start)) {
        Ok(engine) => engine,
        Err(error) => return vec![failed(test, test.span, &error.to_string())],
    };
    let run = Run { test, domain, engine };
    run.test.steps.iter().map(|step| run.step(step)).find(|failures| !failures.is_empty()).unwrap_or_default()
}

struct Run<'t> {
    test: &'t Test,
    domain: &'t Domain,
    engine: Engine<ManualClock>,
}

/// A question, and when it is asked.
struct Ask<'s> {
    question: &'s Question,
    step: &'s Step,
    now: Timestamp,
}

impl Run<'_> {
    fn step(&self, step: &Step) -> Vec<Diagnostic> {
        match &step.does {
            Does::Signals(signals) => signals.iter().filter_map(|signal| self.push(signal)).collect(),
            Does::Ask(question) => {
                let now = self.test.start.saturating_add(step.at);
                self.ask(&Ask { question, step, now })
            }
        }
    }

    fn push(&self, (name, level): &(Spanned<Box<str>>, Level)) -> Option<Diagnostic> {
        let unknown = self.engine.push_signal(&name.value, *level).err()?;
        Some(failed(self.test, name.span, &unknown.to_string()))
    }

    /// Ends with the first request that is answered otherwise than expected.
    fn ask(&self, ask: &Ask<'_>) -> Vec<Diagnostic> {
        ask.question.request.lend(&self.domain.name, |request| {
            for number in 1..=ask.question.times {
                let failures = match self.engine.check_at(request, ask.now) {
                    Ok(answer) => self.held_against(ask, number, &answer),
                    Err(full) => vec![failed(self.test, ask.step.span, &full.to_string())],
                };
                if !failures.is_empty() {
                    return failures;
                }
            }
            Vec::new()
        })
    }

    fn held_against(&self, ask: &Ask<'_>, number: u64, answer: &Answer) -> Vec<Diagnostic> {
        let which = match ask.question.times {
            1 => String::new(),
            times => format!("request {number} of {times}: "),
        };
        let failure = |Mismatch { span, field, expected, came }: Mismatch| {
            let what = format!("{which}expected {field} {expected}, came {came}");
            let found = failed(self.test, span, &what).label(format!("came {came}"));
            let found = found.hint(format!("the answer was: {}", said(answer)));
            match self.test.span {
                name if name.line == span.line => found,
                name => found.related(name, "in this test"),
            }
        };
        mismatches(&ask.question.expected, answer).into_iter().map(failure).collect()
    }
}

/// The domain that a test names, or the only one there is.
fn domain_of<'d>(test: &Test, domains: &'d [Domain]) -> Result<&'d Domain, Box<Diagnostic>> {
    let names: Vec<&str> = domains.iter().map(|domain| &*domain.name).collect();
    let Some(wanted) = &test.domain else {
        return match domains {
            [domain] => Ok(domain),
            _ => {
                let found = failed(test, test.span, "the rules have several domains");
                let hint =
                    format!("name one of them in the test: `domain: NAME`. There are: {}", names.join(", "));
                Err(found.hint(hint).into())
            }
        };
    };
    domains.iter().find(|domain| domain.name == wanted.value).ok_or_else(|| {
        let hint = did_you_mean(&wanted.value, &names);
        let hint = hint.unwrap_or_else(|| format!("there are: {}", names.join(", ")));
        let message = format!("the rules have no domain `{}`", shown(&wanted.value));
        failed(test, wanted.span, &message).hint(hint).into()
    })
}

/// The test is named, so that no two of a file say the same.
fn failed(test: &Test, at: Span, what: &str) -> Diagnostic {
    Diagnostic::error("expectation", at, format!("{}: {what}", shown(&test.name)))
}
