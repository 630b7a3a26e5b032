//! The revisions, and the files of one.

use hyper::StatusCode;
use serde_json::{Value, json};
use tidegate::Clock as _;
use tidegate::stored_rules::{Revision, RevisionKind};
use tidegate_core::text::write_date;

use super::super::rules::number_parameter;
use super::{error_reply, rules_store};
use crate::serve::App;
use crate::serve::http::connection::HttpRequest;
use crate::serve::http::reply::{self, ErrorReply, Problem, Reply};

/// All revisions that are kept, newest first.
pub(in super::super) async fn history(app: &App) -> Result<Reply, ErrorReply> {
    let now = app.engine.clock().now();
    let history = rules_store(app)?.history().await.map_err(|error| error_reply(&error))?;
    let current = history.current().map(|revision| revision.number);
    let revisions = history.revisions.iter().rev().map(|revision| {
        let is_active = match revision.expires_at() {
            Some(expires_at) => expires_at > now,
            None => Some(revision.number) == current,
        };
        revision_json(revision, is_active)
    });
    Ok(reply::json(&json!({
        "revision": history.last_number(),
        "used_by_this_node": app.stored_rules.is_some(),
        "revisions": Value::from_iter(revisions),
    })))
}

/// The files of a revision: `?revision=`, or those in force.
pub(in super::super) async fn files(app: &App, request: &HttpRequest) -> Result<Reply, ErrorReply> {
    let number = number_parameter(request, "revision", 1..=usize::MAX)?;
    let (store, now) = (rules_store(app)?, app.engine.clock().now());
    let history = store.history().await.map_err(|error| error_reply(&error))?;
    let files = match number {
        None => store.layered(&history, now).await.map(|rules| rules.files(now)),
        Some(number) => match history.get(number as u64) {
            Some(revision) => store.files(revision).await,
            None => {
                let message = format!(
                    "there is no revision {number} (hint: GET /v1/rules/history lists all revisions)"
                );
                return Err(Problem::new(StatusCode::NOT_FOUND, message).into_error_reply());
            }
        },
    };
    let files = files.map_err(|error| error_reply(&error))?;
    let files = files.iter().map(|file| json!({ "name": file.name, "text": file.text }));
    Ok(reply::json(&json!({ "files": Value::from_iter(files) })))
}

fn revision_json(revision: &Revision, is_active: bool) -> Value {
    let (kind, to) = match revision.kind {
        RevisionKind::Push => ("push", None),
        RevisionKind::Rollback { to } => ("rollback", Some(to)),
        RevisionKind::Emergency { .. } => ("emergency", None),
    };
    json!({
        "revision": revision.number,
        "kind": kind,
        "rollback_to": to,
        "active": is_active,
        "at": write_date(revision.at),
        "expires_at": revision.expires_at().map(write_date),
        "author": revision.author,
        "note": revision.note,
    })
}
