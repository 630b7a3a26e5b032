//! Rules in the config store: what operators push, look at and take back while the server runs.
//!
//! ```text
//! change.rs   pushes, rollbacks, and the early end of emergency rules
//! history.rs  the revisions, and the files of one
//! diff.rs     what differs between two sets of rules
//! ```

mod change;
mod diff;
mod history;

use hyper::StatusCode;
use hyper::header::{HeaderValue, RETRY_AFTER};
use serde_json::json;
use tidegate::stored_rules::{PushError, RulesStore};
use tidegate_core::text::truncated;

use super::overrides;
use crate::output;
use crate::serve::App;
use crate::serve::http::reply::{ErrorReply, Problem};

pub(super) use change::{end, push, rollback};
pub(super) use history::{files, history};

/// The largest body of a push: its files, with line breaks escaped.
pub(super) const PUSH_BYTES_MAX: usize = 2 * tidegate::stored_rules::BUNDLE_BYTES_MAX;
/// Suggested wait if the config store does not answer, in seconds.
const RETRY_AFTER_SECONDS: &str = "1";
/// Longer reports are cut in the text of an error. The field `report` has them whole.
const REPORT_BYTES_MAX: usize = 16 << 10;

/// The rules in the config store of the server.
fn rules_store(app: &App) -> Result<RulesStore, ErrorReply> {
    overrides::cache(app).map(|cache| RulesStore::new(cache.store().clone()))
}

fn error_reply(error: &PushError) -> ErrorReply {
    let problem = match error {
        PushError::Invalid(report) => {
            let text = error.to_string();
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, truncated(&text, REPORT_BYTES_MAX))
                .with_json("report", &output::parse_json(&report.to_json()))
        }
        PushError::NoRevision(_) => Problem::new(StatusCode::NOT_FOUND, error.to_string()),
        PushError::Refused(_) => Problem::new(StatusCode::BAD_REQUEST, error.to_string()),
        PushError::Conflict(last) => {
            Problem::new(StatusCode::CONFLICT, error.to_string()).with_json("revision", &json!(last))
        }
        _ => Problem::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
            .with_header(RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_SECONDS)),
    };
    problem.into_error_reply()
}
