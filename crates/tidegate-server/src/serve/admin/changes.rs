//! What operators change by hand: refunds, resets, and rules read again.

use hyper::StatusCode;
use serde_json::json;
use tidegate::AlgorithmName;
use tidegate::Clock as _;
use tidegate::rules::{Reload, Request};
use tidegate::store::PlanFull;

use crate::output;
use crate::json::{self, RequestForm};
use crate::serve::App;
use crate::serve::http::asking;
use crate::serve::http::reply::{self, Problem, Reply};
use crate::serve::listening::CertificateReload;
use crate::serve::reloads::ReloadResult;
use crate::text;

/// How much of a domain's name from outside a message shows.
const DOMAIN_CHARS_MAX: usize = 100;

/// What operators do to the limits that a request touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AdminChange {
    /// Gives back what it was charged and did not use.
    Refund,
    /// Forgets all that its keys used.
    Reset,
}

/// The limits that a request touches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct MatchedCounts {
    rates: usize,
    /// Those of concurrency, whose slots are given back by whoever has the lease.
    concurrency: usize,
}

/// Does it, and says to how many limits.
pub(super) async fn apply(app: &App, body: &[u8], change: AdminChange) -> Reply {
    let read = match json::read_single(body, RequestForm::Check) {
        Ok(read) => read,
        Err(error) => return asking::request_error_reply(&error),
    };
    let entries = read.entry_refs();
    let descriptors = entries.descriptors();
    let request = Request { domain: read.domain(), descriptors: &descriptors };
    let touched = match count_matched(app, &request) {
        None => return no_such_domain(request.domain),
        Some(Err(full)) => return asking::engine_error_reply(&full.into()),
        Some(Ok(touched)) => touched,
    };
    let changed = match change {
        AdminChange::Refund => app.refund(&request).await.map(|()| refund_reply(touched)),
        AdminChange::Reset => app.reset(&request).await.map(|()| reset_reply(touched)),
    };
    changed.unwrap_or_else(|error| asking::engine_error_reply(&error))
}

/// What a request touches; none if its domain has no rules. That is said by the rules, whatever counters there are.
fn count_matched(app: &App, request: &Request<'_>) -> Option<Result<MatchedCounts, PlanFull>> {
    let rules = app.engine.rules();
    rules.domain(request.domain)?;
    let matched = rules.matched_limits(request);
    if let Err(full) = matched.plan(&rules, app.engine.clock().now()) {
        return Some(Err(full));
    }
    let mut touched = MatchedCounts::default();
    // Limits whose key cannot be made have nothing that could be changed.
    for limit in matched.all().iter().filter(|limit| limit.has_key()) {
        match rules.resolve(&limit.limit).limit.limit().limit.algorithm_name() {
            AlgorithmName::Concurrency => touched.concurrency += 1,
            _ => touched.rates += 1,
        }
    }
    Some(Ok(touched))
}

fn refund_reply(touched: MatchedCounts) -> Reply {
    let result = if touched.rates > 0 { "refunded" } else { "nothing" };
    reply::json(&json!({ "result": result, "limits": touched.rates, "leases_kept": touched.concurrency }))
}

fn reset_reply(touched: MatchedCounts) -> Reply {
    let limits = touched.rates + touched.concurrency;
    reply::json(&json!({ "result": if limits > 0 { "reset" } else { "nothing" }, "limits": limits }))
}

fn no_such_domain(domain: &str) -> Reply {
    let domain = text::printable(domain.as_bytes(), DOMAIN_CHARS_MAX);
    let message = format!("no rules are of the domain `{domain}` (hint: GET /v1/rules lists all domains)");
    Problem::new(StatusCode::NOT_FOUND, message).into_reply()
}

/// Reads rules and certificates again, at once.
pub(super) async fn reload(app: &App, body: &[u8]) -> Reply {
    if !matches!(body.trim_ascii(), b"" | b"{}") {
        let message = "a reload takes nothing (hint: send {} or no body)";
        return Problem::new(StatusCode::BAD_REQUEST, message).into_reply();
    }
    match app.reloads.reload().await {
        Ok(reloaded) => reload_reply(&reloaded),
        Err(stopping) => Problem::new(StatusCode::SERVICE_UNAVAILABLE, stopping.to_string()).into_reply(),
    }
}

fn reload_reply(ReloadResult { rules, certificate }: &ReloadResult) -> Reply {
    let (rules, report) = match rules {
        Reload::Unchanged => ("unchanged", None),
        Reload::Replaced(report) => ("replaced", Some(report)),
        Reload::Rejected(report) => ("kept", Some(report)),
    };
    let (certificate, error) = match certificate {
        CertificateReload::Unchanged => ("unchanged", None),
        CertificateReload::Replaced => ("replaced", None),
        CertificateReload::Kept(error) => ("kept", Some(error.to_string())),
    };
    let report = report.map(|report| output::parse_json(&report.to_json()));
    if rules != "kept" && certificate != "kept" {
        return reply::json(&json!({ "rules": rules, "report": report, "certificate": certificate }));
    }
    let message = "files cannot be used, and what was in force before stays (hint: `report` and `certificate_error` say \
                   why)";
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, message)
        .with_text("rules", rules)
        .with_json("report", &json!(report))
        .with_text("certificate", certificate)
        .with_json("certificate_error", &json!(error))
        .into_reply()
}
