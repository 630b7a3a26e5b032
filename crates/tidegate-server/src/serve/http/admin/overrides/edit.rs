//! Sets and deletes one override.

use hyper::StatusCode;
use serde_json::json;
use tidegate::Clock as _;
use tidegate::overrides::{OverrideChange, OverrideEditor};

use super::{cache, edit_error_reply, form, is_known, refusal_status, refused};
use crate::json;
use crate::serve::App;
use crate::serve::http::error_reply;
use crate::serve::http::reply::{self, ErrorReply, Reply};
use crate::serve::override_edits::{self, EditContext};

/// Sets the override in the body.
pub(in super::super) async fn set(app: &App, body: &[u8]) -> Result<Reply, ErrorReply> {
    let body =
        json::read_override(body).map_err(|error| Box::new(error_reply::request_error_reply(&error)))?;
    let (cache, rules, now) = (cache(app)?, app.engine.rules(), app.engine.clock().now());
    let (place, editor) = (body.place(), OverrideEditor::new(cache, &rules));
    let change = match body.change(now) {
        Ok(change) => change,
        Err(problem) if is_known(&rules, &place) => return Err(refused(problem)),
        // The editor says what the rules do not have.
        Err(_) => OverrideChange::default(),
    };
    let edited = editor.set(&place, &change, body.if_version, now).await;
    let edited = edited.map_err(|error| edit_error_reply(&error, refusal_status(&rules, &place)))?;
    let context = EditContext { action: "set", author: change.author.as_deref() };
    override_edits::finish(app, context, std::iter::once(&edited));
    Ok(reply::json(&form::edited_json(&edited, edited.after.as_ref(), now)))
}

/// Deletes the override in the body.
pub(in super::super) async fn delete(app: &App, body: &[u8]) -> Result<Reply, ErrorReply> {
    let body = json::read_delete(body).map_err(|error| Box::new(error_reply::request_error_reply(&error)))?;
    let (cache, rules, now) = (cache(app)?, app.engine.rules(), app.engine.clock().now());
    let place = body.place();
    let edited = OverrideEditor::new(cache, &rules).delete(&place, body.if_version, now).await;
    // A place that the rules do not have has no override.
    let edited = edited.map_err(|error| edit_error_reply(&error, StatusCode::NOT_FOUND))?;
    let context = EditContext { action: "delete", author: body.author.as_deref() };
    override_edits::finish(app, context, std::iter::once(&edited));
    let deleted = form::edited_json(&edited, edited.before.as_ref(), now);
    Ok(reply::json(&json!({ "result": "deleted", "deleted": deleted })))
}
