//! Bans a key in all rules that have it, and lifts bans.

use hyper::StatusCode;
use serde_json::json;
use tidegate::Clock as _;
use tidegate::overrides::{EditError, EditedOverride, OverrideEditor};

use super::{cache, edit_error_reply, form, refused};
use crate::json;
use crate::serve::App;
use crate::serve::http::error_reply;
use crate::serve::http::reply::{self, ErrorReply, Problem, Reply};
use crate::serve::override_edits::{self, EditContext};

/// Blocks the key in the body.
pub(in super::super) async fn ban(app: &App, body: &[u8]) -> Result<Reply, ErrorReply> {
    let body = json::read_ban(body).map_err(|error| Box::new(error_reply::request_error_reply(&error)))?;
    let (cache, rules, now) = (cache(app)?, app.engine.rules(), app.engine.clock().now());
    let editor = OverrideEditor::new(cache, &rules);
    let places = editor.places_of_key(body.domain.as_deref(), body.rule.as_deref(), &body.key());
    let places = places.map_err(|error| edit_error_reply(&error, StatusCode::NOT_FOUND))?;
    let change = body.change(now).map_err(refused)?;
    let mut edits: Vec<EditedOverride> = Vec::new();
    let mut failure = None;
    for place in &places {
        match editor.set(place, &change, None, now).await {
            Ok(edited) => edits.push(edited),
            Err(error) => {
                failure = Some(edit_error_reply(&error, StatusCode::BAD_REQUEST));
                break;
            }
        }
    }
    // Those that were done apply, even if a later one failed.
    let context = EditContext { action: "ban", author: body.author.as_deref() };
    override_edits::finish(app, context, edits.iter());
    if let Some(failure) = failure {
        return Err(failure);
    }
    let banned = edits.iter().filter_map(|edited| {
        let after = edited.after.as_ref()?;
        Some(form::override_json(&edited.name, edited.version, after))
    });
    Ok(reply::json(&json!({ "result": "banned", "banned": banned.collect::<Vec<_>>() })))
}

/// Removes the blocks of the key in the body.
pub(in super::super) async fn unban(app: &App, body: &[u8]) -> Result<Reply, ErrorReply> {
    let body = json::read_unban(body).map_err(|error| Box::new(error_reply::request_error_reply(&error)))?;
    let (cache, rules) = (cache(app)?, app.engine.rules());
    let editor = OverrideEditor::new(cache, &rules);
    let places = editor.places_of_key(body.domain.as_deref(), body.rule.as_deref(), &body.key());
    let places = places.map_err(|error| edit_error_reply(&error, StatusCode::NOT_FOUND))?;
    let mut edits: Vec<EditedOverride> = Vec::new();
    let mut failure = None;
    for place in &places {
        match editor.unblock(place).await {
            Ok(edited) => edits.push(edited),
            Err(EditError::NotFound) => {}
            Err(error) => {
                failure = Some(edit_error_reply(&error, StatusCode::BAD_REQUEST));
                break;
            }
        }
    }
    let context = EditContext { action: "unban", author: body.author.as_deref() };
    override_edits::finish(app, context, edits.iter());
    if let Some(failure) = failure {
        return Err(failure);
    }
    if edits.is_empty() {
        let message = "the key is not banned in any of these rules (hint: a wildcard may block it; POST /v1/explain on the \
                       HTTP listener names the override)";
        return Err(Problem::new(StatusCode::NOT_FOUND, message).into_error_reply());
    }
    let unbanned = edits.iter().map(|edited| {
        let before = edited.before.clone().unwrap_or_default();
        form::override_json(&edited.name, edited.version, &before)
    });
    Ok(reply::json(&json!({ "result": "unbanned", "unbanned": unbanned.collect::<Vec<_>>() })))
}
