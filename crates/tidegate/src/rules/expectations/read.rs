//! Reads tests from the nodes of a file.

use std::collections::HashMap;

use tidegate_core::{Nanos, Timestamp};

use super::model::{Expectation, RuleTest, StepAction, StepRequest, TestStep};
use super::{STEP_TIMES_MAX, TESTS_REQUESTS_MAX, read_expectation, read_request};
use crate::rules::diagnostic::{Diagnostic, Report};
use crate::rules::file::Spanned;
use crate::rules::yaml::{Field, Fields, Node, Reader, printable};
use crate::rules::{OwnedDescriptor, OwnedRequest, Span};

/// The tests of a file. Errors are added to the report.
pub(super) fn tests(report: &mut Report, root: &Node) -> Vec<RuleTest> {
    let mut reader = TestReader { reader: Reader::new(report), requests: 0 };
    reader.file(root).unwrap_or_default()
}

const TIMES_TOO_MANY: u64 = STEP_TIMES_MAX + 1;

struct TestReader<'r> {
    reader: Reader<'r>,
    /// The number of requests of all tests.
    requests: u64,
}

impl TestReader<'_> {
    fn file(&mut self, root: &Node) -> Option<Vec<RuleTest>> {
        let mut fields = Fields::of(&mut self.reader, root, "a file of tests")?;
        let hint = "start a file of tests with `tests:` and a list";
        let tests = fields.required(&mut self.reader, "tests", hint);
        fields.finish(&mut self.reader, "a file of tests");
        let tests = tests?;
        let nodes = self.reader.list(tests)?;
        if nodes.is_empty() {
            let diagnostic = Diagnostic::error("expects-nothing", tests.span, "there are no tests");
            self.reader.push(diagnostic.hint(hint));
        }
        let tests: Vec<RuleTest> = nodes.iter().filter_map(|node| self.test(node)).collect();
        self.check_unique_names(&tests);
        if self.requests > TESTS_REQUESTS_MAX {
            let message = format!("the tests make more than {TESTS_REQUESTS_MAX} requests");
            self.reader
                .push(Diagnostic::error("too-many-requests", root.span, message).hint("split the file"));
        }
        Some(tests)
    }

    fn check_unique_names(&mut self, tests: &[RuleTest]) {
        let mut spans: HashMap<&str, Span> = HashMap::new();
        for test in tests {
            if let Some(first) = spans.insert(&test.name, test.span) {
                let message = format!("two tests have the name `{}`", printable(&test.name));
                let diagnostic = Diagnostic::error("duplicate-test", test.span, message);
                self.reader.push(diagnostic.related(first, "first here").hint("choose another name"));
            }
        }
    }

    fn test(&mut self, node: &Node) -> Option<RuleTest> {
        let reader = &mut self.reader;
        let mut fields = Fields::of(reader, node, "a test")?;
        let name =
            fields.required(reader, "name", "describe what is expected: `name: the sixth login is denied`");
        let name = name.and_then(|node| Some((reader.name(node)?, node.span)));
        let domain = fields
            .value("domain")
            .and_then(|node| reader.name(node).map(|name| Spanned { value: name.into(), span: node.span }));
        let start = fields.value("start").and_then(|node| instant(reader, node));
        let steps =
            fields.required(reader, "steps", "list what happens: `steps: [ { at: 0s, request: .. } ]`");
        fields.finish(reader, "a test");
        let errors = self.reader.report.errors();
        let steps = self.steps(steps?)?;
        let is_sound = self.reader.report.errors() == errors;
        let (name, span) = name?;
        let expects = |step: &TestStep| match &step.action {
            StepAction::Request(request) => !request.expected.is_empty(),
            StepAction::Signals(_) => false,
        };
        if is_sound && !steps.iter().any(expects) {
            let diagnostic =
                Diagnostic::error("expects-nothing", span, "the test expects nothing, so it cannot fail");
            self.reader.push(diagnostic.hint("give one of its steps an `expect`, as in `expect: allowed`"));
        }
        Some(RuleTest { name: name.into(), span, domain, start: start.unwrap_or_default(), steps })
    }

    fn steps(&mut self, node: &Node) -> Option<Vec<TestStep>> {
        let nodes = self.reader.list(node)?;
        let (mut steps, mut last) = (Vec::new(), Nanos::ZERO);
        for node in nodes {
            let Some((step, at_span)) = self.step(node, last) else { continue };
            if step.at < last {
                let message = format!("the step is at {}, earlier than the one before it at {last}", step.at);
                let diagnostic = Diagnostic::error("step-back", at_span, message);
                self.reader.push(diagnostic.hint("order the steps by time"));
            }
            last = step.at.max(last);
            steps.push(step);
        }
        Some(steps)
    }

    /// A step, and the position of its time. Without a time it has that of the step before.
    fn step(&mut self, node: &Node, before: Nanos) -> Option<(TestStep, Span)> {
        let reader = &mut self.reader;
        let mut fields = Fields::of(reader, node, "a step")?;
        let at_node = fields.value("at");
        let at = at_node.map_or(Some(before), |node| nanos(reader, node));
        let (request, descriptors) = (fields.take("request"), fields.take("descriptors"));
        let signal = fields.take("signal");
        let [cost, times, expect] = ["cost", "times", "expect"].map(|name| fields.take(name));
        fields.finish(reader, "a step");
        let action = match (request, descriptors, signal) {
            (Some(request), None, None) => {
                let cost = value(cost).map_or(Some(1), |cost| reader.number("cost", cost));
                let entries = read_request::attributes(reader, request.value);
                let descriptor =
                    entries.zip(cost).map(|(entries, cost)| OwnedDescriptor { entries, cost, limit: None });
                let request = descriptor.map(|descriptor| OwnedRequest { descriptors: vec![descriptor] });
                self.request_step(request, value(times), value(expect))
            }
            (None, Some(list), None) => {
                let hint = "write it there: `descriptors: [ { attributes: { user: alice }, cost: 2 } ]`";
                report_misplaced(reader, &[cost], "a step with `descriptors`: each has its own", hint);
                let request = read_request::descriptors(reader, list.value);
                self.request_step(request, value(times), value(expect))
            }
            (None, None, Some(signal)) => {
                let hint = "a signal needs its own step, which has no answer";
                report_misplaced(reader, &[cost, times, expect], "a step with `signal`", hint);
                signal_step(reader, signal.value)
            }
            _ => {
                let diagnostic = Diagnostic::error("what-to-do", node.span, "a step does one thing");
                reader.push(diagnostic.hint("write one of `request`, `descriptors` and `signal`"));
                None
            }
        };
        let at_span = at_node.map_or(node.span, |node| node.span);
        Some((TestStep { span: node.span, at: at?, action: action? }, at_span))
    }

    fn request_step(
        &mut self,
        request: Option<OwnedRequest>,
        times: Option<&Node>,
        expect: Option<&Node>,
    ) -> Option<StepAction> {
        let expected = expect.map_or_else(
            || Some(Expectation::default()),
            |node| read_expectation::read(&mut self.reader, node),
        );
        let count = times.map_or(Some(1), |node| self.reader.number("times", node));
        let (count, expected) = (count?, expected?);
        if let (Some(node), 0 | TIMES_TOO_MANY..) = (times, count) {
            let message = format!("`times` must be from 1 to {STEP_TIMES_MAX}");
            let diagnostic = Diagnostic::error("times-out-of-range", node.span, message);
            self.reader.push(diagnostic.hint("one request more than the limit admits is enough"));
            return None;
        }
        self.requests = self.requests.saturating_add(count);
        Some(StepAction::Request(StepRequest { request: request?, times: count, expected }.into()))
    }
}

