//! `/v1/acquire`, `/v1/renew` and `/v1/release`: what concurrency limits give, held until it is given back.

use hyper::StatusCode;
use tidegate::rules::Request;
use tidegate::{Clock as _, Lease, LeaseToken, Release, Renewal, Timestamp};

use super::reply::{ContentType, Problem, ErrorReply, Reply, reply};
use super::{answered, asking, json as json_writer};
use crate::json::{self, RequestForm, JsonRequest, Ttl};
use crate::serve::rounded::MILLI_NS;
use crate::serve::{App, Protocol};

/// Decides what the body asks, and holds what concurrency limits give.
pub(super) async fn acquire(app: &App, body: &[u8]) -> Reply {
    let read = match json::read_single(body, RequestForm::Acquire) {
        Ok(read) => read,
        Err(error) => return asking::request_error_reply(&error),
    };
    let entries = read.entry_refs();
    let descriptors = entries.descriptors();
    let request = Request { domain: read.domain(), descriptors: &descriptors };
    let decided = match app.acquire(Protocol::Http, &request, read.ttl.map(Ttl::nanos)).await {
        Ok(decided) => decided,
        Err(error) => return asking::engine_error_reply(&error),
    };
    let mut more = br#","lease":"#.to_vec();
    match &decided.lease {
        Some(lease) => write_lease(&mut more, lease, app.engine.clock().now()),
        None => more.extend_from_slice(b"null"),
    }
    answered::answer_reply(&decided.answer, decided.waited, &more)
}

/// Lets a lease last longer.
pub(super) async fn renew(app: &App, body: &[u8]) -> Reply {
    let (read, token) = match read_with_token(body, RequestForm::Renew) {
        Ok(read) => read,
        Err(refused) => return *refused,
    };
    let entries = read.entry_refs();
    let descriptors = entries.descriptors();
    let request = Request { domain: read.domain(), descriptors: &descriptors };
    match app.renew(&request, &token, read.ttl.map(Ttl::nanos)).await {
        Ok(Renewal::Renewed(lease)) => {
            let mut out = br#"{"result":"renewed","lease":"#.to_vec();
            write_lease(&mut out, &lease, app.engine.clock().now());
            out.push(b'}');
            reply(StatusCode::OK, ContentType::Json, out)
        }
        Ok(Renewal::AlreadyReleased) => MissingLease::Released.reply(),
        Ok(Renewal::Expired) => MissingLease::Expired.reply(),
        Ok(_) => MissingLease::WrongOwner.reply(),
        Err(error) => asking::engine_error_reply(&error),
    }
}

/// Gives a lease back.
pub(super) async fn release(app: &App, body: &[u8]) -> Reply {
    let (read, token) = match read_with_token(body, RequestForm::Release) {
        Ok(read) => read,
        Err(refused) => return *refused,
    };
    let entries = read.entry_refs();
    let descriptors = entries.descriptors();
    let request = Request { domain: read.domain(), descriptors: &descriptors };
    match app.release(&request, &token).await {
        Ok(Release::Released) => reply(StatusCode::OK, ContentType::Json, &br#"{"result":"released"}"#[..]),
        Ok(Release::AlreadyReleased) => MissingLease::Released.reply(),
        Ok(Release::Expired) => MissingLease::Expired.reply(),
        Ok(_) => MissingLease::WrongOwner.reply(),
        Err(error) => asking::engine_error_reply(&error),
    }
}

/// A request with a token in it.
fn read_with_token(body: &[u8], form: RequestForm) -> Result<(JsonRequest<'_>, LeaseToken), ErrorReply> {
    let read = json::read_single(body, form).map_err(|error| Box::new(asking::request_error_reply(&error)))?;
    match read.token.as_deref().unwrap_or_default().parse() {
        Ok(token) => Ok((read, token)),
        Err(error) => Err(Problem::new(StatusCode::BAD_REQUEST, format!("`token`: {error}")).into_error_reply()),
    }
}

/// Why a lease is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MissingLease {
    Released,
    Expired,
    WrongOwner,
}

impl MissingLease {
    fn reply(self) -> Reply {
        let (result, message) = match self {
            Self::Released => {
                ("already_released", "the lease was given back before (hint: acquire another one)")
            }
            Self::Expired => (
                "expired",
                "the lease is over, and somebody else may hold it by now (hint: renew sooner, or give it a longer ttl)",
            ),
            Self::WrongOwner => (
                "wrong_owner",
                "the token is not of this request, or of another server (hint: send the request that acquired it)",
            ),
        };
        Problem::new(StatusCode::CONFLICT, message).with_text("result", result).into_reply()
    }
}

/// `{"token": .., "fence": .., "expires_in_ms": ..}`: that is rounded down, so that nobody counts on more.
fn write_lease(out: &mut Vec<u8>, lease: &Lease, now: Timestamp) {
    out.extend_from_slice(br#"{"token":"#);
    json_writer::write_text(out, &lease.token.to_string());
    out.extend_from_slice(br#","fence":"#);
    json_writer::write_number(out, lease.fence.get());
    out.extend_from_slice(br#","expires_in_ms":"#);
    json_writer::write_number(out, lease.expires.as_nanos().saturating_sub(now.as_nanos()) / MILLI_NS);
    out.push(b'}');
}
