//! What follows an edit of an override: this node applies it immediately, and the audit log has a line.

use tidegate::overrides::{EditedOverride, KeyName, OverrideCache};
use tidegate::rules::{Access, Override};
use tidegate_core::text::{write_date, write_duration};

use super::App;

/// How many times the changes of the config store are read after an edit of a wildcard at most. The background task reads the
/// rest.
const FEED_CALLS_MAX: usize = 8;

/// Who did what, for the audit log.
#[derive(Clone, Copy, Debug)]
pub struct EditContext<'a> {
    /// `set`, `delete`, `ban`, `unban` or `import`.
    pub action: &'static str,
    /// The operator, as far as the request names one.
    pub author: Option<&'a str>,
}

/// Applies edits on this node, and writes them to the audit log.
pub async fn finish(
    app: &App,
    cache: &OverrideCache,
    context: EditContext<'_>,
    edits: impl Iterator<Item = &EditedOverride> + Clone,
) {
    for edited in edits.clone() {
        log(app, context, edited);
    }
    apply(app, cache, edits.map(|edited| &edited.name)).await;
}

/// Applies edits of these keys on this node.
pub async fn apply(app: &App, cache: &OverrideCache, names: impl Iterator<Item = &KeyName> + Clone) {
    let exact: Vec<KeyName> = names.clone().filter(|name| !name.is_wildcard()).cloned().collect();
    app.engine.overrides_changed(&exact);
    if names.clone().any(KeyName::is_wildcard) {
        follow_changes(app, cache).await;
    }
}

/// Wildcards are in memory, so the node reads its own change.
async fn follow_changes(app: &App, cache: &OverrideCache) {
    for _ in 0..FEED_CALLS_MAX {
        let changes = match cache.follow_changes().await {
            Ok(changes) => changes,
            // The edit is stored. The background task reports the error, and reads the change later.
            Err(_) => break,
        };
        if changes.any {
            app.engine.all_overrides_changed();
        } else {
            app.engine.overrides_changed(&changes.keys);
        }
        if !changes.has_more {
            break;
        }
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
