//! Whether the server is alive, whether it is ready, and what is loaded.

use hyper::StatusCode;
use serde_json::{Value, json};
use tidegate::Timestamp;
use tidegate::redis::BreakerState;
use tidegate::snapshot::RestoreStatus;

use super::connection::HttpRequest;
use super::reply::{self, ContentType, Problem, Reply, reply};
use super::routes;
use crate::output;
use crate::serve::rounded::MILLI_NS;
use crate::serve::status::{CertificateStatus, OngoingFailure, RulesStatus, SnapshotStatus};
use crate::serve::{App, Fleet};

/// The most domains that are named.
const DOMAINS_NAMED_MAX: usize = 100;

/// Who is told what is loaded and what failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) enum Audience {
    /// Whoever reaches the listener: that something failed, and when.
    Anyone,
    /// Operators: also why, and where files and listeners are.
    Operators,
}

/// `/healthz`: alive, for it answers. `?verbose` says what is loaded and what failed.
pub(in crate::serve) fn healthz(app: &App, asked: &HttpRequest, audience: Audience) -> Reply {
    match routes::parameter(asked, "verbose") {
        None | Some("false" | "0") => reply(StatusCode::OK, ContentType::Text, "ok\n"),
        Some(_) => reply::json(&verbose_json(app, audience)),
    }
}

/// `/readyz`: whether to send requests here.
pub(in crate::serve) fn readyz(app: &App) -> Reply {
    match readiness(app) {
        Ok(()) => reply(StatusCode::OK, ContentType::Text, "ready\n"),
        Err(why) => Problem::new(StatusCode::SERVICE_UNAVAILABLE, why).into_reply(),
    }
}

/// `/healthcheck`, as envoyproxy/ratelimit has it.
pub(super) fn healthcheck(app: &App) -> Reply {
    match readiness(app) {
        Ok(()) => reply(StatusCode::OK, ContentType::Text, "OK"),
        Err(why) => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, why).into_reply(),
    }
}

/// `/metrics`, for Prometheus.
pub(in crate::serve) fn metrics(app: &App) -> Reply {
    reply(StatusCode::OK, ContentType::Metrics, app.metrics_page())
}

/// Whether to send requests here; if not, why not.
fn readiness(app: &App) -> Result<(), &'static str> {
    if app.drain.is_draining() {
        return Err("the server is about to stop (hint: ask another one)");
    }
    match app.status.rules().loaded_at {
        NEVER => Err("no rules are loaded yet (hint: ask again in a moment)"),
        _ => Ok(()),
    }
}

/// As of something that has not happened.
const NEVER: Timestamp = Timestamp::from_nanos(0);

fn verbose_json(app: &App, audience: Audience) -> Value {
    let (status, stats) = (&app.status, app.engine.store().memory().stats());
    let readiness = readiness(app);
    let mut said = json!({
        "version": status.version(),
        "started_at_ms": millis(status.started_at()),
        "uptime_ms": u64::try_from(status.uptime().as_millis()).unwrap_or(u64::MAX),
        "ready": readiness.is_ok(),
        "not_ready_because": readiness.err(),
        "draining": app.drain.is_draining(),
        "ended": status.ended_tasks().iter()
            .map(|ended| json!({ "part": ended.name, "at_ms": millis(ended.at) }))
            .collect::<Vec<_>>(),
        "rules": rules_json(&status.rules(), audience),
        "store": { "bytes_used": stats.bytes_used, "live_evictions": stats.live_evictions },
        "fleet": app.fleet.as_ref().map(|fleet| self::fleet_json(fleet, audience)),
        "snapshots": status.snapshots().map(|snapshots| self::snapshots_json(&snapshots, audience)),
        "certificate": status.certificate().map(|certificate| self::certificate_json(&certificate, audience)),
    });
    if audience == Audience::Operators {
        let listeners = status.listeners().iter();
        said["listeners"] = listeners
            .map(|one| json!({ "protocol": one.protocol.as_str(), "address": one.address.to_string() }))
            .collect();
    }
    said
}

/// The store that a fleet shares. While it does not answer the server does, so it is alive and ready.
fn fleet_json(fleet: &Fleet, audience: Audience) -> Value {
    let (since, stats) = (fleet.degraded_since(), fleet.store.stats());
    let away = stats.servers.servers.iter().filter(|server| server.breaker == BreakerState::Open);
    let mut said = json!({
        "degraded": since.is_some(),
        "degraded_since_ms": since.and_then(millis),
        "live_nodes": stats.live_nodes,
        "servers": stats.servers.servers.len(),
        "servers_away": away.clone().count(),
    });
    if audience == Audience::Operators {
        said["url"] = fleet.url.as_str().into();
        said["away"] = away.map(|server| &*server.address).collect();
    }
    said
}

