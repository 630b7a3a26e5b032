//! Reads the expected answer of a step.

use tidegate_core::rules::AnswerKind;
use tidegate_core::{LimitId, Nanos, Wait};

use super::model::{DECISIONS, Expectation, ExpectedRule};
use super::read::nanos;
use crate::rules::diagnostic::Diagnostic;
use crate::rules::file::Spanned;
use crate::rules::yaml::{Fields, Node, NodeKind, Reader};

pub(super) fn read(reader: &mut Reader<'_>, node: &Node) -> Option<Expectation> {
    if !matches!(node.kind, NodeKind::Map(_)) {
        return Some(Expectation { decision: Some(decision(reader, node)?), ..Expectation::default() });
    }
    let mut fields = Fields::of(reader, node, "an expectation")?;
    let expected = Expectation {
        decision: fields.value("decision").and_then(|node| decision(reader, node)),
        rule: fields.value("rule").and_then(|node| rule(reader, node)),
        limit: fields.value("limit").and_then(|node| limit(reader, node)),
        remaining: fields
            .value("remaining")
            .and_then(|node| Some(Spanned { value: reader.number("remaining", node)?, span: node.span })),
        retry_after: fields.value("retry_after").and_then(|node| wait(reader, node)),
        reset_after: fields.value("reset_after").and_then(|node| duration(reader, node)),
        delay: fields.value("delay").and_then(|node| duration(reader, node)),
        candidate: fields.value("candidate").and_then(|node| decision(reader, node)),
    };
    fields.finish(reader, "an expectation");
    Some(expected)
}

/// Common names of decisions.
const DECISION_SYNONYMS: [(&str, AnswerKind); 18] = [
    ("banned", AnswerKind::ShadowBanned),
    ("ban", AnswerKind::ShadowBanned),
    ("shadow_ban", AnswerKind::ShadowBanned),
    ("dropped", AnswerKind::ShadowBanned),
    ("deny", AnswerKind::Denied),
    ("reject", AnswerKind::Denied),
    ("rejected", AnswerKind::Denied),
    ("blocked", AnswerKind::Denied),
    ("limited", AnswerKind::Denied),
    ("over_limit", AnswerKind::Denied),
    ("429", AnswerKind::Denied),
    ("allow", AnswerKind::Allowed),
    ("ok", AnswerKind::Allowed),
    ("passed", AnswerKind::Allowed),
    ("200", AnswerKind::Allowed),
    ("shadow", AnswerKind::ShadowDenied),
    ("delay", AnswerKind::Delayed),
    ("quota", AnswerKind::OverQuota),
];

fn decision(reader: &mut Reader<'_>, node: &Node) -> Option<Spanned<AnswerKind>> {
    let keywords = DECISIONS.map(|kind| (kind.as_str(), kind));
    let value = reader.keyword_or_synonym("decision", node, &keywords, &DECISION_SYNONYMS)?;
    Some(Spanned { value, span: node.span })
}

fn rule(reader: &mut Reader<'_>, node: &Node) -> Option<Spanned<ExpectedRule>> {
    let value = match &node.kind {
        NodeKind::Null => ExpectedRule::NoRule,
        _ => ExpectedRule::Named(reader.name(node)?.into()),
    };
    Some(Spanned { value, span: node.span })
}

/// The name of a limit. A number without quotes is its position, from 1.
fn limit(reader: &mut Reader<'_>, node: &Node) -> Option<Spanned<LimitId>> {
    let is_position = node.plain().is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let value = if is_position {
        let number = reader.number("limit", node)?;
        let Some(index) = number.checked_sub(1).and_then(|index| usize::try_from(index).ok()) else {
            let diagnostic = Diagnostic::error("not-a-place", node.span, "there is no such limit");
            reader
                .push(diagnostic.hint("limits without a name are counted from 1, in the order of the rule"));
            return None;
        };
        LimitId::Position(index)
    } else {
        LimitId::Name(reader.name(node)?.into())
    };
    Some(Spanned { value, span: node.span })
}

fn wait(reader: &mut Reader<'_>, node: &Node) -> Option<Spanned<Wait>> {
    let value = match node.text() {
        Some("never") => Wait::NEVER,
        _ => Wait::of(nanos(reader, node)?),
    };
    Some(Spanned { value, span: node.span })
}

fn duration(reader: &mut Reader<'_>, node: &Node) -> Option<Spanned<Nanos>> {
    Some(Spanned { value: nanos(reader, node)?, span: node.span })
}
