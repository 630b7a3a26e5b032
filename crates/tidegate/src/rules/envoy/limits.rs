//! Reads the limits of a descriptor: `rate_limit`, what happens over it, and what the extension adds.

use tidegate_core::LimitId;
use tidegate_core::rules::{Action, KeySpec, RuleLimit};

use super::extension::{self, Extension};
use super::rate_limit::{self, RateLimit, RateSpec};
use super::{mapping, scalars};
use crate::rules::diagnostic::Diagnostic;
use crate::rules::file::{LimitNames, LimitSpans, Spanned};
use crate::rules::native::{DescriptorSettings, LIMITS_PER_RULE_MAX, StoreSettings};
use crate::rules::yaml::{Field, Fields, NodeKind, Reader};
use crate::rules::{Counting, Span};

/// What a descriptor contains about limits.
#[derive(Default)]
pub(super) struct DescriptorLimits {
    /// None: it has no rule. An empty list: it has one, without limits.
    pub limits: Option<Vec<(RuleLimit, LimitSpans)>>,
    pub names: LimitNames,
    pub detailed_metric: bool,
    pub shared_store: StoreSettings,
}

/// Takes the fields of a descriptor that concern limits. `key` is the key of its counters.
pub(super) fn read(
    reader: &mut Reader<'_>,
    fields: &mut Fields<'_>,
    key: KeySpec,
    levels: Depth,
    counting: Counting,
) -> DescriptorLimits {
    let mode = read_mode(reader, fields);
    let detailed_metric = fields.value("detailed_metric").and_then(|node| scalars::boolean(reader, node));
    let is_given = |field: &Field<'_>| !matches!(field.value.kind, NodeKind::Null);
    let rate_limit = fields.take("rate_limit").filter(is_given);
    let extension = fields.take(mapping::EXTENSION).filter(is_given);
    let mut settings = DescriptorSettings::new(key, levels.0, mode.as_ref().map(|mode| mode.value.clone()));
    let extension = extension.map(|field| extension::read(reader, field, &mut settings, mode.as_ref()));
    let extension = extension.flatten();
    let mut descriptor = DescriptorLimits {
        detailed_metric: detailed_metric == Some(true),
        shared_store: extension.as_ref().map(|extension| extension.shared_store).unwrap_or_default(),
        ..DescriptorLimits::default()
    };
    match rate_limit {
        Some(field) => {
            let Some(rate_limit) = rate_limit::read(reader, field.value) else { return descriptor };
            let limits = limits_with_rate_limit(reader, &rate_limit, extension, &settings, counting);
            descriptor.names = rate_limit.names;
            descriptor.limits = limits;
        }
        None => {
            descriptor.limits = extension.and_then(|extension| extension.limits_without_rate_limit(reader));
        }
    }
    check_mode(reader, &descriptor, counting);
    descriptor
}

/// Reports a mode that the limits or the counting do not allow.
fn check_mode(reader: &mut Reader<'_>, descriptor: &DescriptorLimits, counting: Counting) {
    let mode = &descriptor.shared_store.mode;
    match mode.leased_or_eventual_span() {
        Some(span) if counting != Counting::None => {
            let message = format!("`mode: {}` needs the setting `counting: none`", mode.mode.as_str());
            let hint = "the limits of these files count denied requests too, as in envoyproxy/ratelimit, and only \
                        the store can; set `--counting none`, or write `mode: strict`";
            reader.push(Diagnostic::error("bad-mode", span, message).hint(hint));
        }
        _ => {
            let limits = descriptor.limits.iter().flatten().map(|(limit, at)| (limit, at));
            mode.check_limits(reader, limits);
        }
    }
}

/// Whether a limit with this action may count denied requests. The others let requests pass later or beyond the limit.
fn may_count_denied(action: &Action) -> bool {
    matches!(action, Action::Reject | Action::Shadow | Action::ShadowBan | Action::Quota)
}

/// The depth of a descriptor.
#[derive(Clone, Copy)]
pub(super) struct Depth(pub usize);

/// `shadow_mode` or `quota_mode`. Shadow mode has precedence: a dry run reports nothing to clients.
fn read_mode(reader: &mut Reader<'_>, fields: &mut Fields<'_>) -> Option<Spanned<Action>> {
    let modes = [("shadow_mode", Action::Shadow), ("quota_mode", Action::Quota)];
    let mut active = modes.into_iter().filter_map(|(name, value)| {
        let field = fields.take(name)?;
        let is_on = scalars::boolean(reader, field.value) == Some(true);
        is_on.then_some(Spanned { value, span: field.key.span })
    });
    let first = active.next();
    // The others are read too, so that their errors are reported.
    active.for_each(drop);
    first
}

/// The limits of a descriptor with `rate_limit`.
fn limits_with_rate_limit(
    reader: &mut Reader<'_>,
    rate_limit: &RateLimit<'_>,
    extension: Option<Extension<'_>>,
    settings: &DescriptorSettings,
    counting: Counting,
) -> Option<Vec<(RuleLimit, LimitSpans)>> {
    let RateSpec::Limited { limit, per } = &rate_limit.rate else {
        if let Some(extension) = extension {
            let message = "an unlimited descriptor has nothing to extend";
            let diagnostic = Diagnostic::error("contradiction", extension.field.key.span, message);
            let diagnostic = diagnostic.related(rate_limit.node.span, "unlimited here");
            reader.push(diagnostic.hint("leave `tidegate` out, or `unlimited: true`"));
        }
        return Some(Vec::new());
    };
    let node = extension::with_options(reader, rate_limit, limit, per.as_ref(), extension.as_ref())?;
    let (mut limit, spans) = settings.limit(reader, &node)?;
    if !extension.as_ref().is_some_and(|extension| extension.sets("count_denied"))
        && may_count_denied(&limit.action)
    {
        limit.limit = limit.limit.counting_denied(counting.count_denied());
    }
    // A limit that gets a name later keeps its counters.
    limit.was = limit.limit.name().map(|_| LimitId::Position(0));
    let mut limits = vec![(limit, spans)];
    if let Some(extension) = extension {
        limits.extend(extension.limits);
    }
    check_limits(reader, &limits, rate_limit.node.span);
    Some(limits)
}

/// Checks the number of limits and that their names are unique.
fn check_limits(reader: &mut Reader<'_>, limits: &[(RuleLimit, LimitSpans)], rate_limit: Span) {
    if limits.len() > LIMITS_PER_RULE_MAX {
        let message = format!("{} limits are too many", limits.len());
        let hint = format!("a descriptor can have at most {LIMITS_PER_RULE_MAX}, including its `rate_limit`");
        reader.push(Diagnostic::error("too-many-limits", rate_limit, message).hint(hint));
    }
    let [(limit, _), further @ ..] = limits else { return };
    let Some(name) = limit.limit.name() else { return };
    if let Some((_, at)) = further.iter().find(|(limit, _)| limit.limit.name() == Some(name)) {
        let diagnostic =
            Diagnostic::error("duplicate-name", at.limit, format!("two limits are named `{name}`"));
        let diagnostic = diagnostic.related(rate_limit, "first here");
        reader.push(diagnostic.hint("choose another name"));
    }
}
