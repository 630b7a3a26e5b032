//! What operators change by hand: refunds, resets and reloads.

use hyper::StatusCode;
use serde_json::json;
use tidegate::rules::{Reload, Request};

use crate::json::{self, RequestForm};
use crate::serve::App;
use crate::serve::http::error_reply;
use crate::serve::http::reply::{self, Problem, Reply};
use crate::serve::listen::CertificateReload;
use crate::serve::matched_counts::MatchedCounts;
use crate::serve::reload_handle::ReloadResult;
use crate::{output, text};

/// Maximum characters of a domain shown in an error.
const DOMAIN_CHARS_MAX: usize = 100;

/// What operators do to the limits that a request matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AdminChange {
    /// Refunds what the request was charged and did not use.
    Refund,
    /// Forgets the usage of its keys.
    Reset,
}

/// Applies the change, and returns the number of limits.
pub(super) async fn apply(app: &App, body: &[u8], change: AdminChange) -> Reply {
    let json = match json::read_single(body, RequestForm::Check) {
        Ok(json) => json,
        Err(error) => return error_reply::request_error_reply(&error),
    };
    let entries = json.entry_refs();
    let descriptors = entries.descriptors();
    let request = Request { domain: json.domain(), descriptors: &descriptors };
    let matched = match MatchedCounts::of(app, &request) {
        None => return no_such_domain(request.domain),
        Some(Err(full)) => return error_reply::engine_error_reply(&full.into()),
        Some(Ok(matched)) => matched,
    };
    let reply = match change {
        AdminChange::Refund => app.refund(&request).await.map(|()| refund_reply(matched)),
        AdminChange::Reset => app.reset(&request).await.map(|()| reset_reply(matched)),
    };
    reply.unwrap_or_else(|error| error_reply::engine_error_reply(&error))
}

fn refund_reply(matched: MatchedCounts) -> Reply {
    reply::json(
        &json!({ "result": matched.refund_result(), "limits": matched.rates, "leases_kept": matched.concurrency }),
    )
}

fn reset_reply(matched: MatchedCounts) -> Reply {
    let limits = matched.rates + matched.concurrency;
    reply::json(&json!({ "result": if limits > 0 { "reset" } else { "nothing" }, "limits": limits }))
}

fn no_such_domain(domain: &str) -> Reply {
    let domain = text::printable(domain.as_bytes(), DOMAIN_CHARS_MAX);
    let message = format!("the domain `{domain}` has no rules (hint: GET /v1/rules lists all domains)");
    Problem::new(StatusCode::NOT_FOUND, message).into_reply()
}

/// Reloads rules and certificates immediately.
pub(super) async fn reload(app: &App, body: &[u8]) -> Reply {
    if !matches!(body.trim_ascii(), b"" | b"{}") {
        let message = "a reload takes no parameters (hint: send {} or no body)";
        return Problem::new(StatusCode::BAD_REQUEST, message).into_reply();
    }
    match app.reloads.reload().await {
        Ok(result) => reload_reply(&result),
        Err(error) => Problem::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_reply(),
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
    let message = "the files are invalid, and the previous ones stay active (hint: see `report` and \
                   `certificate_error`)";
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, message)
        .with_text("rules", rules)
        .with_json("report", &json!(report))
        .with_text("certificate", certificate)
        .with_json("certificate_error", &json!(error))
        .into_reply()
}
