//! The admin token in a request: `authorization: Bearer TOKEN`.

use hyper::StatusCode;
use hyper::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};

use super::connection::HttpRequest;
use super::reply::{ErrorReply, Problem};
use crate::serve::settings::Secret;
use crate::serve::{App, Protocol};

/// Rejects a request without this token, after a delay.
pub(super) async fn check_token(
    request: &HttpRequest,
    token: &Secret,
    app: &App,
    protocol: Protocol,
) -> Result<(), ErrorReply> {
    if bearer_token(request).is_some_and(|sent| token.matches(sent)) {
        return Ok(());
    }
    app.failed_login(protocol).await;
    Err(unauthorized_reply())
}

/// The token after `Bearer`.
fn bearer_token(request: &HttpRequest) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"bearer ";
    let header = request.headers().get(AUTHORIZATION)?.as_bytes();
    let (scheme, token) = header.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then(|| token.trim_ascii())
}

#[cold]
fn unauthorized_reply() -> ErrorReply {
    let message = "the token is missing or wrong (hint: authorization: Bearer, with the --admin-token)";
    let challenge = HeaderValue::from_static("Bearer realm=\"tidegate\"");
    Problem::new(StatusCode::UNAUTHORIZED, message)
        .with_header(WWW_AUTHENTICATE, challenge)
        .into_error_reply()
}
