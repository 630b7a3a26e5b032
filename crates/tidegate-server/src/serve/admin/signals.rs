//! Signals, which elastic limits move with.

use hyper::{Method, StatusCode};
use tidegate::SignalLevel;
use tidegate::rules::Level;

use crate::request_json;
use crate::serve::App;
use crate::serve::http::connection::Asked;
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

/// Where one is, or is to be from now on.
pub(super) fn one(app: &App, asked: &Asked, body: &[u8]) -> Result<Reply, Refused> {
    let name = routes::decoded(asked.uri().path().strip_prefix(PREFIX).unwrap_or_default());
    if asked.method() == Method::PUT {
        let level = request_json::read_level(body).map_err(|error| Box::new(asking::of_request(&error)))?;
        app.engine.push_signal(&name, level).map_err(|unknown| not_found(unknown.to_string()))?;
        return Ok(of(&SignalLevel { name, level: Some(level) }));
    }
    let signals = app.engine.signals();
    match signals.iter().find(|signal| signal.name == name) {
        Some(signal) => Ok(of(signal)),
        None => {
            Err(not_found("no rule moves with this signal (hint: /v1/signals has all of them)".to_owned()))
        }
    }
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
