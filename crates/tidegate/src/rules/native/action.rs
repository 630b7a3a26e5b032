//! Reads what happens over a limit.

use tidegate_core::rules::{Action, Elastic, ElasticSource, Margin};
use tidegate_core::text::write_duration;
use tidegate_core::{AlgorithmName, Limit, Nanos, UNITS_MAX};

use crate::rules::diagnostic::Diagnostic;
use crate::rules::file::{LimitSpans, Spanned};
use crate::rules::yaml::{Field, Fields, Node, NodeKind, Reader, printable};

/// The range of `max_wait`, in nanoseconds.
const MAX_WAIT_NS: std::ops::RangeInclusive<u64> = 1_000_000..=3_600_000_000_000;
/// The range of a margin, in percent.
const MARGIN_PERCENT: std::ops::RangeInclusive<u64> = 1..=1_000;

/// An action as written, before its limit is known.
#[derive(Clone)]
pub(super) enum ActionSpec {
    Ready(Action),
    Elastic(ElasticSpec),
}

#[derive(Clone)]
pub(super) struct ElasticSpec {
    /// None means L.
    min: Option<Spanned<u64>>,
    max: Spanned<u64>,
    by: ElasticSource,
}

impl Default for ActionSpec {
    fn default() -> Self {
        Self::Ready(Action::Reject)
    }
}

const WORDS: [&str; 4] = ["reject", "shadow", "shadow_ban", "quota"];
const WITH_FIELDS: [&str; 3] = ["delay", "soft", "elastic"];

/// A word, or a mapping of one action to its fields.
pub(super) fn read(reader: &mut Reader<'_>, node: &Node) -> Option<ActionSpec> {
    if let NodeKind::Map(actions) = &node.kind {
        return match &**actions {
            [(key, value)] => read_with_fields(reader, key, value),
            _ => {
                let message = format!("expected one action, found {}", actions.len());
                let diagnostic = Diagnostic::error("wrong-type", node.span, message);
                reader.push(diagnostic.hint("write for example `{ delay: { max_wait: 5s } }`"));
                None
            }
        };
    }
    let Some(text) = node.text() else {
        reader.wrong_type_hint(
            node,
            "an action",
            "write for example `reject` or `{ delay: { max_wait: 5s } }`",
        );
        return None;
    };
    let action = match text {
        "reject" => Action::Reject,
        "shadow" => Action::Shadow,
        "shadow_ban" => Action::ShadowBan,
        "quota" => Action::Quota,
        text => {
            report_unknown(reader, node, text);
            return None;
        }
    };
    Some(ActionSpec::Ready(action))
}

/// What other tools call an action, and how to write it here. The most similar known word would be the wrong
/// one.
const SYNONYMS: [(&[&str], &str); 5] = [
    (
        &[
            "dry_run",
            "dry-run",
            "dryrun",
            "log",
            "log_only",
            "monitor",
            "observe",
            "report",
            "report_only",
            "audit",
        ],
        "a dry run is called `shadow`",
    ),
    (
        &["deny", "block", "drop", "forbid", "429", "limit"],
        "over the limit, `reject` denies requests; to deny all requests of the rule, write `limit: deny`",
    ),
    (&["ban", "tarpit", "blackhole"], "to answer success and drop the request, write `shadow_ban`"),
    (&["wait", "queue", "throttle", "pace"], "to hold requests, write `{ delay: { max_wait: 5s } }`"),
    (
        &["allow", "pass", "exempt", "skip", "none"],
        "to limit nothing, write `limit: unlimited`, or `exempt: true` if no other rule may apply either",
    ),
];

