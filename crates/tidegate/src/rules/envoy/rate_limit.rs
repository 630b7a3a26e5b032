//! `rate_limit`, as envoyproxy/ratelimit has it.

use tidegate_core::text::truncated;

use super::super::diagnostic::Diagnostic;
use super::super::reader::{Field, Reader};
use super::super::yaml::{NodeKind, Node, Style, printable};
use super::mapping::Mapping;
use super::replaces::{self, LimitNames};
use super::scalars;

/// The units of time. A month is 30 days and a year 365 there, as they are here.
const UNITS: [&str; 7] = ["second", "minute", "hour", "day", "week", "month", "year"];

/// What `rate_limit` says.
pub(super) struct RateLimit<'n> {
    pub rate: RateSpec,
    pub names: LimitNames,
    /// The name as it stands there.
    pub name_field: Option<Field<'n>>,
    pub node: &'n Node,
}

/// How much.
pub(super) enum RateSpec {
    Unlimited,
    /// The values as a limit's long form has them, where they stand.
    Limited {
        limit: Node,
        /// None: it does not say; the extension may.
        per: Option<Node>,
    },
}

/// Reads it; what is wrong with it is noted.
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
    let named = LimitNames { name: name.and(text).map(Box::from), replaces };
    replaces::check_not_itself(reader, &named);

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
    Some(RateLimit { rate, names: named, name_field: name, node })
}

/// What is unlimited has no unit. One that is none is not looked at there.
fn check_unlimited(
    reader: &mut Reader<'_>,
    unlimited: Field<'_>,
    unit: Option<Field<'_>>,
    requests: Option<Field<'_>>,
) {
    let hint = "leave it out, or leave `unlimited` out";
    let is_unit = |field: &Field<'_>| field.value.text().is_some_and(|text| known_unit(text).is_some());
    if let Some(field) = unit.filter(is_unit) {
        let found = Diagnostic::error("unlimited-with-unit", field.key.span, "what is unlimited has no unit");
        reader.push(found.related(unlimited.key.span, "unlimited here").hint(hint));
    }
    let ignored = unit.filter(|field| !is_unit(field) && !matches!(field.value.kind, NodeKind::Null));
    for field in ignored.into_iter().chain(requests) {
        let name = field.key.text().unwrap_or_default();
        let message = format!("`{name}` has no effect, for the descriptor is unlimited");
        let found = Diagnostic::warning("unlimited-with-limit", field.key.span, message);
        reader.push(found.related(unlimited.key.span, "unlimited here").hint(hint));
    }
}

/// How many. Without a number it is none at all there.
fn read_limit(reader: &mut Reader<'_>, node: &Node, requests: Option<Field<'_>>) -> Option<Node> {
    let given = requests.filter(|field| !matches!(field.value.kind, NodeKind::Null));
    let Some(field) = given else {
        let message = "without `requests_per_unit` every request is denied";
        let hint = "add for example `requests_per_unit: 100`; write 0 if it is meant";
        let at = requests.map_or(node.span, |field| field.key.span);
        reader.push(Diagnostic::warning("no-requests", at, message).hint(hint));
        return Some(scalar_node(node, "0"));
    };
    scalars::number(reader, field.value).map(|number| scalar_node(field.value, &number.to_string()))
}

/// Per how long; `Some(None)` if it does not say.
fn read_per(reader: &mut Reader<'_>, unit: Option<Field<'_>>) -> Option<Option<Node>> {
    let Some(field) = unit.filter(|field| !matches!(field.value.kind, NodeKind::Null)) else { return Some(None) };
    let text = scalars::text(reader, field.value)?;
    if let Some(unit) = known_unit(text) {
        return Some(Some(scalar_node(field.value, unit)));
    }
    reader.unknown_keyword("unit", field.value, text, &UNITS);
    None
}

/// Upper and lower case do not matter.
fn known_unit(text: &str) -> Option<&'static str> {
    UNITS.into_iter().find(|unit| unit.eq_ignore_ascii_case(text))
}

/// Other text in the place of a node.
pub(super) fn scalar_node(at: &Node, text: &str) -> Node {
    Node { span: at.span, kind: NodeKind::Scalar { text: text.into(), style: Style::Plain } }
}

/// The limit's name as answers may have it. There, a name is any text.
pub(super) fn answer_name(reader: &mut Reader<'_>, node: &Node) -> Node {
    const NAME_BYTES_MAX: usize = 128;
    let text = node.text().unwrap_or_default();
    let allowed = |c: char| if c.is_alphanumeric() || "-_. ".contains(c) { c } else { '-' };
    let name: String = text.chars().map(allowed).collect();
    let name = truncated(&name, NAME_BYTES_MAX).trim();
    if name != text {
        let message = format!("answers call the limit `{}`", printable(name));
        let hint = "names in answers have letters, digits, `-`, `_`, `.` and spaces; `replaces` takes this one as it is";
        reader.push(Diagnostic::warning("name-changed", node.span, message).hint(hint));
    }
    let name = if name.is_empty() { "-" } else { name };
    Node { span: node.span, kind: NodeKind::Scalar { text: name.into(), style: Style::Quoted } }
}