fn rules_json(status: &RulesStatus, audience: Audience) -> Value {
    let mut domains: Vec<&String> = status.domains.iter().collect();
    domains.sort_unstable();
    domains.truncate(DOMAINS_NAMED_MAX);
    let mut said = json!({
        "domains": domains,
        "domains_in_all": status.domains.len(),
        "rules": status.rules,
        "loaded_at_ms": millis(status.loaded_at),
        "replaced": status.replacements,
        "refused": status.rejections,
        "failure": status.failure.as_ref().map(|failed| json!({ "at_ms": millis(failed.since) })),
    });
    if audience == Audience::Operators {
        said["paths"] = status.paths.iter().map(|path| path.display().to_string()).collect();
        if let Some(failed) = &status.failure {
            said["failure"]["report"] = output::parse_json(&failed.error.to_json());
        }
    }
    said
}

fn snapshots_json(status: &SnapshotStatus, audience: Audience) -> Value {
    let last = status.last.as_ref();
    let mut said = json!({
        "every_ms": u64::try_from(status.every.as_millis()).unwrap_or(u64::MAX),
        "last": last.map(|last| {
            json!({ "written_at_ms": millis(last.written_at), "counters": last.entries, "bytes": last.bytes })
        }),
        "written": status.write_count,
        "failed": status.failure_count,
        "failure": status.failure.as_ref().map(|failed| failure_json(failed, audience)),
    });
    if audience == Audience::Operators {
        said["path"] = status.path.display().to_string().into();
        said["found"] = restore_json(&status.found);
    }
    said
}

/// What was found at the start.
fn restore_json(found: &RestoreStatus) -> Value {
    match found {
        RestoreStatus::Restored { restored, evicted: given_up, expired, written_at } => json!({
            "restored": {
                "counters": restored, "given_up": given_up, "expired": expired, "written_at_ms": millis(*written_at),
            },
            "refused": null,
        }),
        RestoreStatus::Refused(error) => json!({ "restored": null, "refused": error.to_string() }),
        _ => json!({ "restored": null, "refused": null }),
    }
}

fn certificate_json(status: &CertificateStatus, audience: Audience) -> Value {
    let mut said = json!({
        "loaded_at_ms": millis(status.loaded_at),
        "replaced": status.replacements,
        "refused": status.rejections,
        "failure": status.failure.as_ref().map(|failed| failure_json(failed, audience)),
    });
    if audience == Audience::Operators {
        said["path"] = status.path.display().to_string().into();
    }
    said
}

fn failure_json(failed: &OngoingFailure<impl std::fmt::Display>, audience: Audience) -> Value {
    match audience {
        Audience::Anyone => json!({ "at_ms": millis(failed.since) }),
        Audience::Operators => json!({ "at_ms": millis(failed.since), "error": failed.error.to_string() }),
    }
}

/// Milliseconds since the epoch; none of what has not happened.
fn millis(at: Timestamp) -> Option<u64> {
    (at > NEVER).then(|| at.as_nanos() / MILLI_NS)
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn not_ready_while_it_drains() {
        let app = App::in_memory(Vec::new()).unwrap();
        app.status.rules_loaded(Vec::new(), &app.engine.rules());
        assert_eq!((readyz(&app).status(), healthcheck(&app).status()), (StatusCode::OK, StatusCode::OK));
        app.drain.begin();
        assert_eq!(readyz(&app).status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(healthcheck(&app).status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(verbose_json(&app, Audience::Anyone)["draining"], true);
    }

    #[test]
    fn an_ended_task_is_named() {
        let app = App::in_memory(Vec::new()).unwrap();
        assert_eq!(verbose_json(&app, Audience::Anyone)["ended"], json!([]));
        app.status.task_ended("reloads");
        app.status.task_ended("listener http");
        let ended = &verbose_json(&app, Audience::Anyone)["ended"];
        assert_eq!((&ended[0]["part"], &ended[1]["part"]), (&json!("reloads"), &json!("listener http")));
        assert!(ended[0]["at_ms"].is_u64(), "{ended}");
    }
}
