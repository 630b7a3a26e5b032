//! `/v1/acquire`, `/v1/renew` and `/v1/release`: leases of concurrency limits.

use hyper::StatusCode;
use tidegate::rules::Request;
use tidegate::{Clock as _, Lease, LeaseToken, Release, Renewal, Timestamp};

use super::answer_json::Provenance;
use super::reply::{ContentType, ErrorReply, Problem, Reply, reply};
use super::{answer_reply, error_reply, json_writer};
use crate::json::{self, JsonRequest, RequestForm, Ttl};
use crate::serve::rounding::MILLI_NS;
use crate::serve::{App, Protocol};

/// Decides the request in the body, and takes a lease of its concurrency limits.
pub(super) async fn acquire(app: &App, body: &[u8]) -> Reply {
    let json_request = match json::read_single(body, RequestForm::Acquire) {
        Ok(json_request) => json_request,
        Err(error) => return error_reply::request_error_reply(&error),
    };
    let entries = json_request.entry_refs();
    let descriptors = entries.descriptors();
    let request = Request { domain: json_request.domain(), descriptors: &descriptors };
    let output = match app.acquire(Protocol::Http, &request, json_request.ttl.map(Ttl::nanos)).await {
        Ok(output) => output,
        Err(error) => return error_reply::engine_error_reply(&error),
    };
    let mut more = r#","lease":"#.to_owned();
    match &output.lease {
        Some(lease) => write_lease(&mut more, lease, app.engine.clock().now()),
        None => more.push_str("null"),
    }
    answer_reply::answer_reply(app, &output.answer, output.waited, Provenance::Hidden, &more)
}

/// Extends a lease.
pub(super) async fn renew(app: &App, body: &[u8]) -> Reply {
    let (json_request, token) = match read_with_token(body, RequestForm::Renew) {
        Ok(json_request) => json_request,
        Err(reply) => return *reply,
    };
    let entries = json_request.entry_refs();
    let descriptors = entries.descriptors();
    let request = Request { domain: json_request.domain(), descriptors: &descriptors };
    match app.renew(&request, &token, json_request.ttl.map(Ttl::nanos)).await {
        Ok(Renewal::Renewed(lease)) => {
            let mut out = r#"{"result":"renewed","lease":"#.to_owned();
            write_lease(&mut out, &lease, app.engine.clock().now());
            out.push('}');
            reply(StatusCode::OK, ContentType::Json, out)
        }
        Ok(Renewal::AlreadyReleased) => MissingLease::Released.reply(),
        Ok(Renewal::Expired) => MissingLease::Expired.reply(),
        Ok(_) => MissingLease::WrongOwner.reply(),
        Err(error) => error_reply::engine_error_reply(&error),
    }
}

/// Releases a lease.
pub(super) async fn release(app: &App, body: &[u8]) -> Reply {
    let (json_request, token) = match read_with_token(body, RequestForm::Release) {
        Ok(json_request) => json_request,
        Err(reply) => return *reply,
    };
    let entries = json_request.entry_refs();
    let descriptors = entries.descriptors();
    let request = Request { domain: json_request.domain(), descriptors: &descriptors };
    match app.release(&request, &token).await {
        Ok(Release::Released) => reply(StatusCode::OK, ContentType::Json, r#"{"result":"released"}"#),
        Ok(Release::AlreadyReleased) => MissingLease::Released.reply(),
        Ok(Release::Expired) => MissingLease::Expired.reply(),
        Ok(_) => MissingLease::WrongOwner.reply(),
        Err(error) => error_reply::engine_error_reply(&error),
    }
}

/// Reads a request with a token.
fn read_with_token(body: &[u8], form: RequestForm) -> Result<(JsonRequest<'_>, LeaseToken), ErrorReply> {
    let json_request =
        json::read_single(body, form).map_err(|error| Box::new(error_reply::request_error_reply(&error)))?;
    match json_request.token.as_deref().unwrap_or_default().parse() {
        Ok(token) => Ok((json_request, token)),
        Err(error) => {
            Err(Problem::new(StatusCode::BAD_REQUEST, format!("`token`: {error}")).into_error_reply())
        }
    }
}

/// Why a lease cannot be renewed or released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MissingLease {
    Released,
    Expired,
    WrongOwner,
}

impl MissingLease {
    fn reply(self) -> Reply {
        let (result, message) = match self {
            Self::Released => (
                "already_released",
                "the lease is not held any more: it was released or reset, or its store lost it (hint: acquire another \
                 one)",
            ),
            Self::Expired => (
                "expired",
                "the lease has expired and may have a new holder (hint: renew earlier, or use a longer ttl)",
            ),
            Self::WrongOwner => (
                "wrong_owner",
                "the token belongs to another request or node (hint: send the request that acquired it)",
            ),
        };
        Problem::new(StatusCode::CONFLICT, message).with_text("result", result).into_reply()
    }
}

/// Writes `{"token": .., "fence": .., "expires_in_ms": ..}`. The time is rounded down, so that holders do not rely on
/// more.
fn write_lease(out: &mut String, lease: &Lease, now: Timestamp) {
    out.push_str(r#"{"token":"#);
    json_writer::write_text(out, &lease.token.to_string());
    out.push_str(r#","fence":"#);
    json_writer::write_number(out, lease.fence.get());
    out.push_str(r#","expires_in_ms":"#);
    json_writer::write_number(out, lease.expires.as_nanos().saturating_sub(now.as_nanos()) / MILLI_NS);
    out.push('}');
}
