//! The limits of a descriptor: `rate_limit`, what happens when it is exceeded, and what the extension adds.

use tidegate_core::rules::{Action, KeySpec, LimitId, RuleLimit};

use super::super::Span;
use super::super::diagnostic::Diagnostic;
use super::super::file::{LimitSpans, Spanned};
use super::super::native::{LIMITS_PER_RULE_MAX, DescriptorSettings, StoreSettings};
use super::super::reader::{Field, Fields, Reader};
use super::super::yaml::NodeKind;
use super::extension::{self, Extension};
use super::rate_limit::{self, RateSpec, RateLimit};
use super::replaces::LimitNames;
use super::{mapping, scalars};

/// What a descriptor says of limits.
#[derive(Default)]
pub(super) struct DescriptorLimits {
    /// None: it has no rule. An empty list: it has one, without limits.
    pub limits: Option<Vec<(RuleLimit, LimitSpans)>>,
    pub names: LimitNames,
    pub detailed_metric: bool,
    pub shared_store: StoreSettings,
}

/// Takes the fields of a descriptor that have to do with limits. The key is that of its counters, and it stands so many
/// levels deep.
pub(super) fn read(
    reader: &mut Reader<'_>,
    fields: &mut Fields<'_>,
    key: KeySpec,
    levels: Depth,
) -> DescriptorLimits {
    let mode = read_mode(reader, fields);
    let detailed_metric = fields.value("detailed_metric").and_then(|node| scalars::boolean(reader, node));
    let given = |field: &Field<'_>| !matches!(field.value.kind, NodeKind::Null);
    let rate_limit = fields.take("rate_limit").filter(given);
    let extension = fields.take(mapping::EXTENSION).filter(given);
    let mut terms = DescriptorSettings::new(key, levels.0, mode.as_ref().map(|mode| mode.value.clone()));
    let extension = extension.map(|field| extension::read(reader, field, &mut terms, mode.as_ref()));
    let extension = extension.flatten();
    let mut read = DescriptorLimits {
        detailed_metric: detailed_metric == Some(true),
        shared_store: extension.as_ref().map(|extension| extension.shared_store).unwrap_or_default(),
        ..DescriptorLimits::default()
    };
    match rate_limit {
        Some(field) => {
            let Some(rate_limit) = rate_limit::read(reader, field.value) else { return read };
            let limits = limits_with_rate_limit(reader, &rate_limit, extension, &terms);
            read.names = rate_limit.names;
            read.limits = limits;
        }
        None => read.limits = extension.and_then(|extension| extension.limits_without_rate_limit(reader)),
    }
    read
}

/// How many levels deep a descriptor stands.
#[derive(Clone, Copy)]
pub(super) struct Depth(pub usize);

/// `shadow_mode` or `quota_mode`: a dry run has nothing to report to anybody.
fn read_mode(reader: &mut Reader<'_>, fields: &mut Fields<'_>) -> Option<Spanned<Action>> {
    let modes = [("shadow_mode", Action::Shadow), ("quota_mode", Action::Quota)];
    let mut given = modes.into_iter().filter_map(|(name, value)| {
        let field = fields.take(name)?;
        let is_on = scalars::boolean(reader, field.value) == Some(true);
        is_on.then_some(Spanned { value, span: field.key.span })
    });
    let first = given.next();
    given.for_each(drop);
    first
}

/// The limits of a descriptor that has a `rate_limit`.
fn limits_with_rate_limit(
    reader: &mut Reader<'_>,
    rate_limit: &RateLimit<'_>,
    extension: Option<Extension<'_>>,
    terms: &DescriptorSettings,
) -> Option<Vec<(RuleLimit, LimitSpans)>> {
    let RateSpec::Limited { limit, per } = &rate_limit.rate else {
        if let Some(extension) = extension {
            let message = "what is unlimited has nothing to extend";
            let found = Diagnostic::error("contradiction", extension.field.key.span, message);
            let found = found.related(rate_limit.node.span, "unlimited here");
            reader.push(found.hint("leave `tidegate` out, or `unlimited: true`"));
        }
        return Some(Vec::new());
    };
    let own = extension::with_options(reader, rate_limit, limit, per.as_ref(), extension.as_ref())?;
    let (mut own, at) = terms.limit(reader, &own)?;
    // A limit that is given a name keeps its counters.
    own.was = own.limit.name().map(|_| LimitId::Position(0));
    let mut limits = vec![(own, at)];
    if let Some(extension) = extension {
        limits.extend(extension.limits);
    }
    check_limits(reader, &limits, rate_limit.node.span);
    Some(limits)
}

/// A rule has so many limits at most, and no two of one name.
fn check_limits(reader: &mut Reader<'_>, limits: &[(RuleLimit, LimitSpans)], rate_limit: Span) {
    if limits.len() > LIMITS_PER_RULE_MAX {
        let message = format!("{} limits are too many", limits.len());
        let hint = format!("a descriptor has {LIMITS_PER_RULE_MAX} at most, its `rate_limit` included");
        reader.push(Diagnostic::error("too-many-limits", rate_limit, message).hint(hint));
    }
    let [(own, _), further @ ..] = limits else { return };
    let Some(name) = own.limit.name() else { return };
    if let Some((_, at)) = further.iter().find(|(limit, _)| limit.limit.name() == Some(name)) {
        let found = Diagnostic::error("duplicate-name", at.limit, format!("two limits are named `{name}`"));
        let found = found.related(rate_limit, "first here");
        reader.push(found.hint("names tell limits apart; choose another"));
    }
}
