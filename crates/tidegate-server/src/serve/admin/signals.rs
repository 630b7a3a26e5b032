//! Signals, which elastic limits move with.

use hyper::StatusCode;
use tidegate::engine::SignalLevel;
use tidegate::rules::Level;

use crate::json;
use crate::serve::App;
use crate::serve::http::reply::{ContentType, Problem, ErrorReply, Reply, reply};
use crate::serve::http::{asking, json as json_writer, routes};

/// The prefix of a signal's path.
const PREFIX: &str = "/v1/signals/";

/// All that rules move with, and where they are.
pub(super) fn list(app: &App) -> Reply {
    let mut out = br#"{"signals":"#.to_vec();
    json_writer::write_list(&mut out, app.engine.signals(), |out, signal| write_signal(out, &signal));
    out.push(b'}');
    reply(StatusCode::OK, ContentType::Json, out)
}

/// The name of the signal that a path is of.
pub(super) fn signal_name(path: &str) -> String {
    routes::percent_decode(path.strip_prefix(PREFIX).unwrap_or_default())
}

/// Where one is.
pub(super) fn get(app: &App, name: &str) -> Result<Reply, ErrorReply> {
    let signals = app.engine.signals();
    let signal = signals.iter().find(|signal| signal.name == name);
    let unknown = || "no rule moves with this signal (hint: /v1/signals has all of them)".to_owned();
    signal.map(signal_reply).ok_or_else(|| not_found(unknown()))
}

/// Where one is to be from now on.
pub(super) fn push(app: &App, name: String, body: &[u8]) -> Result<Reply, ErrorReply> {
    let level = json::read_level(body).map_err(|error| Box::new(asking::request_error_reply(&error)))?;
    app.engine.push_signal(&name, level).map_err(|unknown| not_found(unknown.to_string()))?;
    Ok(signal_reply(&SignalLevel { name, level: Some(level) }))
}

fn signal_reply(signal: &SignalLevel) -> Reply {
    let mut out = Vec::new();
    write_signal(&mut out, signal);
    reply(StatusCode::OK, ContentType::Json, out)
}

fn write_signal(out: &mut Vec<u8>, signal: &SignalLevel) {
    out.extend_from_slice(br#"{"name":"#);
    json_writer::write_text(out, &signal.name);
    out.extend_from_slice(br#","level":"#);
    // A level is written as a number is.
    out.extend_from_slice(signal.level.as_ref().map_or("null".to_owned(), Level::to_string).as_bytes());
    out.push(b'}');
}

fn not_found(message: String) -> ErrorReply {
    Problem::new(StatusCode::NOT_FOUND, message).into_error_reply()
}
