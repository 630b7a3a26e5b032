//! Where `user`, `tenant` and `plan` come from.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tidegate_core::rules::blake2b_256;

use super::Headers;
use super::headers::only;

/// The most bytes of a value that is decoded or hashed. Longer ones are missing attributes.
const VALUE_BYTES_MAX: usize = 8 * 1024;
/// How much of the digest of an API key is its attribute: 128 bits.
const KEY_DIGEST_BYTES: usize = 16;

/// Where an attribute comes from: a claim of a verified token, an API key, a header or basic authentication.
///
/// As text: `claim:sub`, `api-key:x-api-key`, `header:x-user`, `basic`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    kind: SourceKind,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum SourceKind {
    Claim(Box<str>),
    ApiKey(Box<str>),
    Header(Box<str>),
    Basic,
}

impl Source {
    /// A claim of the token, after its signature has been verified. A dot leads into an object: `realm.plan`, unless there
    /// is a claim with the whole name.
    pub fn claim(name: &str) -> Self {
        Self { kind: SourceKind::Claim(name.into()) }
    }

    /// An API key in a header. The attribute is the first half of its BLAKE2b-256 digest in hexadecimal digits, so that no
    /// log, store or metric has the key: `printf %s KEY | b2sum -l 256 | cut -c 1-32`. In `authorization`, the key is what
    /// follows the scheme.
    ///
    /// Whether the key is valid is for the upstream to say: a client can make up any number of keys.
    pub fn api_key(header: &str) -> Self {
        Self { kind: SourceKind::ApiKey(header.to_ascii_lowercase().into()) }
    }

    /// A header. **Not verified**: use it only if a proxy in front sets or removes it.
    pub fn header(name: &str) -> Self {
        Self { kind: SourceKind::Header(name.to_ascii_lowercase().into()) }
    }

    /// The user name of basic authentication. **Not verified**: the password is not checked.
    pub fn basic() -> Self {
        Self { kind: SourceKind::Basic }
    }

    /// The name of the claim, if it is one.
    pub(super) fn claim_name(&self) -> Option<&str> {
        match &self.kind {
            SourceKind::Claim(name) => Some(name),
            _ => None,
        }
    }

    /// The value in the headers of a request. `None` for claims, and if the header is missing, empty, too long, or has
    /// several lines: an upstream might read another one.
    pub(super) fn header_value<'h>(&self, headers: &'h (impl Headers + ?Sized)) -> Option<Cow<'h, str>> {
        match &self.kind {
            SourceKind::Claim(_) => None,
            SourceKind::ApiKey(name) => {
                let value = bounded(only(headers, name)?)?;
                let key = if **name == *"authorization" { after_scheme(value)? } else { value };
                Some(key_digest(key).into())
            }
            SourceKind::Header(name) => Some(String::from_utf8_lossy(bounded(only(headers, name)?)?)),
            SourceKind::Basic => {
                let value = bounded(only(headers, "authorization")?)?;
                basic_user(value).map(Cow::Owned)
            }
        }
    }
}

fn bounded(value: &[u8]) -> Option<&[u8]> {
    (value.len() <= VALUE_BYTES_MAX).then_some(value)
}

/// What follows the scheme in `Authorization: SCHEME ...`.
fn after_scheme(value: &[u8]) -> Option<&[u8]> {
    let space = value.iter().position(|byte| *byte == b' ')?;
    Some(value[space..].trim_ascii()).filter(|key| !key.is_empty())
}

/// What follows this scheme, which is not case-sensitive.
pub(super) fn after_named_scheme<'v>(value: &'v [u8], scheme: &str) -> Option<&'v [u8]> {
    let rest = after_scheme(value)?;
    let is_scheme = value.get(..scheme.len())?.eq_ignore_ascii_case(scheme.as_bytes());
    (is_scheme && value[scheme.len()] == b' ').then_some(rest)
}

fn basic_user(value: &[u8]) -> Option<String> {
    let credentials = STANDARD.decode(after_named_scheme(value, "basic")?).ok()?;
    let colon = credentials.iter().position(|byte| *byte == b':')?;
    Some(String::from_utf8_lossy(&credentials[..colon]).into_owned()).filter(|user| !user.is_empty())
}

fn key_digest(key: &[u8]) -> String {
    use fmt::Write;
    let mut hex = String::with_capacity(2 * KEY_DIGEST_BYTES);
    for byte in &blake2b_256(key)[..KEY_DIGEST_BYTES] {
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

/// The text is not a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseSourceError(());

impl FromStr for Source {
    type Err = ParseSourceError;

    fn from_str(text: &str) -> Result<Self, ParseSourceError> {
        let is_header = |name: &str| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        match text.split_once(':') {
            Some(("claim", name)) if !name.is_empty() => Ok(Self::claim(name)),
            Some(("api-key", name)) if is_header(name) => Ok(Self::api_key(name)),
            Some(("header", name)) if is_header(name) => Ok(Self::header(name)),
            None if text == "basic" => Ok(Self::basic()),
            _ => Err(ParseSourceError(())),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            SourceKind::Claim(name) => write!(f, "claim:{name}"),
            SourceKind::ApiKey(name) => write!(f, "api-key:{name}"),
            SourceKind::Header(name) => write!(f, "header:{name}"),
            SourceKind::Basic => f.write_str("basic"),
        }
    }
}

impl fmt::Display for ParseSourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("write `claim:NAME`, `api-key:HEADER`, `header:HEADER` or `basic`")
    }
}

impl std::error::Error for ParseSourceError {}