fn value<'n>(field: Option<Field<'n>>) -> Option<&'n Node> {
    field.map(|field| field.value)
}

/// Reports fields that are not allowed in this kind of step.
fn report_misplaced(reader: &mut Reader<'_>, fields: &[Option<Field<'_>>], what: &str, hint: &str) {
    for field in fields.iter().flatten() {
        let message = format!("`{}` is not allowed in {what}", field.key.text().unwrap_or_default());
        reader.push(Diagnostic::error("misplaced-field", field.key.span, message).hint(hint));
    }
}

fn signal_step(reader: &mut Reader<'_>, node: &Node) -> Option<StepAction> {
    let fields = reader.mapping(node)?;
    let mut signals = Vec::new();
    for (key, value) in fields {
        let (Some(name), Some(text)) = (reader.text(key), reader.text(value)) else { continue };
        match text.parse() {
            Ok(level) => signals.push((Spanned { value: name.into(), span: key.span }, level)),
            Err(_) => {
                let message = format!("`{}` is not a level of a signal", printable(text));
                let diagnostic = Diagnostic::error("not-a-level", value.span, message);
                reader.push(diagnostic.hint("use a number from 0 to 1, as in `signal: { capacity: 0.75 }`"));
            }
        }
    }
    Some(StepAction::Signals(signals))
}

/// A duration; `0` needs no unit.
pub(super) fn nanos(reader: &mut Reader<'_>, node: &Node) -> Option<Nanos> {
    match node.text() {
        Some("0") => Some(Nanos::ZERO),
        _ => Some(Nanos::new(u128::from(reader.duration_ns(node)?))),
    }
}

/// An instant with its offset from UTC.
fn instant(reader: &mut Reader<'_>, node: &Node) -> Option<Timestamp> {
    let text = reader.text(node)?;
    let instant = text.parse::<jiff::Timestamp>().ok();
    let nanos = instant.and_then(|instant| u64::try_from(instant.as_nanosecond()).ok());
    if nanos.is_none() {
        let message = format!("`{}` is not an instant from 1970 to 2554", printable(text));
        let hint = "write date, time and offset: 2026-03-29T00:59:30Z or 2026-03-29T01:59:30+01:00";
        reader.push(Diagnostic::error("not-an-instant", node.span, message).hint(hint));
    }
    nanos.map(Timestamp::from_nanos)
}
