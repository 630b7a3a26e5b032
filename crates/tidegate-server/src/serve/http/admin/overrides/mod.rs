//! Overrides of single keys: what operators set, list and import while the server runs.
//!
//! ```text
//! edit.rs     sets and deletes one override
//! ban.rs      bans and unbans a key in all rules that have it
//! list.rs     one override, or pages of all
//! import.rs   many overrides as JSON lines
//! form.rs     an override as JSON
//! ```

mod ban;
mod edit;
mod form;
mod import;
mod list;

use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{HeaderValue, RETRY_AFTER};
use tidegate::overrides::{EditError, OverrideCache, OverridePlace};
use tidegate::rules::Ruleset;

use crate::serve::App;
use crate::serve::http::reply::{ErrorReply, Problem};

pub(super) use ban::{ban, unban};
pub(super) use edit::{delete, set};
pub(super) use import::import;
pub(super) use list::{export, get};

/// Suggested wait if the config store does not answer, in seconds.
const RETRY_AFTER_SECONDS: &str = "1";

/// The overrides of the server.
pub(super) fn cache(app: &App) -> Result<&Arc<OverrideCache>, ErrorReply> {
    app.engine.overrides().ok_or_else(|| {
        let message = "this server has no overrides (hint: start it with `tidegate serve`)";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, message).into_error_reply()
    })
}

/// Whether the rules have the domain and the rule of a place.
fn is_known(rules: &Ruleset, place: &OverridePlace) -> bool {
    let is_named = |rule: &tidegate::rules::Rule| {
        *rule.name == *place.rule || rule.was.iter().any(|was| **was == *place.rule)
    };
    rules.domain(&place.domain).is_some_and(|domain| domain.rules().iter().any(is_named))
}

/// The reply to an edit that was not done. `unknown` is the status if it names something that the rules do not have.
fn edit_error_reply(error: &EditError, unknown: StatusCode) -> ErrorReply {
    let problem = match error {
        EditError::Refused(_) => Problem::new(unknown, error.to_string()),
        EditError::NotFound => {
            let message = format!("{error} (hint: GET /v1/overrides lists all overrides)");
            Problem::new(StatusCode::NOT_FOUND, message)
        }
        EditError::Conflict(current) => Problem::new(StatusCode::CONFLICT, error.to_string())
            .with_json("version", &serde_json::json!(current)),
        _ => Problem::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
            .with_header(RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_SECONDS)),
    };
    problem.into_error_reply()
}

/// The reply to a change that cannot work.
fn refused(message: impl Into<String>) -> ErrorReply {
    Problem::new(StatusCode::BAD_REQUEST, message).into_error_reply()
}

/// The status of an edit that the editor refuses.
fn refusal_status(rules: &Ruleset, place: &OverridePlace) -> StatusCode {
    if is_known(rules, place) { StatusCode::BAD_REQUEST } else { StatusCode::NOT_FOUND }
}
