//! Pushes, rollbacks, and the early end of emergency rules.

use serde_json::{Value, json};
use tidegate::Clock as _;
use tidegate::rules::{self, LoadedRules, Report, RulesText, Ruleset};
use tidegate::stored_rules::{EditContext, RevisionKind, RulesEdit, RulesHistory};

use super::{diff, error_reply, rules_store};
use crate::json::{self, RequestError, RulesChange};
use crate::output;
use crate::serve::App;
use crate::serve::http::error_reply::request_error_reply;
use crate::serve::http::reply::{self, ErrorReply, Reply};

/// Pushes the files in the body.
pub(in super::super) async fn push(app: &App, body: &[u8]) -> Result<Reply, ErrorReply> {
    change(app, json::read_push(body, app.engine.clock().now())).await
}

/// Goes back to an earlier revision.
pub(in super::super) async fn rollback(app: &App, body: &[u8]) -> Result<Reply, ErrorReply> {
    change(app, json::read_rollback(body)).await
}

/// Ends emergency rules.
pub(in super::super) async fn end(app: &App, body: &[u8]) -> Result<Reply, ErrorReply> {
    change(app, json::read_end(body)).await
}

async fn change(app: &App, change: Result<RulesChange, RequestError>) -> Result<Reply, ErrorReply> {
    let RulesChange { edit, context, dry_run } =
        change.map_err(|error| Box::new(request_error_reply(&error)))?;
    let (store, now) = (rules_store(app)?, app.engine.clock().now());
    // The files may have 16 MiB. An edit is a task of its own, so only this task waits for the check.
    let check = |files: &[RulesText]| tokio::task::block_in_place(|| check(app, files));
    let edited = match dry_run {
        true => store.dry_run(&edit, &context, now, check).await,
        false => store.edit(&edit, &context, now, check).await,
    };
    let edited = edited.map_err(|error| error_reply(&error))?;
    let Checked { report, changes } = edited.checked;
    let revision = revision_of(&edit, &edited.history);
    if !dry_run {
        log(&edit, &context, &edited.history, &changes);
        apply(app).await;
    }
    Ok(reply::json(&json!({
        "result": if dry_run { "checked" } else { "done" },
        "revision": if dry_run { Value::Null } else { revision.into() },
        "used_by_this_node": app.stored_rules.is_some(),
        "changes": changes.listed,
        "changes_in_all": changes.in_all,
        "report": report.as_ref().map(|report| output::parse_json(&report.to_json())),
        "report_text": report.map(|report| report.to_string()),
    })))
}

/// The rules that would be in force.
struct Checked {
    /// Warnings, if there are any.
    report: Option<Report>,
    changes: diff::Changes,
}

/// Checks files as `tidegate check` does, and compares them with the active rules.
fn check(app: &App, files: &[RulesText]) -> Result<Checked, Report> {
    let LoadedRules { domains, report, .. } = rules::parse_all(files, app.load_options)?;
    let changes = diff::changes(&app.engine.rules(), &Ruleset::compile(domains)?);
    Ok(Checked { report: (report.warnings() > 0).then_some(report), changes })
}

/// Makes the change active on this node. Other nodes see it within seconds.
async fn apply(app: &App) {
    if let Some(stored) = &app.stored_rules {
        // If this fails, the task that follows the rules tries again.
        let _ = stored.refresh(app.status.now()).await;
        let _ = app.reloads.reload().await;
    }
}

/// The revision that a change has made, or ended.
fn revision_of(edit: &RulesEdit, history: &RulesHistory) -> u64 {
    match edit {
        RulesEdit::End { revision } => *revision,
        RulesEdit::Push(_) | RulesEdit::Emergency { .. } | RulesEdit::Rollback { .. } => {
            history.last_number()
        }
    }
}

/// The revision whose rules were active before a change, without emergency rules.
fn revision_before(edit: &RulesEdit, history: &RulesHistory) -> Option<u64> {
    let replaced = match edit {
        RulesEdit::Push(_) | RulesEdit::Rollback { .. } => 1,
        RulesEdit::Emergency { .. } | RulesEdit::End { .. } => 0,
    };
    let rules = history.revisions.iter().rev().filter(|revision| !revision.is_emergency());
    rules.map(|revision| revision.number).nth(replaced)
}

/// Writes a line of the audit log.
fn log(edit: &RulesEdit, context: &EditContext, history: &RulesHistory, changes: &diff::Changes) {
    let action = match edit {
        RulesEdit::Push(_) => "push rules",
        RulesEdit::Emergency { .. } => "push emergency rules",
        RulesEdit::Rollback { .. } => "roll back rules",
        RulesEdit::End { .. } => "end emergency rules",
    };
    let rolled_back_to = match (edit, history.current().map(|revision| revision.kind)) {
        (RulesEdit::Rollback { .. }, Some(RevisionKind::Rollback { to })) => Some(to),
        _ => None,
    };
    tracing::info!(
        target: "tidegate::audit",
        action,
        author = context.author.as_deref(),
        note = context.note.as_deref(),
        revision = revision_of(edit, history),
        revision_before = revision_before(edit, history),
        rolled_back_to,
        changes = changes.in_all,
        "rules changed"
    );
}
