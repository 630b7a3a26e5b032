//! Edits of overrides and stored rules: each runs to its end, also if the client goes away.
//!
//! What follows the write of an edit must not be lost: the line of the audit log, and that this node applies it at once. So an
//! edit is a task of its own. Its connection only waits for the reply, and the server waits for edits when it drains.

use std::sync::Arc;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{HeaderValue, RETRY_AFTER};

use super::{overrides, stored_rules};
use crate::serve::App;
use crate::serve::http::reply::{ErrorReply, Problem, Reply};

/// The most edits in progress. Clients that go away leave theirs behind, so the bound on connections does not bound edits.
const EDITS_MAX: usize = 1_024;
/// Suggested wait if there are more, in seconds.
const RETRY_AFTER_SECONDS: &str = "1";

/// What a client may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edit {
    SetOverride,
    DeleteOverride,
    ImportOverrides,
    Ban,
    Unban,
    PushRules,
    RollBackRules,
    EndRules,
}

impl Edit {
    /// Makes the edit that the body describes. It goes on if this future is dropped.
    pub async fn run(self, app: &Arc<App>, body: Bytes) -> Result<Reply, ErrorReply> {
        if app.edits.len() >= EDITS_MAX {
            let message = "too many changes are in progress (hint: try again)";
            let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, message)
                .with_header(RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_SECONDS));
            return Err(problem.into_error_reply());
        }
        let task_app = Arc::clone(app);
        let task = app.edits.spawn(async move { self.make(&task_app, &body).await });
        task.await.unwrap_or_else(|_| {
            let message = "the change stopped half-way, which is a bug in Tidegate, please report it (hint: look at the log)";
            Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, message).into_error_reply())
        })
    }

    async fn make(self, app: &App, body: &[u8]) -> Result<Reply, ErrorReply> {
        match self {
            Self::SetOverride => overrides::set(app, body).await,
            Self::DeleteOverride => overrides::delete(app, body).await,
            Self::ImportOverrides => overrides::import(app, body).await,
            Self::Ban => overrides::ban(app, body).await,
            Self::Unban => overrides::unban(app, body).await,
            Self::PushRules => stored_rules::push(app, body).await,
            Self::RollBackRules => stored_rules::rollback(app, body).await,
            Self::EndRules => stored_rules::end(app, body).await,
        }
    }
}
