//! Liveness, readiness, and the state of the server.

use hyper::StatusCode;
use serde_json::{Value, json};
use tidegate::Timestamp;
use tidegate::redis::BreakerState;
use tidegate::snapshot::RestoreStatus;

use super::connection::HttpRequest;
use super::reply::{self, ContentType, Problem, Reply, reply};
use super::routes;
use crate::output;
use crate::serve::rounding::MILLI_NS;
use crate::serve::status::{CertificateStatus, OngoingFailure, SnapshotStatus};
use crate::serve::{App, Fleet, LeaseStore, Status};

/// Maximum number of domains that are listed.
const DOMAINS_NAMED_MAX: usize = 100;
/// The time of something that has not happened.
const NEVER: Timestamp = Timestamp::from_nanos(0);

/// The readers of the server's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Audience {
    /// Any client of the listener: sees that something failed, and when.
    Anyone,
    /// Operators: see also why, and the paths of files and addresses of listeners.
    Operators,
}

/// `/healthz`: the server is alive if it answers. `?verbose` shows what is loaded and what failed.
pub(super) fn healthz(app: &App, request: &HttpRequest, audience: Audience) -> Reply {
    match routes::parameter(request, "verbose") {
        None | Some("false" | "0") => reply(StatusCode::OK, ContentType::Text, "ok\n"),
        Some(_) => reply::json(&verbose_json(app, audience)),
    }
}

/// `/readyz`: whether to send requests to this server.
pub(super) fn readyz(app: &App) -> Reply {
    match readiness(app) {
        Ok(()) => reply(StatusCode::OK, ContentType::Text, "ready\n"),
        Err(message) => Problem::new(StatusCode::SERVICE_UNAVAILABLE, message).into_reply(),
    }
}

/// `/healthcheck`: the same as in envoyproxy/ratelimit.
pub(super) fn healthcheck(app: &App) -> Reply {
    match readiness(app) {
        Ok(()) => reply(StatusCode::OK, ContentType::Text, "OK"),
        Err(message) => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, message).into_reply(),
    }
}

/// `/metrics`, for Prometheus.
pub(super) fn metrics(app: &App) -> Reply {
    reply(StatusCode::OK, ContentType::Metrics, app.metrics_page())
}

/// Whether to send requests to this server, or why not.
fn readiness(app: &App) -> Result<(), &'static str> {
    if app.drain.is_draining() {
        return Err("the server is shutting down (hint: use another one)");
    }
    if app.fleet.as_ref().is_some_and(|fleet| !fleet.is_ready()) {
        return Err(
            "the shared store was not reached yet (hint: --store-before-ready=false makes a node ready without it)",
        );
    }
    match app.status.rules().loaded_at {
        NEVER => Err("no rules are loaded yet (hint: retry in a moment)"),
        _ => Ok(()),
    }
}

fn verbose_json(app: &App, audience: Audience) -> Value {
    let (status, stats) = (&app.status, app.engine.store().memory().stats());
    let readiness = readiness(app);
    let mut json = json!({
        "version": status.version(),
        "started_at_ms": millis(status.started_at()),
        "uptime_ms": u64::try_from(status.uptime().as_millis()).unwrap_or(u64::MAX),
        "ready": readiness.is_ok(),
        "not_ready_because": readiness.err(),
        "draining": app.drain.is_draining(),
        "ended": status.ended_tasks().iter()
            .map(|ended| json!({ "part": ended.name, "at_ms": millis(ended.at) }))
            .collect::<Vec<_>>(),
        "rules": rules_json(status, audience),
        "store": { "bytes_used": stats.bytes_used, "live_evictions": stats.live_evictions },
        "config_store": app.engine.overrides().map(|overrides| {
            json!({
                "kind": overrides.store().kind(),
                "feed_age_ms": overrides.stats().feed_age_ms,
                "failure": status.config_store_failure().map(|failure| failure_json(&*failure, audience)),
            })
        }),
        "fleet": app.fleet.as_ref().map(|fleet| fleet_json(fleet, audience)),
        "lease_store": app.lease_store.as_ref().map(|leases| lease_store_json(leases, audience)),
        "snapshots": status.snapshots().map(|snapshots| snapshots_json(&snapshots, audience)),
        "certificate": status.certificate().map(|certificate| certificate_json(&certificate, audience)),
    });
    if audience == Audience::Operators {
        let listeners = status.listeners().iter();
        json["listeners"] = listeners
            .map(|bound| json!({ "protocol": bound.protocol.as_str(), "address": bound.address.to_string() }))
            .collect();
    }
    json
}

