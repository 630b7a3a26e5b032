//! Reads one limit, in its text form or its long form.

use tidegate_core::algorithm::{Align, CalendarSpec, CountDenied, Weekday};
use tidegate_core::rules::RuleLimit;
use tidegate_core::text::{align_hint, parse_number};
use tidegate_core::{AlgorithmName, Limit, LimitError, LimitId, LimitSpec};

use super::key::KeyScope;
use super::limit_settings::LimitSettings;
use super::{action, store_settings};
use crate::rules::Span;
use crate::rules::diagnostic::Diagnostic;
use crate::rules::file::LimitSpans;
use crate::rules::yaml::{Fields, Node, NodeKind, Reader, printable};

/// A limit of a rule, and the positions of its parts.
pub(super) struct ParsedLimit {
    pub limit: RuleLimit,
    pub spans: LimitSpans,
    /// The position of its name, if it has one.
    pub name_span: Option<Span>,
}

const EXAMPLE: &str =
    "write for example `100 per minute`, or `{ limit: 100, per: 1m, algorithm: sliding_window }`";

/// Reads a limit with the rule's settings, or its own where it has them.
pub(super) fn read(
    reader: &mut Reader<'_>,
    node: &Node,
    rule_settings: &LimitSettings,
    scope: &KeyScope,
) -> Option<ParsedLimit> {
    let (limit, was, name, settings) = match &node.kind {
        NodeKind::Map(_) => {
            let mut fields = Fields::of(reader, node, "a limit")?;
            let limit = read_long_form(reader, &mut fields);
            let was = fields.value("was").and_then(|node| was(reader, node));
            let settings = rule_settings.clone().override_with(reader, &mut fields, scope);
            store_settings::report_misplaced_store_settings(reader, &mut fields);
            fields.finish(reader, "a limit");
            (limit, was, node.get("name").map(|name| name.span), settings)
        }
        _ => (read_text_form(reader, node), None, None, rule_settings.clone()),
    };
    let (limit, settings) = (limit?, settings);
    let at = settings.spans(node.span);
    let action = action::resolve(reader, &settings.action, &limit, &at)?;
    let (key, missing, cost) = (settings.key, settings.missing, settings.cost);
    Some(ParsedLimit {
        limit: RuleLimit { limit, was, key, missing, cost, action },
        spans: at,
        name_span: name,
    })
}

/// `100 per minute`.
pub(super) fn read_text_form(reader: &mut Reader<'_>, node: &Node) -> Option<Limit> {
    let Some(text) = node.text() else {
        reader.wrong_type_hint(node, "a limit", EXAMPLE);
        return None;
    };
    match text.parse() {
        Ok(limit) => Some(limit),
        Err(error) => {
            reader.limit_error("bad-limit", node, &error);
            None
        }
    }
}

/// Reads the fields of the long form that describe the limit itself.
pub(super) fn read_long_form(reader: &mut Reader<'_>, fields: &mut Fields<'_>) -> Option<Limit> {
    let mut field_spans = FieldSpans { whole: fields.span(), given: Vec::new() };
    let mut take = |name| {
        let value = fields.value(name)?;
        field_spans.given.push((name, value.span));
        Some(value)
    };
    let (limit, per, algorithm) = (take("limit"), take("per"), take("algorithm"));
    let spec = LimitSpec {
        burst: take("burst").and_then(|node| reader.number("burst", node)),
        queue: take("queue").and_then(|node| reader.number("queue", node)),
        sub_windows: take("sub_windows").and_then(|node| reader.number("sub_windows", node)),
        strict: take("strict").and_then(|node| reader.boolean(node)),
        count_denied: take("count_denied").and_then(|node| count_denied(reader, node)),
        min_interval_ns: take("min_interval").and_then(|node| reader.duration_ns(node)),
        align: take("align").and_then(|node| align(reader, node)),
        ttl_ns: take("ttl").and_then(|node| reader.duration_ns(node)),
        name: take("name").and_then(|node| reader.text(node)).map(str::to_owned),
        ..LimitSpec::default()
    };
    let name = algorithm.map(|node| algorithm_name(reader, node));
    // An unknown algorithm may be one without a window, and its valid options are unknown.
    let algorithm = name.map(|name| name.unwrap_or(AlgorithmName::Concurrency));
    let spec = read_rate(reader, RateFields { limit, per }, LimitSpec { algorithm, ..spec }, &field_spans)?;
    if name == Some(None) {
        return None;
    }
    build(reader, spec, &field_spans)
}

