//! Problems of RFC 9457: the JSON body of a response to a request that does not pass.

/// Why a request does not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemKind {
    /// A limit is exceeded: 429.
    QuotaExceeded,
    /// An override blocks the key: 403.
    Forbidden,
    /// The limits could not be decided: 503.
    Unavailable,
    /// The request cannot be read: 400.
    BadRequest,
}

impl ProblemKind {
    /// The status code.
    pub const fn status(self) -> u16 {
        match self {
            Self::QuotaExceeded => 429,
            Self::Forbidden => 403,
            Self::Unavailable => 503,
            Self::BadRequest => 400,
        }
    }

    /// The JSON up to the value of `detail`, which the caller appends, with more fields and the closing brace.
    pub const fn json_start(self) -> &'static str {
        match self {
            Self::QuotaExceeded => {
                r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"detail":"#
            }
            Self::Forbidden => r#"{"type":"about:blank","title":"Forbidden","status":403,"detail":"#,
            Self::Unavailable => {
                r#"{"type":"about:blank","title":"Service Unavailable","status":503,"detail":"#
            }
            Self::BadRequest => r#"{"type":"about:blank","title":"Bad Request","status":400,"detail":"#,
        }
    }
}

/// Appends `"text"`, escaped where necessary.
pub fn push_json_text(out: &mut String, text: &str) {
    out.push('"');
    // Nearly every text needs no escapes. The loop does not stop early, so that it handles many bytes at once.
    let needs_escapes = text.bytes().fold(false, |needs, byte| needs | needs_escape(byte));
    let rest = if needs_escapes { push_escaped(out, text) } else { text };
    out.push_str(rest);
    out.push('"');
}

fn needs_escape(byte: u8) -> bool {
    (byte == b'"') | (byte == b'\\') | (byte < 0x20)
}

/// Writes everything up to the last byte that needs an escape, and returns the rest.
#[cold]
fn push_escaped<'t>(out: &mut String, text: &'t str) -> &'t str {
    let mut rest = text;
    // Parts without escapes are copied whole. Bytes that need an escape are ASCII, so the parts stay UTF-8.
    while let Some(index) = rest.bytes().position(needs_escape) {
        out.push_str(&rest[..index]);
        match rest.as_bytes()[index] {
            byte @ (b'"' | b'\\') => out.extend(['\\', char::from(byte)]),
            b'\n' => out.push_str("\\n"),
            byte => {
                const DIGITS: &[u8; 16] = b"0123456789abcdef";
                let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
                out.extend(['\\', 'u', '0', '0', digit(byte >> 4), digit(byte & 15)]);
            }
        }
        rest = &rest[index + 1..];
    }
    rest
}