/// The shared store. While it does not answer, the server decides without it, so the server stays alive and ready.
fn fleet_json(fleet: &Fleet, audience: Audience) -> Value {
    let (since, stats) = (fleet.degraded_since(), fleet.store.stats());
    let away = stats.servers.servers.iter().filter(|server| server.breaker == BreakerState::Open);
    let mut json = json!({
        "degraded": since.is_some(),
        "degraded_since_ms": since.and_then(millis),
        "live_nodes": stats.live_nodes,
        "servers": stats.servers.servers.len(),
        "servers_away": away.clone().count(),
    });
    if audience == Audience::Operators {
        json["url"] = fleet.url.as_str().into();
        json["away"] = away.map(|server| &*server.address).collect();
    }
    json
}

/// The store of leases. While it does not answer, concurrency limits are decided by `on_store_failure` of their rules.
fn lease_store_json(leases: &LeaseStore, audience: Audience) -> Value {
    let stats = leases.store.stats();
    let failed: u64 = stats.failures.iter().map(|(_, count)| count).sum();
    let mut json = json!({ "operations": stats.operations, "failures": failed });
    if audience == Audience::Operators {
        json["url"] = leases.url.as_str().into();
    }
    json
}

fn rules_json(server: &Status, audience: Audience) -> Value {
    let status = server.rules();
    let mut domains: Vec<&String> = status.domains.iter().collect();
    domains.sort_unstable();
    domains.truncate(DOMAINS_NAMED_MAX);
    let mut json = json!({
        "domains": domains,
        "domains_in_all": status.domains.len(),
        "rules": status.rules,
        "loaded_at_ms": millis(status.loaded_at),
        "replaced": status.replacements,
        "refused": status.rejections,
        "failure": status.failure.as_ref().map(|failure| json!({ "at_ms": millis(failure.since) })),
        "store_failure": server.stored_rules_failure().map(|failure| failure_json(&*failure, audience)),
    });
    if audience == Audience::Operators {
        json["paths"] = status.paths.iter().map(|path| path.display().to_string()).collect();
        if let Some(failure) = &status.failure {
            json["failure"]["report"] = output::parse_json(&failure.error.to_json());
        }
    }
    json
}

fn snapshots_json(status: &SnapshotStatus, audience: Audience) -> Value {
    let last = status.last.as_ref();
    let mut json = json!({
        "every_ms": u64::try_from(status.every.as_millis()).unwrap_or(u64::MAX),
        "last": last.map(|last| {
            json!({ "written_at_ms": millis(last.written_at), "counters": last.entries, "bytes": last.bytes })
        }),
        "written": status.write_count,
        "failed": status.failure_count,
        "failure": status.failure.as_ref().map(|failure| failure_json(failure, audience)),
    });
    if audience == Audience::Operators {
        json["path"] = status.path.display().to_string().into();
        json["found"] = restore_json(&status.restored);
    }
    json
}

/// What was found at the start.
fn restore_json(restored: &RestoreStatus) -> Value {
    match restored {
        RestoreStatus::Restored { restored, evicted, expired, written_at, .. } => json!({
            "restored": {
                "counters": restored, "given_up": evicted, "expired": expired, "written_at_ms": millis(*written_at),
            },
            "refused": null,
        }),
        RestoreStatus::Refused(error) => json!({ "restored": null, "refused": error.to_string() }),
        _ => json!({ "restored": null, "refused": null }),
    }
}

fn certificate_json(status: &CertificateStatus, audience: Audience) -> Value {
    let mut json = json!({
        "loaded_at_ms": millis(status.loaded_at),
        "replaced": status.replacements,
        "refused": status.rejections,
        "failure": status.failure.as_ref().map(|failure| failure_json(failure, audience)),
    });
    if audience == Audience::Operators {
        json["path"] = status.path.display().to_string().into();
    }
    json
}

fn failure_json(failure: &OngoingFailure<impl std::fmt::Display>, audience: Audience) -> Value {
    match audience {
        Audience::Anyone => json!({ "at_ms": millis(failure.since) }),
        Audience::Operators => json!({ "at_ms": millis(failure.since), "error": failure.error.to_string() }),
    }
}

/// Milliseconds since the epoch; `None` if it has not happened.
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
