//! What operators change by hand: refunds and reloads. Resets are in `reset.rs`.

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

/// Maximum characters of a name shown in an error.
pub(super) const NAME_CHARS_MAX: usize = 100;

/// Refunds what a request was charged and did not use, and returns the number of limits.
pub(super) async fn refund(app: &App, body: &[u8]) -> Reply {
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
    match app.refund(&request).await {
        Ok(()) => refund_reply(matched),
        Err(error) => error_reply::engine_error_reply(&error),
    }
}

fn refund_reply(matched: MatchedCounts) -> Reply {
    reply::json(
        &json!({ "result": matched.refund_result(), "limits": matched.rates, "leases_kept": matched.concurrency }),
    )
}

/// The reply about a domain that is not in the rules.
pub(super) fn no_such_domain(domain: &str) -> Reply {
    let domain = text::printable(domain.as_bytes(), NAME_CHARS_MAX);
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