fn report_unknown(reader: &mut Reader<'_>, node: &Node, text: &str) {
    if let Some((_, hint)) = SYNONYMS.iter().find(|(words, _)| words.contains(&text)) {
        let message = format!("unknown action `{}`", printable(text));
        return reader.push(Diagnostic::error("unknown-word", node.span, message).hint(*hint));
    }
    let example = match text {
        "delay" => "{ delay: { max_wait: 5s } }",
        "soft" => "{ soft: { margin: 10% } }",
        "elastic" => "{ elastic: { max: 200, pool: spare } }",
        _ => return reader.unknown_keyword("action", node, text, &[&WORDS[..], &WITH_FIELDS[..]].concat()),
    };
    let diagnostic = Diagnostic::error("missing-field", node.span, format!("action `{text}` has fields"));
    reader.push(diagnostic.hint(format!("write for example `action: {example}`")));
}

fn read_with_fields(reader: &mut Reader<'_>, key: &Node, value: &Node) -> Option<ActionSpec> {
    match reader.text(key)? {
        "delay" => {
            let mut fields = Fields::of(reader, value, "delay")?;
            let max_wait = fields.required(reader, "max_wait", "set the longest wait: `max_wait: 5s`");
            fields.finish(reader, "delay");
            Some(ActionSpec::Ready(Action::Delay { max_wait: read_max_wait(reader, max_wait?)? }))
        }
        "soft" => {
            let mut fields = Fields::of(reader, value, "soft")?;
            let margin = fields.required(reader, "margin", "set how far over the limit: `margin: 10%`");
            fields.finish(reader, "soft");
            Some(ActionSpec::Ready(Action::Soft(read_margin(reader, margin?)?)))
        }
        "elastic" => read_elastic(reader, value).map(ActionSpec::Elastic),
        name if WORDS.contains(&name) => {
            let diagnostic =
                Diagnostic::error("wrong-type", value.span, format!("action `{name}` has no fields"));
            reader.push(diagnostic.hint(format!("write `action: {name}`")));
            None
        }
        text => {
            report_unknown(reader, key, text);
            None
        }
    }
}

fn read_max_wait(reader: &mut Reader<'_>, node: &Node) -> Option<Nanos> {
    let nanos = reader.duration_ns(node)?;
    if !MAX_WAIT_NS.contains(&nanos) {
        let message = format!("a max_wait of {} is out of range", write_duration(nanos));
        reader.push(Diagnostic::error("out-of-range", node.span, message).hint("use 1ms to 1h"));
        return None;
    }
    Some(Nanos::new(nanos.into()))
}

/// `10%`, or a number of percent, or `unlimited`.
fn read_margin(reader: &mut Reader<'_>, node: &Node) -> Option<Margin> {
    let text = reader.text(node)?;
    if text == "unlimited" {
        return Some(Margin::Unlimited);
    }
    let digits = text.strip_suffix('%').unwrap_or(text).trim_end();
    let percent = tidegate_core::text::parse_number("margin", digits);
    let percent = match percent {
        Ok(percent) if MARGIN_PERCENT.contains(&percent) => u32::try_from(percent).ok(),
        _ => None,
    };
    if percent.is_none() {
        let message = format!("a margin of `{}` is out of range", printable(text));
        reader.push(
            Diagnostic::error("out-of-range", node.span, message)
                .hint("use 1% to 1000% of the limit, in whole percent, or `unlimited`"),
        );
    }
    percent.map(Margin::Percent)
}

fn read_elastic(reader: &mut Reader<'_>, node: &Node) -> Option<ElasticSpec> {
    let mut fields = Fields::of(reader, node, "elastic")?;
    let min = fields.value("min").map(|node| read_units(reader, "min", node));
    let max = fields.required(reader, "max", "set the upper bound: `max: 200`");
    let max = max.and_then(|node| read_units(reader, "max", node));
    let (pool, signal) = (fields.take("pool"), fields.take("signal"));
    let by = match (pool, signal) {
        (Some(pool), None) => reader.name(pool.value).map(|name| ElasticSource::Pool(name.into())),
        (None, Some(signal)) => reader.name(signal.value).map(|name| ElasticSource::Signal(name.into())),
        (Some(pool), Some(Field { key, .. })) => {
            let diagnostic =
                Diagnostic::error("contradiction", key.span, "`pool` and `signal` exclude each other");
            reader.push(diagnostic.related(pool.key.span, "the pool").hint("leave one of them out"));
            None
        }
        (None, None) => {
            let diagnostic = Diagnostic::error("missing-field", node.span, "`pool` or `signal` is missing");
            reader.push(diagnostic.hint("add `pool: NAME`, a pool of this domain, or `signal: NAME`"));
            None
        }
    };
    fields.finish(reader, "elastic");
    let min = match min {
        None => None,
        Some(min) => Some(min?),
    };
    Some(ElasticSpec { min, max: max?, by: by? })
}

