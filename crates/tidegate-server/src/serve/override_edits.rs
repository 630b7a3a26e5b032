//! What follows an edit of an override: this node applies it immediately, and the audit log has a line.

use tidegate::overrides::{EditedOverride, KeyName};
use tidegate::rules::{Access, Override};
use tidegate_core::text::{write_date, write_duration};

use super::App;

/// Who did what, for the audit log.
#[derive(Clone, Copy, Debug)]
pub struct EditContext<'a> {
    /// `set`, `delete`, `ban`, `unban` or `import`.
    pub action: &'static str,
    /// The operator, as far as the request names one.
    pub author: Option<&'a str>,
}

/// Writes edits to the audit log, and applies them on this node.
pub fn finish<'a>(
    app: &App,
    context: EditContext<'_>,
    edits: impl Iterator<Item = &'a EditedOverride> + Clone,
) {
    for edited in edits.clone() {
        log(app, context, edited);
    }
    apply(app, edits.map(|edited| &edited.name));
}

/// Wakes the requests on this node that wait for these keys. The cache has the edits already.
pub fn apply<'a>(app: &App, names: impl Iterator<Item = &'a KeyName> + Clone) {
    if names.clone().any(KeyName::is_wildcard) {
        app.engine.all_overrides_changed();
    } else {
        let exact: Vec<KeyName> = names.cloned().collect();
        app.engine.overrides_changed(&exact);
    }
}

/// Writes a line of the audit log.
pub fn log(app: &App, EditContext { action, author }: EditContext<'_>, edited: &EditedOverride) {
    let KeyName { domain, rule, parts } = &edited.name;
    let values = parts.iter().map(|(name, value)| (&**name, value.to_string()));
    let limit = edited.after.as_ref().or(edited.before.as_ref()).and_then(|one| one.limit_name.as_deref());
    tracing::info!(
        target: "tidegate::audit",
        action,
        author,
        domain = &**domain,
        rule = &**rule,
        limit,
        key = app.denials.key_text(values),
        version = edited.version,
        before = edited.before.as_ref().map(summary),
        after = edited.after.as_ref().map(summary),
        note = edited.after.as_ref().and_then(|after| after.note.as_deref()),
        damaged_before = edited.was_damaged.then_some(true),
        "override changed",
    );
}

/// What an override sets, in one line: `limit 5, per 1s, until 2026-01-01T00:00:00Z`.
pub fn summary(one: &Override) -> String {
    let mut parts = Vec::new();
    match one.access {
        Access::Limited => {}
        Access::Allowed => parts.push("allow".to_owned()),
        Access::Unlimited => parts.push("unlimited".to_owned()),
        Access::Blocked(status) => parts.push(format!("blocked with status {}", status.code())),
    }
    let values = &one.values;
    parts.extend(values.limit.map(|limit| format!("limit {limit}")));
    parts.extend(values.per_ns.map(|per_ns| format!("per {}", write_duration(per_ns))));
    parts.extend(values.burst.map(|burst| format!("burst {burst}")));
    parts.extend(values.sub_windows.map(|number| format!("sub_windows {number}")));
    parts.extend(one.tier.as_deref().map(|tier| format!("tier {tier}")));
    parts.extend(one.expires_at.map(|at| format!("until {}", write_date(at))));
    parts.join(", ")
}
