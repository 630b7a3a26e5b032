//! Signals, which elastic limits move with.

use hyper::StatusCode;
use tidegate::engine::SignalLevel;
use tidegate::rules::Level;

use crate::request_json;
use crate::serve::App;
use crate::serve::http::reply::{Kind, Problem, Refused, Reply, reply};
use crate::serve::http::{asking, json, routes};

/// The prefix of a signal's path.
const PREFIX: &str = "/v1/signals/";

/// All that rules move with, and where they are.
pub(super) fn all(app: &App) -> Reply {
    let mut out = br#"{"signals":"#.to_vec();
    json::list(&mut out, app.engine.signals(), |out, signal| write(out, &signal));
    out.push(b'}');
    reply(StatusCode::OK, Kind::Json, out)
}

/// The name of the signal that a path is of.
pub(super) fn name_in(path: &str) -> String {
    routes::decoded(path.strip_prefix(PREFIX).unwrap_or_default())
}

/// Where one is.
pub(super) fn one(app: &App, name: &str) -> Result<Reply, Refused> {
    let signals = app.engine.signals();
    let signal = signals.iter().find(|signal| signal.name == name);
    let unknown = || "no rule moves with this signal (hint: /v1/signals has all of them)".to_owned();
    signal.map(of).ok_or_else(|| not_found(unknown()))
}

/// Where one is to be from now on.
pub(super) fn push(app: &App, name: String, body: &[u8]) -> Result<Reply, Refused> {
    let level = request_json::read_level(body).map_err(|error| Box::new(asking::of_request(&error)))?;
    app.engine.push_signal(&name, level).map_err(|unknown| not_found(unknown.to_string()))?;
    Ok(of(&SignalLevel { name, level: Some(level) }))
}

fn of(signal: &SignalLevel) -> Reply {
    let mut out = Vec::new();
    write(&mut out, signal);
    reply(StatusCode::OK, Kind::Json, out)
}

fn write(out: &mut Vec<u8>, signal: &SignalLevel) {
    out.extend_from_slice(br#"{"name":"#);
    json::text(out, &signal.name);
    out.extend_from_slice(br#","level":"#);
    // A level is written as a number is.
    out.extend_from_slice(signal.level.as_ref().map_or("null".to_owned(), Level::to_string).as_bytes());
    out.push(b'}');
}

fn not_found(message: String) -> Refused {
    Problem::new(StatusCode::NOT_FOUND, message).refused()
}
