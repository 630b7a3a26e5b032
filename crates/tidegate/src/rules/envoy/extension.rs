//! `tidegate`, which stands beside `rate_limit` and says what that cannot.

use tidegate_core::LimitSpec;
use tidegate_core::rules::{Action, RuleLimit};

use super::super::diagnostic::Diagnostic;
use super::super::file::{LimitSpans, Spanned};
use super::super::native::{DescriptorSettings, StoreSettings};
use super::super::reader::{Field, Reader};
use super::super::yaml::{NodeKind, Node};
use super::mapping::Mapping;
use super::rate_limit::{self, RateLimit};

/// What `tidegate` says.
pub(super) struct Extension<'n> {
    pub field: Field<'n>,
    /// Those of the options that are given.
    options: Vec<Field<'n>>,
    /// Further limits.
    pub limits: Vec<(RuleLimit, LimitSpans)>,
    has_limits: bool,
    /// What is said of the store that a fleet shares.
    pub shared_store: StoreSettings,
}

/// Reads it. The terms become those of all limits of the descriptor.
pub(super) fn read<'n>(
    reader: &mut Reader<'_>,
    at: Field<'n>,
    terms: &mut DescriptorSettings,
    mode: Option<&Spanned<Action>>,
) -> Option<Extension<'n>> {
    let mut fields = Mapping::Extension.fields(reader, at.value)?;
    // What `rate_limit` says itself, and the ttl of what it has no word for, are not options of it.
    let options = LimitSpec::FIELDS.iter().filter(|field| !["limit", "ttl"].contains(field));
    let options = options.filter_map(|name| fields.take(name)).collect();
    if let (Some(action), Some(mode)) = (at.value.get("action"), mode) {
        let message = "the descriptor says already what happens over the limit";
        let found = Diagnostic::error("contradiction", action.span, message);
        reader.push(found.related(mode.span, "here").hint("leave one of them out"));
    }
    terms.override_with(reader, &mut fields);
    let shared_store = StoreSettings::read(reader, &mut fields);
    let limits = fields.value("limits");
    Mapping::Extension.finish(reader, fields);
    let has_limits = limits.is_some();
    let limits = match limits {
        Some(node) => terms.limits(reader, node)?,
        None => Vec::new(),
    };
    Some(Extension { field: at, options, limits, has_limits, shared_store })
}

impl Extension<'_> {
    /// The limits of a descriptor without `rate_limit`.
    pub fn limits_without_rate_limit(self, reader: &mut Reader<'_>) -> Option<Vec<(RuleLimit, LimitSpans)>> {
        if let Some(option) = self.options.first() {
            let name = option.key.text().unwrap_or_default();
            let message = format!("there is no `rate_limit` whose `{name}` this could be");
            let hint =
                "add `rate_limit`, or write the limit under `limits`: `limits: [ 100 per minute burst 20 ]`";
            reader.push(Diagnostic::error("no-rate-limit", option.key.span, message).hint(hint));
        } else if !self.has_limits {
            let message = "there is no limit here";
            let hint = "add `rate_limit` beside it, or `limits` to it: `limits: [ 100 per minute ]`";
            reader.push(Diagnostic::error("no-rate-limit", self.field.key.span, message).hint(hint));
        }
        Some(self.limits)
    }

    fn option(&self, name: &str) -> Option<&Field<'_>> {
        self.options.iter().find(|option| option.key.text() == Some(name))
    }
}

/// The long form of the limit that `rate_limit` and the options make, each part where it stands.
pub(super) fn with_options(
    reader: &mut Reader<'_>,
    rate_limit: &RateLimit<'_>,
    limit: &Node,
    unit: Option<&Node>,
    extension: Option<&Extension<'_>>,
) -> Option<Node> {
    let own = |name| extension.and_then(|extension| extension.option(name));
    let field = |name: &str, value: Node| (rate_limit::scalar_node(&value, name), value);
    let per = match (unit, own("per")) {
        (Some(unit), None) => unit.clone(),
        (None, Some(per)) => per.value.clone(),
        (Some(unit), Some(per)) => {
            let found = Diagnostic::error("contradiction", per.key.span, "`unit` says the window already");
            reader.push(found.related(unit.span, "here").hint("leave one of them out"));
            return None;
        }
        (None, None) => {
            let found = Diagnostic::error("missing-field", rate_limit.node.span, "field `unit` is missing");
            reader.push(found.hint("add for example `unit: minute`"));
            return None;
        }
    };
    let mut fields = vec![field("limit", limit.clone()), field("per", per)];
    match own("algorithm") {
        None => fields.push(field("algorithm", rate_limit::scalar_node(rate_limit.node, "fixed_window"))),
        Some(algorithm) if algorithm.value.text() == Some("concurrency") => {
            let message = "a descriptor cannot have a concurrency limit";
            let found = Diagnostic::error("bad-limit", algorithm.value.span, message);
            reader.push(found.hint("nobody would give back what is held; native rules can have one"));
            return None;
        }
        Some(_) => {}
    }
    match (rate_limit.name_field, own("name")) {
        (Some(first), Some(name)) => {
            let found = Diagnostic::error("contradiction", name.key.span, "the limit has a name already");
            reader.push(found.related(first.value.span, "here").hint("leave one of them out"));
            return None;
        }
        (Some(name), None) => fields.push(field("name", rate_limit::answer_name(reader, name.value))),
        (None, _) => {}
    }
    let options = extension.map(|extension| &*extension.options).unwrap_or_default();
    let others = options.iter().filter(|option| option.key.text() != Some("per"));
    fields.extend(others.map(|option| (option.key.clone(), option.value.clone())));
    Some(Node { span: rate_limit.node.span, kind: NodeKind::Map(fields.into()) })
}
