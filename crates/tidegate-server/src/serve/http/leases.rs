//! `/v1/acquire`, `/v1/renew` and `/v1/release`: what concurrency limits give, held until it is given back.

use hyper::StatusCode;
use tidegate::rules::Request;
use tidegate::{Clock as _, Lease, LeaseToken, Release, Renewal, Timestamp};

use super::reply::{Kind, Problem, Refused, Reply, reply};
use super::{answered, asking, json};
use crate::request_json::{self, Form, ReadRequest, Ttl};
use crate::serve::rounded::MILLI_NS;
use crate::serve::{App, Protocol};

/// Decides what the body asks, and holds what concurrency limits give.
pub(super) async fn acquire(app: &App, body: &[u8]) -> Reply {
    let read = match request_json::read_one(body, Form::Acquire) {
        Ok(read) => read,
        Err(error) => return asking::of_request(&error),
    };
    let entries = read.entries();
    let descriptors = entries.descriptors();
    let request = Request { domain: read.domain(), descriptors: &descriptors };
    let decided = match app.acquire(Protocol::Http, &request, read.ttl.map(Ttl::span)).await {
        Ok(decided) => decided,
        Err(error) => return asking::of_error(&error),
    };
    let mut more = br#","lease":"#.to_vec();
    match &decided.lease {
        Some(lease) => write_lease(&mut more, lease, app.engine.clock().now()),
        None => more.extend_from_slice(b"null"),
    }
    answered::reply(&decided.answer, decided.waited, &more)
}

/// Lets a lease last longer.
pub(super) async fn renew(app: &App, body: &[u8]) -> Reply {
    let (read, token) = match with_token(body, Form::Renew) {
        Ok(read) => read,
        Err(refused) => return *refused,
    };
    let entries = read.entries();
    let descriptors = entries.descriptors();
    let request = Request { domain: read.domain(), descriptors: &descriptors };
    match app.renew(&request, &token, read.ttl.map(Ttl::span)).await {
        Ok(Renewal::Renewed(lease)) => {
            let mut out = br#"{"result":"renewed","lease":"#.to_vec();
            write_lease(&mut out, &lease, app.engine.clock().now());
            out.push(b'}');
            reply(StatusCode::OK, Kind::Json, out)
        }
        Ok(Renewal::AlreadyReleased) => Lost::Released.reply(),
        Ok(Renewal::Expired) => Lost::Expired.reply(),
        Ok(_) => Lost::NotOurs.reply(),
        Err(error) => asking::of_error(&error),
    }
}

/// Gives a lease back.
pub(super) async fn release(app: &App, body: &[u8]) -> Reply {
    let (read, token) = match with_token(body, Form::Release) {
        Ok(read) => read,
        Err(refused) => return *refused,
    };
    let entries = read.entries();
    let descriptors = entries.descriptors();
    let request = Request { domain: read.domain(), descriptors: &descriptors };
    match app.release(&request, &token).await {
        Ok(Release::Released) => reply(StatusCode::OK, Kind::Json, &br#"{"result":"released"}"#[..]),
        Ok(Release::AlreadyReleased) => Lost::Released.reply(),
        Ok(Release::Expired) => Lost::Expired.reply(),
        Ok(_) => Lost::NotOurs.reply(),
        Err(error) => asking::of_error(&error),
    }
}

/// A request with a token in it.
fn with_token(body: &[u8], form: Form) -> Result<(ReadRequest<'_>, LeaseToken), Refused> {
    let read = request_json::read_one(body, form).map_err(|error| Box::new(asking::of_request(&error)))?;
    match read.token.as_deref().unwrap_or_default().parse() {
        Ok(token) => Ok((read, token)),
        Err(error) => Err(Problem::new(StatusCode::BAD_REQUEST, format!("`token`: {error}")).refused()),
    }
}

/// Why a lease is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lost {
    Released,
    Expired,
    NotOurs,
}

impl Lost {
    fn reply(self) -> Reply {
        let (result, message) = match self {
            Self::Released => {
                ("already_released", "the lease was given back before (hint: acquire another one)")
            }
            Self::Expired => (
                "expired",
                "the lease is over, and somebody else may hold it by now (hint: renew sooner, or give it a longer ttl)",
            ),
            Self::NotOurs => (
                "wrong_owner",
                "the token is not of this request, or of another server (hint: send the request that acquired it)",
            ),
        };
        Problem::new(StatusCode::CONFLICT, message).text("result", result).reply()
    }
}

/// `{"token": .., "fence": .., "expires_in_ms": ..}`: that is rounded down, so that nobody counts on more.
fn write_lease(out: &mut Vec<u8>, lease: &Lease, now: Timestamp) {
    out.extend_from_slice(br#"{"token":"#);
    json::text(out, &lease.token.to_string());
    out.extend_from_slice(br#","fence":"#);
    json::number(out, lease.fence.get());
    out.extend_from_slice(br#","expires_in_ms":"#);
    json::number(out, lease.expires.as_nanos().saturating_sub(now.as_nanos()) / MILLI_NS);
    out.push(b'}');
}
