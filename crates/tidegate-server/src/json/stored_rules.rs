//! Reads changes of the rules in the config store.
//!
//! ```text
//! {"files": [{"name": "api.yaml", "text": "domain: api\n..."}], "note": "#4711", "if_revision": 6}
//! {"to": 5}
//! {"revision": 7}
//! ```

use serde::Deserialize;
use tidegate::Timestamp;
use tidegate::rules::RulesText;
use tidegate::stored_rules::{EditContext, RulesEdit};

use super::fields::optional_whole_number;
use super::overrides::after;
use super::{ObjectSeed, RequestError, read_with};

/// Files to push.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PushBody {
    files: Vec<FileBody>,
    /// For emergency rules.
    expires_in: Option<String>,
    author: Option<String>,
    note: Option<String>,
    #[serde(default, deserialize_with = "optional_whole_number")]
    if_revision: Option<u64>,
    #[serde(default)]
    dry_run: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileBody {
    name: String,
    text: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RollbackBody {
    #[serde(default, deserialize_with = "optional_whole_number")]
    to: Option<u64>,
    author: Option<String>,
    note: Option<String>,
    #[serde(default, deserialize_with = "optional_whole_number")]
    if_revision: Option<u64>,
    #[serde(default)]
    dry_run: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EndBody {
    #[serde(default, deserialize_with = "optional_whole_number")]
    revision: Option<u64>,
    author: Option<String>,
    #[serde(default)]
    dry_run: bool,
}

/// A change of the rules.
#[derive(Clone, Debug)]
pub struct RulesChange {
    /// What to do.
    pub edit: RulesEdit,
    /// The operator, and the condition of the change.
    pub context: EditContext,
    /// Only show what it would change.
    pub dry_run: bool,
}

/// Reads a push.
pub fn read_push(json: &[u8], now: Timestamp) -> Result<RulesChange, RequestError> {
    let body: PushBody = read_with(json, ObjectSeed::new("a push (hint: an object with files)"))?;
    let files =
        body.files.into_iter().map(|file| RulesText { name: file.name.into(), text: file.text.into() });
    let files = files.collect();
    let edit = match body.expires_in {
        None => RulesEdit::Push(files),
        Some(expires_in) => {
            let expires_at = after(now, &expires_in).map_err(RequestError::without_position)?;
            RulesEdit::Emergency { files, expires_at }
        }
    };
    let context = context(body.author, body.note, body.if_revision);
    Ok(RulesChange { edit, context, dry_run: body.dry_run })
}

/// Reads a rollback.
pub fn read_rollback(json: &[u8]) -> Result<RulesChange, RequestError> {
    let body: RollbackBody = read_with(json, ObjectSeed::new("a rollback (hint: an object, may be empty)"))?;
    let context = context(body.author, body.note, body.if_revision);
    Ok(RulesChange { edit: RulesEdit::Rollback { to: body.to }, context, dry_run: body.dry_run })
}

/// Reads which emergency rules to end.
pub fn read_end(json: &[u8]) -> Result<RulesChange, RequestError> {
    let body: EndBody =
        read_with(json, ObjectSeed::new("a revision to end (hint: an object with revision)"))?;
    let Some(revision) = body.revision else {
        let message = "`revision` is missing (hint: GET /v1/rules/history lists all revisions)";
        return Err(RequestError::without_position(message.to_owned()));
    };
    let context = context(body.author, None, None);
    Ok(RulesChange { edit: RulesEdit::End { revision }, context, dry_run: body.dry_run })
}

fn context(author: Option<String>, note: Option<String>, if_revision: Option<u64>) -> EditContext {
    EditContext { author: author.map(Into::into), note: note.map(Into::into), if_revision }
}
