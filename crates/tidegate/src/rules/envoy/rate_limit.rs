//! Reads `rate_limit` of envoyproxy/ratelimit.

use tidegate_core::text::{escape_quoted, truncated};

use super::mapping::Mapping;
use super::{replaces, scalars};
use crate::rules::diagnostic::Diagnostic;
use crate::rules::file::LimitNames;
use crate::rules::yaml::{Field, Node, NodeKind, Reader, Style, printable};

/// The units of time. In both systems a month has 30 days and a year 365.
const UNITS: [&str; 7] = ["second", "minute", "hour", "day", "week", "month", "year"];

/// The content of `rate_limit`.
pub(super) struct RateLimit<'n> {
    pub rate: RateSpec,
    pub names: LimitNames,
    /// The name as written.
    pub name_field: Option<Field<'n>>,
    pub node: &'n Node,
}

/// The rate.
pub(super) enum RateSpec {
    Unlimited,
    /// The values for the long form of a limit, with their positions.
    Limited {
        limit: Node,
        /// None if there is no unit. The extension may set it.
        per: Option<Node>,
    },
}

/// Reads it. Errors are added to the report.
pub(super) fn read<'n>(reader: &mut Reader<'_>, node: &'n Node) -> Option<RateLimit<'n>> {
    let mut fields = Mapping::RateLimit.fields(reader, node)?;
    let unit = fields.take("unit");
    let requests = fields.take("requests_per_unit");
    let unlimited = fields.take("unlimited");
    let name = fields.take("name");
    let replaces = fields.value("replaces").map(|node| replaces::read(reader, node)).unwrap_or_default();
    Mapping::RateLimit.finish(reader, fields);

    let text = name.map(|field| scalars::text(reader, field.value)).unwrap_or_default();
    let name = name.filter(|_| text.is_some_and(|text| !text.is_empty()));
    let names = LimitNames { name: name.and(text).map(Box::from), replaces };
    replaces::check_not_itself(reader, &names);

    let rate = match unlimited {
        Some(field) if scalars::boolean(reader, field.value)? => {
            check_unlimited(reader, field, unit, requests);
            RateSpec::Unlimited
        }
        _ => {
            let (limit, per) = (read_limit(reader, node, requests), read_per(reader, unit));
            RateSpec::Limited { limit: limit?, per: per? }
        }
    };
    Some(RateLimit { rate, names, name_field: name, node })
}

/// An unlimited descriptor has no unit. Like envoyproxy/ratelimit, this ignores an unknown unit here.
fn check_unlimited(
    reader: &mut Reader<'_>,
    unlimited: Field<'_>,
    unit: Option<Field<'_>>,
    requests: Option<Field<'_>>,
) {
    let hint = "leave it out, or leave `unlimited` out";
    let is_unit = |field: &Field<'_>| field.value.text().is_some_and(|text| known_unit(text).is_some());
    if let Some(field) = unit.filter(is_unit) {
        let diagnostic =
            Diagnostic::error("unlimited-with-unit", field.key.span, "an unlimited descriptor has no unit");
        reader.push(diagnostic.related(unlimited.key.span, "unlimited here").hint(hint));
    }
    let ignored = unit.filter(|field| !is_unit(field) && !matches!(field.value.kind, NodeKind::Null));
    for field in ignored.into_iter().chain(requests) {
        let name = field.key.text().unwrap_or_default();
        let message = format!("`{name}` has no effect, because the descriptor is unlimited");
        let diagnostic = Diagnostic::warning("unlimited-with-limit", field.key.span, message);
        reader.push(diagnostic.related(unlimited.key.span, "unlimited here").hint(hint));
    }
}

/// The number of requests. Without a number it is zero in envoyproxy/ratelimit.
fn read_limit(reader: &mut Reader<'_>, node: &Node, requests: Option<Field<'_>>) -> Option<Node> {
    let number = requests.filter(|field| !matches!(field.value.kind, NodeKind::Null));
    let Some(field) = number else {
        let message = "without `requests_per_unit` every request is denied";
        let hint = "add for example `requests_per_unit: 100`; write 0 if that is intended";
        let at = requests.map_or(node.span, |field| field.key.span);
        reader.push(Diagnostic::warning("no-requests", at, message).hint(hint));
        return Some(scalar_node(node, "0"));
    };
    scalars::number(reader, field.value).map(|number| scalar_node(field.value, &number.to_string()))
}

/// The unit; `Some(None)` if there is none.
fn read_per(reader: &mut Reader<'_>, unit: Option<Field<'_>>) -> Option<Option<Node>> {
    let Some(field) = unit.filter(|field| !matches!(field.value.kind, NodeKind::Null)) else {
        return Some(None);
    };
    let text = scalars::text(reader, field.value)?;
    if let Some(unit) = known_unit(text) {
        return Some(Some(scalar_node(field.value, unit)));
    }
    reader.unknown_keyword("unit", field.value, text, &UNITS);
    None
}

/// Ignores case.
fn known_unit(text: &str) -> Option<&'static str> {
    UNITS.into_iter().find(|unit| unit.eq_ignore_ascii_case(text))
}

/// A node with other text at the same position.
pub(super) fn scalar_node(at: &Node, text: &str) -> Node {
    Node { span: at.span, kind: NodeKind::Scalar { text: text.into(), style: Style::Plain } }
}

/// The limit's name in answers. In envoyproxy/ratelimit a name is any text.
pub(super) fn answer_name(reader: &mut Reader<'_>, node: &Node) -> Node {
    const NAME_BYTES_MAX: usize = 128;
    let text = node.text().unwrap_or_default();
    let allowed = |c: char| if c.is_alphanumeric() || "-_. ".contains(c) { c } else { '-' };
    let name: String = text.chars().map(allowed).collect();
    let name = truncated(&name, NAME_BYTES_MAX).trim();
    if name != text {
        let public = escape_quoted(text);
        let message = format!(
            "the limit is called `{}` in headers and metrics, and `{}` in `current_limit.name`",
            printable(if name.is_empty() { "-" } else { name }),
            printable(&public)
        );
        let hint = "names in headers have letters, digits, `-`, `_`, `.` and spaces; `replaces` uses the name as written";
        reader.push(Diagnostic::warning("name-changed", node.span, message).hint(hint));
    }
    let name = if name.is_empty() { "-" } else { name };
    Node { span: node.span, kind: NodeKind::Scalar { text: name.into(), style: Style::Quoted } }
}
