//! Imports overrides as JSON lines. Lines that cannot work are reported with their numbers, and the others are set.

use hyper::StatusCode;
use serde_json::{Value, json};
use tidegate::Clock as _;
use tidegate::overrides::{BatchEdit, EditError, EditedOverride, OverrideEditor};

use super::{cache, edit_error_reply, refused};
use crate::json;
use crate::serve::App;
use crate::serve::http::reply::{self, ErrorReply, Reply};
use crate::serve::override_edits::{self, EditContext};
use crate::text;

/// Maximum number of lines of one call.
pub(super) const LINES_MAX: usize = 5_000;
/// Maximum characters of the error of a line. It may quote the line.
const ERROR_CHARS_MAX: usize = 400;

/// Sets the overrides in the lines of the body.
pub(in super::super) async fn import(app: &App, body: &[u8]) -> Result<Reply, ErrorReply> {
    let (cache, rules, now) = (cache(app)?, app.engine.rules(), app.engine.clock().now());
    let lines: Vec<&[u8]> = body.split(|byte| *byte == b'\n').collect();
    let is_blank = |line: &&[u8]| line.trim_ascii().is_empty();
    let line_count = lines.len() - usize::from(lines.last().is_some_and(is_blank));
    if line_count > LINES_MAX {
        return Err(refused(format!(
            "{line_count} lines are too many for one call (hint: send at most {LINES_MAX}, or use `tidegate override import`)"
        )));
    }
    let (mut numbers, mut edits, mut bad_lines) = (Vec::new(), Vec::<BatchEdit>::new(), Vec::new());
    for (number, line) in (1..).zip(&lines).filter(|(_, line)| !is_blank(line)) {
        let read = json::read_override(line).map_err(|error| error.message).and_then(|body| {
            if body.if_version.is_some() {
                return Err("an import takes no `if_version` (hint: remove it)".to_owned());
            }
            Ok((body.place(), body.change(now)?))
        });
        match read {
            Ok(edit) => {
                numbers.push(number);
                edits.push(edit);
            }
            Err(problem) => bad_lines.push((number, problem)),
        }
    }
    let results = OverrideEditor::new(cache, &rules).set_all(&edits, now).await;
    let mut done: Vec<EditedOverride> = Vec::with_capacity(results.len());
    let mut failure = None;
    for (number, result) in numbers.into_iter().zip(results) {
        match result {
            Ok(edited) => done.push(edited),
            Err(error @ EditError::Store(_)) => failure = Some(error),
            Err(error) => bad_lines.push((number, error.to_string())),
        }
    }
    for edited in &done {
        let author = edited.after.as_ref().and_then(|after| after.author.as_deref());
        override_edits::log(app, EditContext { action: "import", author }, edited);
    }
    override_edits::apply(app, done.iter().map(|edited| &edited.name));
    // Sets can be repeated, so the client sends the same lines again.
    if let Some(error) = failure {
        return Err(edit_error_reply(&error, StatusCode::BAD_REQUEST));
    }
    bad_lines.sort_by_key(|(number, _)| *number);
    let refused: Vec<Value> = bad_lines.iter().map(|(number, problem)| bad_line(*number, problem)).collect();
    Ok(reply::json(&json!({ "written": done.len(), "refused": refused })))
}

fn bad_line(number: usize, problem: &str) -> Value {
    let (problem, hint) = text::split_hint(problem);
    let problem = text::printable(problem.as_bytes(), ERROR_CHARS_MAX);
    json!({ "line": number, "error": problem, "hint": hint })
}
