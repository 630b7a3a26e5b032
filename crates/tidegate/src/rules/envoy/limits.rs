//! The limits of a descriptor: `rate_limit`, what happens when it is exceeded, and what the extension adds.

use tidegate_core::rules::{Action, Key, LimitId, RuleLimit};

use super::super::Span;
use super::super::diagnostic::Diagnostic;
use super::super::file::{LimitSpans, Spanned};
use super::super::native::{LIMITS_PER_RULE_MAX, LimitTerms, SharedStoreTerms};
use super::super::reader::{Field, Fields, Reader};
use super::super::yaml::Kind;
use super::extension::{self, Extension};
use super::rate_limit::{self, Rate, RateLimit};
use super::replaces::Named;
use super::{mapping, scalars};

/// What a descriptor says of limits.
#[derive(Default)]
pub(super) struct OfDescriptor {
    /// None: it has no rule. An empty list: it has one, without limits.
    pub limits: Option<Vec<(RuleLimit, LimitSpans)>>,
    pub named: Named,
    pub detailed_metric: bool,
    pub shared_store: SharedStoreTerms,
}

/// Takes the fields of a descriptor that have to do with limits. The key is that of its counters, and it stands so many
/// levels deep.
pub(super) fn read(
    reader: &mut Reader<'_>,
    fields: &mut Fields<'_>,
    key: Key,
    levels: Levels,
) -> OfDescriptor {
    let mode = mode(reader, fields);
    let detailed_metric = fields.value("detailed_metric").and_then(|node| scalars::truth(reader, node));
    let given = |field: &Field<'_>| !matches!(field.value.kind, Kind::Null);
    let rate_limit = fields.take("rate_limit").filter(given);
    let extension = fields.take(mapping::EXTENSION).filter(given);
    let mut terms = LimitTerms::new(key, levels.0, mode.as_ref().map(|mode| mode.value.clone()));
    let extension = extension.map(|field| extension::read(reader, field, &mut terms, mode.as_ref()));
    let extension = extension.flatten();
    let mut read = OfDescriptor {
        detailed_metric: detailed_metric == Some(true),
        shared_store: extension.as_ref().map(|extension| extension.shared_store).unwrap_or_default(),
        ..OfDescriptor::default()
    };
    match rate_limit {
        Some(field) => {
            let Some(rate_limit) = rate_limit::read(reader, field.value) else { return read };
            let limits = limited(reader, &rate_limit, extension, &terms);
            read.named = rate_limit.named;
            read.limits = limits;
        }
        None => read.limits = extension.and_then(|extension| extension.alone(reader)),
    }
    read
}

/// How many levels deep a descriptor stands.
#[derive(Clone, Copy)]
pub(super) struct Levels(pub usize);

/// `shadow_mode` or `quota_mode`: a dry run has nothing to report to anybody.
fn mode(reader: &mut Reader<'_>, fields: &mut Fields<'_>) -> Option<Spanned<Action>> {
    let modes = [("shadow_mode", Action::Shadow), ("quota_mode", Action::Quota)];
    let mut given = modes.into_iter().filter_map(|(name, value)| {
        let field = fields.take(name)?;
        let is_on = scalars::truth(reader, field.value) == Some(true);
        is_on.then_some(Spanned { value, span: field.key.span })
    });
    let first = given.next();
    given.for_each(drop);
    first
}

/// The limits of a descriptor that has a `rate_limit`.
fn limited(
    reader: &mut Reader<'_>,
    rate_limit: &RateLimit<'_>,
    extension: Option<Extension<'_>>,
    terms: &LimitTerms,
) -> Option<Vec<(RuleLimit, LimitSpans)>> {
    let Rate::Limited { limit, per } = &rate_limit.rate else {
        if let Some(extension) = extension {
            let message = "what is unlimited has nothing to extend";
            let found = Diagnostic::error("contradiction", extension.at.key.span, message);
            let found = found.related(rate_limit.at.span, "unlimited here");
            reader.note(found.hint("leave `tidegate` out, or `unlimited: true`"));
        }
        return Some(Vec::new());
    };
    let own = extension::with_options(reader, rate_limit, limit, per.as_ref(), extension.as_ref())?;
    let (mut own, at) = terms.limit(reader, &own)?;
    // A limit that is given a name keeps its counters.
    own.was = own.limit.name().map(|_| LimitId::Place(0));
    let mut limits = vec![(own, at)];
    if let Some(extension) = extension {
        limits.extend(extension.limits);
    }
    fit(reader, &limits, rate_limit.at.span);
    Some(limits)
}

/// A rule has so many limits at most, and no two of one name.
fn fit(reader: &mut Reader<'_>, limits: &[(RuleLimit, LimitSpans)], rate_limit: Span) {
    if limits.len() > LIMITS_PER_RULE_MAX {
        let message = format!("{} limits are too many", limits.len());
        let hint = format!("a descriptor has {LIMITS_PER_RULE_MAX} at most, its `rate_limit` included");
        reader.note(Diagnostic::error("too-many-limits", rate_limit, message).hint(hint));
    }
    let [(own, _), further @ ..] = limits else { return };
    let Some(name) = own.limit.name() else { return };
    if let Some((_, at)) = further.iter().find(|(limit, _)| limit.limit.name() == Some(name)) {
        let found = Diagnostic::error("duplicate-name", at.limit, format!("two limits are named `{name}`"));
        let found = found.related(rate_limit, "first here");
        reader.note(found.hint("names tell limits apart; choose another"));
    }
}
