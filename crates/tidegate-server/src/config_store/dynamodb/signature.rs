//! The signature of a request: AWS Signature Version 4.

use std::fmt::Write as _;

use ring::{digest, hmac};

use super::credentials::Credentials;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// A request to sign. Headers are in lower case, in the order of their names, and include `host` and `x-amz-date`.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnsignedRequest<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub query: &'a str,
    pub headers: &'a [(&'a str, &'a str)],
    pub body: &'a [u8],
}

/// What a signature is valid for.
#[derive(Clone, Copy, Debug)]
pub(super) struct SigningScope<'a> {
    /// The same as in the header `x-amz-date`: `20150830T123600Z`.
    pub time: &'a str,
    pub region: &'a str,
    pub service: &'a str,
}

/// The header `authorization` of a request.
pub(super) fn authorization(
    request: UnsignedRequest<'_>,
    scope: SigningScope<'_>,
    credentials: &Credentials,
) -> String {
    let signed_headers = request.headers.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
    let mut canonical = format!("{}\n{}\n{}\n", request.method, request.path, request.query);
    for (name, value) in request.headers {
        // A string takes any text.
        let _ = writeln!(canonical, "{name}:{}", value.trim());
    }
    let _ = write!(canonical, "\n{signed_headers}\n{}", sha256_hex(request.body));

    let date = scope.time.get(..8).unwrap_or(scope.time);
    let scope_text = format!("{date}/{}/{}/aws4_request", scope.region, scope.service);
    let to_sign = format!("{ALGORITHM}\n{}\n{scope_text}\n{}", scope.time, sha256_hex(canonical.as_bytes()));

    let mut key = hmac_sha256(format!("AWS4{}", credentials.secret_access_key).as_bytes(), date);
    for part in [scope.region, scope.service, "aws4_request", &to_sign] {
        key = hmac_sha256(key.as_ref(), part);
    }
    format!(
        "{ALGORITHM} Credential={}/{scope_text}, SignedHeaders={signed_headers}, Signature={}",
        credentials.access_key_id,
        hex(key.as_ref())
    )
}

fn hmac_sha256(key: &[u8], text: &str) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes())
}

fn sha256_hex(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(session_token: Option<&str>) -> Credentials {
        Credentials {
            access_key_id: "AKIDEXAMPLE".to_owned(),
            secret_access_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned(),
            session_token: session_token.map(str::to_owned),
            expires_at: None,
        }
    }

    /// The example in the documentation of Signature Version 4.
    #[test]
    fn the_documented_example() {
        let time = "20150830T123600Z";
        let request = UnsignedRequest {
            method: "GET",
            path: "/",
            query: "Action=ListUsers&Version=2010-05-08",
            headers: &[
                ("content-type", "application/x-www-form-urlencoded; charset=utf-8"),
                ("host", "iam.amazonaws.com"),
                ("x-amz-date", time),
            ],
            body: b"",
        };
        let scope = SigningScope { time, region: "us-east-1", service: "iam" };
        assert_eq!(
            authorization(request, scope, &credentials(None)),
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, \
             SignedHeaders=content-type;host;x-amz-date, \
             Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
        );
    }

    /// A request of this store, with the signature that botocore 1.44 gives it.
    #[test]
    fn a_request_to_dynamodb_with_a_session_token() {
        let time = "20260102T030405Z";
        let request = UnsignedRequest {
            method: "POST",
            path: "/",
            query: "",
            headers: &[
                ("content-type", "application/x-amz-json-1.0"),
                ("host", "dynamodb.eu-central-1.amazonaws.com"),
                ("x-amz-date", time),
                ("x-amz-security-token", "session/token+=="),
                ("x-amz-target", "DynamoDB_20120810.Query"),
            ],
            body: br#"{"TableName":"tidegate"}"#,
        };
        let scope = SigningScope { time, region: "eu-central-1", service: "dynamodb" };
        let signed = authorization(request, scope, &credentials(Some("session/token+==")));
        let signature = signed.rsplit_once("Signature=").expect("it has one").1;
        assert_eq!(signature, "40e0b55840342ee2bc6c16f488c3a8bb4c742b352b8764fc31df8ca9a34e152d");
    }
}