/// The positions of the fields that were given.
struct FieldSpans {
    whole: Span,
    given: Vec<(&'static str, Span)>,
}

impl FieldSpans {
    /// The position of a field, or that of the rate if the value must come from there.
    fn span_of(&self, field: Option<&str>) -> Span {
        let find = |name| self.given.iter().find(|(given, _)| *given == name).map(|(_, span)| *span);
        field.and_then(find).or_else(|| find("limit")).unwrap_or(self.whole)
    }
}

/// The fields of the rate.
#[derive(Clone, Copy)]
struct RateFields<'n> {
    limit: Option<&'n Node>,
    per: Option<&'n Node>,
}

/// `limit: 100` and `per: 1m`, or `limit: 100 per minute`, or `limit: 100` alone for a limit without a
/// window.
fn read_rate(
    reader: &mut Reader<'_>,
    rate: RateFields<'_>,
    spec: LimitSpec,
    field_spans: &FieldSpans,
) -> Option<LimitSpec> {
    let Some(limit) = rate.limit else {
        let diagnostic = Diagnostic::error("missing-field", field_spans.whole, "field `limit` is missing");
        reader.push(diagnostic.hint("add for example `limit: 100 per minute`"));
        return None;
    };
    let is_number = limit.kind_name() == "a number";
    let has_window = spec.algorithm != Some(AlgorithmName::Concurrency);
    match (rate.per, limit.text()) {
        (Some(per), _) if is_number => {
            let number = reader.number("limit", limit);
            let per_ns = reader.duration_ns(per);
            Some(LimitSpec { limit: number?, per_ns: per_ns?, ..spec })
        }
        (None, _) if is_number && has_window => {
            if reader.number("limit", limit)? == 0 {
                let LimitSpec { per_ns, .. } = LimitSpec::deny();
                return Some(LimitSpec { limit: 0, per_ns, ..spec });
            }
            let diagnostic = Diagnostic::error("missing-field", limit.span, "field `per` is missing");
            reader.push(diagnostic.label("per how long?").hint("add for example `per: 1m`"));
            None
        }
        (None, _) if is_number => Some(LimitSpec { limit: reader.number("limit", limit)?, ..spec }),
        (_, None) => {
            reader.wrong_type_hint(
                limit,
                "a number or a rate",
                "write for example `100` or `100 per minute`",
            );
            None
        }
        (Some(_), Some(text)) if parse_number("limit", text).is_ok() => {
            reader.wrong_type_hint(limit, "a number", "remove the quotes");
            None
        }
        (Some(_), Some(text)) if is_one_word(text) => {
            let Err(error) = parse_number("limit", text) else { return None };
            reader.limit_error("not-a-number", limit, &error);
            None
        }
        (Some(per), Some(text)) => {
            let error = match text.parse::<LimitSpec>() {
                Ok(_) => Diagnostic::error("contradiction", per.span, "the window is given twice")
                    .related(limit.span, "it is also here")
                    .hint("leave `per` out"),
                Err(error) => Diagnostic::error("bad-limit", limit.span, error.problem()).hint(error.hint()),
            };
            reader.push(error);
            None
        }
        (None, Some("unlimited")) => {
            let diagnostic = Diagnostic::error("bad-limit", limit.span, "`unlimited` takes no options");
            reader.push(diagnostic.hint("write `limit: unlimited` in the rule itself"));
            None
        }
        (None, Some(text)) => match text.parse::<LimitSpec>() {
            Ok(parsed) if parsed.burst.is_some() && spec.burst.is_some() => {
                let diagnostic = Diagnostic::error(
                    "contradiction",
                    field_spans.span_of(Some("burst")),
                    "burst is given twice",
                );
                reader.push(diagnostic.related(limit.span, "it is also here").hint("leave one of them out"));
                None
            }
            Ok(parsed) => Some(LimitSpec {
                limit: parsed.limit,
                per_ns: parsed.per_ns,
                burst: parsed.burst.or(spec.burst),
                ..spec
            }),
            Err(error) => {
                reader.limit_error("bad-limit", limit, &error);
                None
            }
        },
    }
}

