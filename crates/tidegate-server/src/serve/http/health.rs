//! Whether the server is alive, whether it is ready, and what is loaded.

use hyper::StatusCode;
use serde_json::{Value, json};
use tidegate::{Found, Timestamp};

use super::connection::Asked;
use super::reply::{self, Kind, Problem, Reply, reply};
use super::routes;
use crate::serve::App;
use crate::serve::status::{CertificateStatus, RulesStatus, SnapshotStatus};

/// The most domains that are named.
const DOMAINS_NAMED_MAX: usize = 100;

/// `/healthz`: alive, for it answers. `?verbose` says what is loaded and what failed.
pub(in crate::serve) fn healthz(app: &App, asked: &Asked) -> Reply {
    match routes::parameter(asked, "verbose") {
        None | Some("false" | "0") => reply(StatusCode::OK, Kind::Text, "ok\n"),
        Some(_) => reply::json(&verbose(app)),
    }
}

/// `/readyz`: whether to send requests here.
pub(in crate::serve) fn readyz(app: &App) -> Reply {
    match readiness(app) {
        Ok(()) => reply(StatusCode::OK, Kind::Text, "ready\n"),
        Err(why) => Problem::new(StatusCode::SERVICE_UNAVAILABLE, why).reply(),
    }
}

/// `/healthcheck`, as envoyproxy/ratelimit has it.
pub(super) fn healthcheck(app: &App) -> Reply {
    match readiness(app) {
        Ok(()) => reply(StatusCode::OK, Kind::Text, "OK"),
        Err(why) => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, why).reply(),
    }
}

/// `/metrics`, for Prometheus.
pub(in crate::serve) fn metrics(app: &App) -> Reply {
    reply(StatusCode::OK, Kind::Metrics, app.metrics_page())
}

/// Whether to send requests here; if not, why not.
fn readiness(app: &App) -> Result<(), &'static str> {
    if app.drain.is_on() {
        return Err("the server is about to stop (hint: ask another one)");
    }
    match app.status.rules().loaded_at {
        NEVER => Err("no rules are loaded yet (hint: ask again in a moment)"),
        _ => Ok(()),
    }
}

/// As of something that has not happened.
const NEVER: Timestamp = Timestamp::from_nanos(0);

fn verbose(app: &App) -> Value {
    let (status, stats) = (&app.status, app.engine.stats());
    let listeners = status.listeners().iter();
    let readiness = readiness(app);
    json!({
        "version": status.version(),
        "started_at_ms": millis(status.started_at()),
        "uptime_ms": u64::try_from(status.up_for().as_millis()).unwrap_or(u64::MAX),
        "ready": readiness.is_ok(),
        "not_ready_because": readiness.err(),
        "draining": app.drain.is_on(),
        "listeners": listeners
            .map(|one| json!({ "protocol": one.protocol.as_str(), "address": one.address.to_string() }))
            .collect::<Vec<_>>(),
        "ended": status.ended().iter()
            .map(|ended| json!({ "part": ended.part, "at_ms": millis(ended.at) }))
            .collect::<Vec<_>>(),
        "rules": rules(&status.rules()),
        "store": { "bytes_used": stats.bytes_used, "live_evictions": stats.live_evictions },
        "snapshots": status.snapshots().map(|snapshots| self::snapshots(&snapshots)),
        "certificate": status.certificate().map(|certificate| self::certificate(&certificate)),
    })
}

fn rules(status: &RulesStatus) -> Value {
    let mut domains: Vec<&String> = status.domains.iter().collect();
    domains.sort_unstable();
    domains.truncate(DOMAINS_NAMED_MAX);
    let failure = status.failure.as_ref();
    json!({
        "paths": status.paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>(),
        "domains": domains,
        "domains_in_all": status.domains.len(),
        "rules": status.rules,
        "loaded_at_ms": millis(status.loaded_at),
        "replaced": status.replaced,
        "refused": status.refused,
        "failure": failure
            .map(|failed| json!({ "at_ms": millis(failed.at), "report": failed.error.to_json() })),
    })
}

fn snapshots(status: &SnapshotStatus) -> Value {
    let found = match &status.found {
        Found::Nothing => json!({ "restored": null, "refused": null }),
        Found::Snapshot { restored, given_up, expired, written_at } => json!({
            "restored": {
                "counters": restored, "given_up": given_up, "expired": expired, "written_at_ms": millis(*written_at),
            },
            "refused": null,
        }),
        Found::Refused(error) => json!({ "restored": null, "refused": error.to_string() }),
    };
    let last = status.last.as_ref();
    json!({
        "path": status.path.display().to_string(),
        "every_ms": u64::try_from(status.every.as_millis()).unwrap_or(u64::MAX),
        "found": found,
        "last": last.map(|last| {
            json!({ "written_at_ms": millis(last.written_at), "counters": last.entries, "bytes": last.bytes })
        }),
        "written": status.written,
        "failed": status.failed,
        "failure": status.failure.as_ref().map(|failed| failure(failed.at, &failed.error)),
    })
}

fn certificate(status: &CertificateStatus) -> Value {
    json!({
        "path": status.path.display().to_string(),
        "loaded_at_ms": millis(status.loaded_at),
        "replaced": status.replaced,
        "refused": status.refused,
        "failure": status.failure.as_ref().map(|failed| failure(failed.at, &failed.error)),
    })
}

fn failure(at: Timestamp, error: &impl std::fmt::Display) -> Value {
    json!({ "at_ms": millis(at), "error": error.to_string() })
}

/// Milliseconds since the epoch; none of what has not happened.
fn millis(at: Timestamp) -> Option<u64> {
    (at > NEVER).then(|| at.as_nanos() / 1_000_000)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidegate::Engine;

    use super::*;

    #[test]
    fn not_ready_while_it_drains() {
        let app = App::new(Arc::new(Engine::new(Vec::new()).unwrap()));
        app.status.rules_loaded(Vec::new(), app.engine.in_force().ruleset());
        assert_eq!((readyz(&app).status(), healthcheck(&app).status()), (StatusCode::OK, StatusCode::OK));
        app.drain.begin();
        assert_eq!(readyz(&app).status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(healthcheck(&app).status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(verbose(&app)["draining"], true);
    }

    #[test]
    fn a_part_that_has_ended_before_its_time_is_named() {
        let app = App::new(Arc::new(Engine::new(Vec::new()).unwrap()));
        assert_eq!(verbose(&app)["ended"], json!([]));
        app.status.part_ended("reloads");
        app.status.part_ended("listener http");
        let ended = &verbose(&app)["ended"];
        assert_eq!((&ended[0]["part"], &ended[1]["part"]), (&json!("reloads"), &json!("listener http")));
        assert!(ended[0]["at_ms"].is_u64(), "{ended}");
    }
}
