//! What operators change by hand: refunds, resets, and rules read again.

use hyper::StatusCode;
use serde_json::json;
use tidegate::PlanFull;
use tidegate::rules::{Reload, Request};

use crate::request_json::{self, Form};
use crate::serve::App;
use crate::serve::http::reply::{self, Problem, Reply};
use crate::serve::http::{asking, check};
use crate::serve::listening::CertificateReload;
use crate::serve::reloads::Reloaded;

/// Gives back what a request was charged and did not use.
pub(super) fn refund(app: &App, body: &[u8]) -> Reply {
    change(body, "refunded", |request| app.refund(request))
}

/// Forgets all that the keys of a request used.
pub(super) fn reset(app: &App, body: &[u8]) -> Reply {
    change(body, "reset", |request| app.reset(request))
}

fn change(body: &[u8], result: &str, change: impl FnOnce(&Request<'_>) -> Result<(), PlanFull>) -> Reply {
    let read = match request_json::read_one(body, Form::Check) {
        Ok(read) => read,
        Err(error) => return asking::of_request(&error),
    };
    match check::lend(&read, change) {
        Ok(()) => reply::json(&json!({ "result": result })),
        Err(full) => asking::of_plan(&full),
    }
}

/// Reads rules and certificates again, at once.
pub(super) async fn reload(app: &App, body: &[u8]) -> Reply {
    if !matches!(body.trim_ascii(), b"" | b"{}") {
        let message = "a reload takes nothing (hint: send {} or no body)";
        return Problem::new(StatusCode::BAD_REQUEST, message).reply();
    }
    match app.reloads.ask().await {
        Ok(reloaded) => of(&reloaded),
        Err(stopping) => Problem::new(StatusCode::SERVICE_UNAVAILABLE, stopping.to_string()).reply(),
    }
}

fn of(Reloaded { rules, certificate }: &Reloaded) -> Reply {
    let (rules, report) = match rules {
        Reload::Unchanged => ("unchanged", None),
        Reload::Replaced(report) => ("replaced", Some(report)),
        Reload::Kept(report) => ("kept", Some(report)),
    };
    let (certificate, error) = match certificate {
        CertificateReload::Unchanged => ("unchanged", None),
        CertificateReload::Replaced => ("replaced", None),
        CertificateReload::Kept(error) => ("kept", Some(error.to_string())),
    };
    let report = report.map(tidegate::rules::Report::to_json);
    if rules != "kept" && certificate != "kept" {
        return reply::json(&json!({ "rules": rules, "report": report, "certificate": certificate }));
    }
    let message = "files cannot be used, and what was in force before stays (hint: `report` and `certificate_error` say \
                   why)";
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, message)
        .text("rules", rules)
        .json("report", &json!(report))
        .text("certificate", certificate)
        .json("certificate_error", &json!(error))
        .reply()
}