/// Whether it may be a number with a suffix, as opposed to a rate.
fn is_one_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit()) && !text.contains(|c: char| c.is_whitespace() || c == '/')
}

/// Builds the limit, if its options can be combined. Removes wrong options one by one, so that all are
/// reported.
fn build(reader: &mut Reader<'_>, mut spec: LimitSpec, field_spans: &FieldSpans) -> Option<Limit> {
    let mut is_valid = true;
    loop {
        let error = match spec.clone().build() {
            Ok(limit) => return is_valid.then_some(limit),
            Err(error) => error,
        };
        is_valid = false;
        report_limit_error(reader, field_spans, &error);
        if !remove_option(&mut spec, error.field()) {
            return None;
        }
    }
}

fn report_limit_error(reader: &mut Reader<'_>, field_spans: &FieldSpans, error: &LimitError) {
    let at = field_spans.span_of(error.field());
    reader.push(Diagnostic::error("bad-limit", at, error.problem()).hint(error.hint()));
}

/// Removes an option; false if there was none.
fn remove_option(spec: &mut LimitSpec, field: Option<&str>) -> bool {
    match field {
        Some("burst") => spec.burst.take().is_some(),
        Some("queue") => spec.queue.take().is_some(),
        Some("sub_windows") => spec.sub_windows.take().is_some(),
        Some("strict") => spec.strict.take().is_some(),
        Some("count_denied") => spec.count_denied.take().is_some(),
        Some("min_interval") => spec.min_interval_ns.take().is_some(),
        Some("align") => spec.align.take().is_some(),
        Some("name") => spec.name.take().is_some(),
        // Without a ttl there would only be another error about the same problem.
        _ => false,
    }
}

fn algorithm_name(reader: &mut Reader<'_>, node: &Node) -> Option<AlgorithmName> {
    match reader.text(node)?.parse() {
        Ok(name) => Some(name),
        Err(error) => {
            reader.limit_error("unknown-word", node, &error);
            None
        }
    }
}

fn count_denied(reader: &mut Reader<'_>, node: &Node) -> Option<CountDenied> {
    if node.plain() == Some(CountDenied::IfOver.as_str()) {
        return Some(CountDenied::IfOver);
    }
    let counts = reader.boolean(node)?;
    Some(if counts { CountDenied::Always } else { CountDenied::Never })
}

fn align(reader: &mut Reader<'_>, node: &Node) -> Option<Align> {
    if let NodeKind::Map(_) = &node.kind {
        let mut fields = Fields::of(reader, node, "align")?;
        let tz = fields.value("tz").and_then(|node| reader.text(node)).map(str::to_owned);
        let week_starts = fields.value("week_starts").and_then(|node| {
            let keywords = Weekday::ALL.map(|day| (day.as_str(), day));
            reader.keyword("weekday", node, &keywords)
        });
        let day_of_month = fields.value("day_of_month").and_then(|node| reader.number("day_of_month", node));
        fields.finish(reader, "align");
        let spec = CalendarSpec::default();
        return Some(Align::Calendar(CalendarSpec { tz: tz.unwrap_or(spec.tz), week_starts, day_of_month }));
    }
    match reader.text(node)? {
        "epoch" => Some(Align::Epoch),
        "first_hit" => Some(Align::FirstHit),
        text => {
            let message = format!("unknown align `{}`", printable(text));
            reader.push(Diagnostic::error("unknown-word", node.span, message).hint(align_hint(text)));
            None
        }
    }
}

/// The former name of a limit, or its former position from 1 if it had no name.
fn was(reader: &mut Reader<'_>, node: &Node) -> Option<LimitId> {
    if node.kind_name() != "a number" {
        return Some(LimitId::Name(reader.name(node)?.into()));
    }
    match reader.number("was", node)? {
        0 => {
            let diagnostic =
                Diagnostic::error("bad-place", node.span, "the first limit has position 1, not 0");
            reader.push(diagnostic.hint("write its former position or name; a name like `0` needs quotes"));
            None
        }
        position => Some(LimitId::Position(usize::try_from(position).unwrap_or(usize::MAX) - 1)),
    }
}
