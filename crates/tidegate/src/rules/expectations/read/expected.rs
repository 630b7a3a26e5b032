//! What the answer to a step has to be.

use tidegate_core::rules::{AnswerKind, LimitId};
use tidegate_core::{Nanos, Wait};

use super::super::super::diagnostic::Diagnostic;
use super::super::super::file::Spanned;
use super::super::super::reader::{Fields, Reader};
use super::super::super::yaml::{NodeKind, Node};
use super::super::model::{Expectation, DECISIONS, ExpectedRule};

pub(super) fn read(reader: &mut Reader<'_>, node: &Node) -> Option<Expectation> {
    if !matches!(node.kind, NodeKind::Map(_)) {
        return Some(Expectation { decision: Some(decision(reader, node)?), ..Expectation::default() });
    }
    let mut fields = Fields::of(reader, node, "an expectation")?;
    let place = |node: &Node| node.span;
    let expected = Expectation {
        decision: fields.value("decision").and_then(|node| decision(reader, node)),
        rule: fields.value("rule").and_then(|node| rule(reader, node)),
        limit: fields.value("limit").and_then(|node| limit(reader, node)),
        remaining: fields
            .value("remaining")
            .and_then(|node| Some(Spanned { value: reader.number("remaining", node)?, span: place(node) })),
        retry_after: fields.value("retry_after").and_then(|node| wait(reader, node)),
        reset_after: fields.value("reset_after").and_then(|node| duration(reader, node)),
        delay: fields.value("delay").and_then(|node| duration(reader, node)),
        candidate: fields.value("candidate").and_then(|node| decision(reader, node)),
    };
    fields.finish(reader, "an expectation");
    Some(expected)
}

fn decision(reader: &mut Reader<'_>, node: &Node) -> Option<Spanned<AnswerKind>> {
    let words = DECISIONS.map(|fate| (fate.as_str(), fate));
    let value = reader.keyword("decision", node, &words)?;
    Some(Spanned { value, span: node.span })
}

fn rule(reader: &mut Reader<'_>, node: &Node) -> Option<Spanned<ExpectedRule>> {
    let value = match &node.kind {
        NodeKind::Null => ExpectedRule::NoRule,
        _ => ExpectedRule::Named(reader.name(node)?.into()),
    };
    Some(Spanned { value, span: node.span })
}

/// The name of a limit; a number without quotes is its place, counted from 1.
fn limit(reader: &mut Reader<'_>, node: &Node) -> Option<Spanned<LimitId>> {
    let is_place = node.plain().is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let value = if is_place {
        let number = reader.number("limit", node)?;
        let Some(place) = number.checked_sub(1).and_then(|place| usize::try_from(place).ok()) else {
            let found = Diagnostic::error("not-a-place", node.span, "there is no such limit");
            reader.push(found.hint("limits without a name are counted from 1, in the order of the rule"));
            return None;
        };
        LimitId::Position(place)
    } else {
        LimitId::Name(reader.name(node)?.into())
    };
    Some(Spanned { value, span: node.span })
}

fn wait(reader: &mut Reader<'_>, node: &Node) -> Option<Spanned<Wait>> {
    let value = match node.text() {
        Some("never") => Wait::NEVER,
        _ => Wait::of(super::nanos(reader, node)?),
    };
    Some(Spanned { value, span: node.span })
}

fn duration(reader: &mut Reader<'_>, node: &Node) -> Option<Spanned<Nanos>> {
    Some(Spanned { value: super::nanos(reader, node)?, span: node.span })
}
