//! The signals of elastic limits.

use hyper::StatusCode;
use tidegate::engine::SignalLevel;
use tidegate::rules::Level;

use crate::json;
use crate::serve::App;
use crate::serve::http::reply::{ContentType, ErrorReply, Problem, Reply, reply};
use crate::serve::http::{error_reply, json_writer, routes};

/// The prefix of a signal's path.
const PREFIX: &str = "/v1/signals/";

/// All signals that rules use, with their levels.
pub(super) fn list(app: &App) -> Reply {
    let mut out = r#"{"signals":"#.to_owned();
    json_writer::write_list(&mut out, app.engine.signals(), |out, signal| write_signal(out, &signal));
    out.push('}');
    reply(StatusCode::OK, ContentType::Json, out)
}

/// The name of the signal in a path.
pub(super) fn signal_name(path: &str) -> String {
    routes::percent_decode(path.strip_prefix(PREFIX).unwrap_or_default())
}

/// The level of one signal.
pub(super) fn get(app: &App, name: &str) -> Result<Reply, ErrorReply> {
    let signals = app.engine.signals();
    let signal = signals.iter().find(|signal| signal.name == name);
    let message = "no rule uses this signal (hint: /v1/signals lists all signals)";
    signal.map(signal_reply).ok_or_else(|| not_found(message.to_owned()))
}

/// Sets the level of a signal.
pub(super) fn push(app: &App, name: String, body: &[u8]) -> Result<Reply, ErrorReply> {
    let level = json::read_level(body).map_err(|error| Box::new(error_reply::request_error_reply(&error)))?;
    app.engine.push_signal(&name, level).map_err(|error| not_found(error.to_string()))?;
    Ok(signal_reply(&SignalLevel { name, level: Some(level) }))
}

fn signal_reply(signal: &SignalLevel) -> Reply {
    let mut out = String::new();
    write_signal(&mut out, signal);
    reply(StatusCode::OK, ContentType::Json, out)
}

fn write_signal(out: &mut String, signal: &SignalLevel) {
    out.push_str(r#"{"name":"#);
    json_writer::write_text(out, &signal.name);
    out.push_str(r#","level":"#);
    // A level is formatted as a JSON number.
    out.push_str(&signal.level.as_ref().map_or("null".to_owned(), Level::to_string));
    out.push('}');
}

fn not_found(message: String) -> ErrorReply {
    Problem::new(StatusCode::NOT_FOUND, message).into_error_reply()
}