fn read_units(reader: &mut Reader<'_>, field: &str, node: &Node) -> Option<Spanned<u64>> {
    let value = reader.number(field, node)?;
    if value > UNITS_MAX {
        let diagnostic =
            Diagnostic::error("out-of-range", node.span, format!("{field} {value} is too large"));
        reader.push(diagnostic.hint(format!("the maximum is {UNITS_MAX}")));
        return None;
    }
    Some(Spanned { value, span: node.span })
}

/// The action for this limit, if they can be combined.
pub(super) fn resolve(
    reader: &mut Reader<'_>,
    spec: &ActionSpec,
    limit: &Limit,
    at: &LimitSpans,
) -> Option<Action> {
    let action = match spec {
        ActionSpec::Ready(action) => action.clone(),
        ActionSpec::Elastic(spec) => Action::Elastic(check_bounds(reader, spec, limit, at)?),
    };
    let diagnostic = find_contradiction(&action, limit, at);
    if let Some(diagnostic) = diagnostic {
        let shared = at.action != at.limit && !at.limit.contains(&at.action);
        reader.push(if shared { diagnostic.related(at.limit, "for this limit") } else { diagnostic });
        return None;
    }
    Some(action)
}

fn find_contradiction(action: &Action, limit: &Limit, at: &LimitSpans) -> Option<Diagnostic> {
    let (name, is_for_windows) = match action {
        Action::Delay { .. } => ("delay", false),
        Action::Soft(_) => ("soft", true),
        Action::Elastic(_) => ("elastic", true),
        Action::Reject | Action::Shadow | Action::ShadowBan | Action::Quota => return None,
    };
    if limit.algorithm().counts_denied() {
        let message = format!("action `{name}` cannot be combined with `count_denied`");
        let hint = "a denied request is counted, so it cannot be admitted later; leave one of them out";
        return Some(Diagnostic::error("contradiction", at.action, message).hint(hint));
    }
    if is_for_windows && limit.algorithm_name() == AlgorithmName::Concurrency {
        let message = format!("action `{name}` cannot be combined with algorithm concurrency");
        let hint = "held units are released and need no room above the limit; raise the limit instead";
        return Some(Diagnostic::error("contradiction", at.action, message).hint(hint));
    }
    None
}

/// `min` to `max`, with L between them.
fn check_bounds(
    reader: &mut Reader<'_>,
    spec: &ElasticSpec,
    limit: &Limit,
    at: &LimitSpans,
) -> Option<Elastic> {
    let units = limit.rate().limit();
    let min = spec.min.unwrap_or(Spanned { value: units, span: at.limit });
    let mut is_valid = true;
    if min.value > units {
        let message = format!("`min` is {} but the limit is {units}", min.value);
        let diagnostic = Diagnostic::error("out-of-range", min.span, message);
        reader.push(
            diagnostic
                .related(at.limit, "the limit")
                .hint(format!("write {units} or less, or raise the limit")),
        );
        is_valid = false;
    }
    if spec.max.value < units {
        let message = format!("`max` is {} but the limit is {units}", spec.max.value);
        let diagnostic = Diagnostic::error("out-of-range", spec.max.span, message);
        reader.push(
            diagnostic
                .related(at.limit, "the limit")
                .hint(format!("write {units} or more, or lower the limit")),
        );
        is_valid = false;
    }
    is_valid.then(|| Elastic { min: min.value, max: spec.max.value, source: spec.by.clone() })
}
