//! `tidegate`, an extension beside `rate_limit` for what that cannot express.

use tidegate_core::LimitSpec;
use tidegate_core::rules::{Action, RuleLimit};

use super::mapping::Mapping;
use super::rate_limit::{self, RateLimit};
use crate::rules::diagnostic::Diagnostic;
use crate::rules::file::{LimitSpans, Spanned};
use crate::rules::native::{DescriptorSettings, StoreSettings};
use crate::rules::yaml::{Field, Node, NodeKind, Reader};

/// The content of `tidegate`.
pub(super) struct Extension<'n> {
    pub field: Field<'n>,
    /// The options that are given.
    options: Vec<Field<'n>>,
    /// Further limits.
    pub limits: Vec<(RuleLimit, LimitSpans)>,
    has_limits: bool,
    /// The settings for a shared store.
    pub shared_store: StoreSettings,
}

/// Reads it. Its settings apply to all limits of the descriptor.
pub(super) fn read<'n>(
    reader: &mut Reader<'_>,
    field: Field<'n>,
    settings: &mut DescriptorSettings,
    mode: Option<&Spanned<Action>>,
) -> Option<Extension<'n>> {
    let mut fields = Mapping::Extension.fields(reader, field.value)?;
    // `rate_limit` has its own field for the limit, and no leases, so these are not options.
    let options = LimitSpec::FIELDS.iter().filter(|field| !["limit", "ttl"].contains(field));
    let options = options.filter_map(|name| fields.take(name)).collect();
    if let (Some(action), Some(mode)) = (field.value.get("action"), mode) {
        let message = "the descriptor already sets what happens over the limit";
        let diagnostic = Diagnostic::error("contradiction", action.span, message);
        reader.push(diagnostic.related(mode.span, "here").hint("leave one of them out"));
    }
    settings.override_with(reader, &mut fields);
    let shared_store = StoreSettings::read(reader, &mut fields);
    let limits = fields.value("limits");
    Mapping::Extension.finish(reader, fields);
    let has_limits = limits.is_some();
    let limits = match limits {
        Some(node) => settings.limits(reader, node)?,
        None => Vec::new(),
    };
    Some(Extension { field, options, limits, has_limits, shared_store })
}

impl Extension<'_> {
    /// The limits of a descriptor without `rate_limit`.
    pub fn limits_without_rate_limit(self, reader: &mut Reader<'_>) -> Option<Vec<(RuleLimit, LimitSpans)>> {
        if let Some(option) = self.options.first() {
            let name = option.key.text().unwrap_or_default();
            let message = format!("`{name}` needs a `rate_limit`");
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

    /// Whether it sets an option of the limit.
    pub fn sets(&self, name: &str) -> bool {
        self.option(name).is_some()
    }

    fn option(&self, name: &str) -> Option<&Field<'_>> {
        self.options.iter().find(|option| option.key.text() == Some(name))
    }
}

/// The long form of the limit from `rate_limit` and the options, with the position of each part.
pub(super) fn with_options(
    reader: &mut Reader<'_>,
    rate_limit: &RateLimit<'_>,
    limit: &Node,
    unit: Option<&Node>,
    extension: Option<&Extension<'_>>,
) -> Option<Node> {
    let option_of = |name| extension.and_then(|extension| extension.option(name));
    let field = |name: &str, value: Node| (rate_limit::scalar_node(&value, name), value);
    let per = match (unit, option_of("per")) {
        (Some(unit), None) => unit.clone(),
        (None, Some(per)) => per.value.clone(),
        (Some(unit), Some(per)) => {
            let diagnostic =
                Diagnostic::error("contradiction", per.key.span, "`unit` already sets the window");
            reader.push(diagnostic.related(unit.span, "here").hint("leave one of them out"));
            return None;
        }
        (None, None) => {
            let diagnostic =
                Diagnostic::error("missing-field", rate_limit.node.span, "field `unit` is missing");
            reader.push(diagnostic.hint("add for example `unit: minute`"));
            return None;
        }
    };
    let mut fields = vec![field("limit", limit.clone()), field("per", per)];
    match option_of("algorithm") {
        None => fields.push(field("algorithm", rate_limit::scalar_node(rate_limit.node, "fixed_window"))),
        Some(algorithm) if algorithm.value.text() == Some("concurrency") => {
            let message = "a descriptor cannot have a concurrency limit";
            let diagnostic = Diagnostic::error("bad-limit", algorithm.value.span, message);
            reader.push(diagnostic.hint("no request would release what it holds; native rules can have one"));
            return None;
        }
        Some(_) => {}
    }
    match (rate_limit.name_field, option_of("name")) {
        (Some(first), Some(name)) => {
            let diagnostic =
                Diagnostic::error("contradiction", name.key.span, "the limit already has a name");
            reader.push(diagnostic.related(first.value.span, "here").hint("leave one of them out"));
            return None;
        }
        (Some(name), None) => fields.push(field("name", rate_limit::answer_name(reader, name.value))),
        (None, _) => {}
    }
    let options = extension.map(|extension| &*extension.options).unwrap_or_default();
    let further = options.iter().filter(|option| option.key.text() != Some("per"));
    fields.extend(further.map(|option| (option.key.clone(), option.value.clone())));
    Some(Node { span: rate_limit.node.span, kind: NodeKind::Map(fields.into()) })
}
