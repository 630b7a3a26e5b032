//! `/json`, as envoyproxy/ratelimit has it: the rate limit service as protojson.

use hyper::StatusCode;

use super::asking;
use super::reply::{Kind, Problem, Reply, reply};
use crate::serve::rls::{self, Code, Details, RlsResponse};
use crate::serve::{App, Protocol};

/// Decides what the body asks: 200, or 429 if it is over a limit.
pub(super) async fn decide(app: &App, details: Details, body: &[u8]) -> Reply {
    let read = match rls::json::read(body) {
        Ok(read) => read,
        Err(error) => return asking::of_request(&error),
    };
    let request = match read.borrowed() {
        Ok(request) => request,
        Err(error) => return Problem::new(StatusCode::BAD_REQUEST, error.to_string()).reply(),
    };
    let answered = |response: &RlsResponse<'_>| {
        let mut out = String::new();
        rls::json::write(response, &mut out);
        let status = match response.overall {
            Code::Ok => StatusCode::OK,
            Code::OverLimit => StatusCode::TOO_MANY_REQUESTS,
        };
        reply(status, Kind::Json, out)
    };
    match rls::decide(app, Protocol::Http, &request, details, answered).await {
        Ok(reply) => reply,
        Err(full) => asking::of_plan(&full),
    }
}
