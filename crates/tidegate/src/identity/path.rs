//! One spelling for each path, so that a rule for `/login` matches every spelling of it.
//!
//! Only the attribute `path` is normalised. The request itself goes to the upstream as the client wrote it. So where
//! upstreams disagree about what a spelling means, there is no right answer: those spellings are refused, unless ordinary
//! clients use them. The table in `docs/identity.md` lists what is done with each spelling, and why.

use std::borrow::Cow;
use std::fmt;

use smallvec::SmallVec;

/// The most bytes of a path, without the query.
pub const PATH_BYTES_MAX: usize = 16 * 1024;

/// Why a path is refused. Answer such a request with status 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PathError {
    /// It has more than [`PATH_BYTES_MAX`] bytes.
    TooLong,
    /// It is neither a path nor an absolute URI.
    NotAPath,
    /// A `%` that two hexadecimal digits do not follow, or bytes that are not UTF-8, encoded or not. Some upstreams take
    /// overlong encodings for ASCII, and some leave out invalid bytes.
    Encoding,
    /// An encoded slash, or a backslash, encoded or not: some upstreams take these for a slash, others do not.
    Slash,
    /// NUL or another control character.
    Control,
    /// `..` after an empty segment or an encoded dot segment, or a dot segment with parameters (`..;x`): upstreams resolve
    /// these differently.
    DotSegment,
}

/// The path of a request target in its normal form: without query, parameters (`;x=1`), empty segments, dot segments and
/// a slash at the end; percent-encoded only where necessary.
///
/// The target is a path with or without a query, an absolute URI, or `*`. The normal form of a normal form is the same.
///
/// ```
/// use tidegate::identity::{PathError, normal_path};
///
/// for target in ["/login", "//login/", "/%6Cogin?next=/", "/a/../login;x=1", "http://example.org/./login"] {
///     assert_eq!(normal_path(target.as_bytes())?, "/login");
/// }
/// assert_eq!(normal_path(b"/a%2flogin"), Err(PathError::Slash));
/// # Ok::<(), PathError>(())
/// ```
pub fn normal_path(target: &[u8]) -> Result<Cow<'_, str>, PathError> {
    let Target { path, .. } = Target::split(target)?;
    if path.len() > PATH_BYTES_MAX {
        return Err(PathError::TooLong);
    }
    if let Some(path) = as_normal(path) {
        return Ok(Cow::Borrowed(path));
    }
    resolve_segments(path, &recode(path)?).map(Cow::Owned)
}

/// The parts of a request target.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    /// The authority of an absolute URI.
    pub(super) authority: Option<&'a [u8]>,
    pub(super) path: &'a [u8],
}

impl<'a> Target<'a> {
    pub(super) fn split(target: &'a [u8]) -> Result<Self, PathError> {
        let end = target.iter().position(|byte| matches!(byte, b'?' | b'#')).unwrap_or(target.len());
        let target = &target[..end];
        if target.first() == Some(&b'/') || target == b"*" {
            return Ok(Self { authority: None, path: target });
        }
        let scheme_end = target.windows(3).position(|bytes| bytes == b"://").ok_or(PathError::NotAPath)?;
        let scheme = &target[..scheme_end];
        if scheme.is_empty()
            || !scheme.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte))
        {
            return Err(PathError::NotAPath);
        }
        let rest = &target[scheme_end + 3..];
        let path_start = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(path_start);
        // A backslash ends the authority for some.
        if authority.contains(&b'\\') {
            return Err(PathError::Slash);
        }
        Ok(Self { authority: Some(authority), path: if path.is_empty() { b"/" } else { path } })
    }
}

/// The path as it is, if one look at each byte shows that it is normal.
fn as_normal(path: &[u8]) -> Option<&str> {
    let mut previous = 0;
    for &byte in path {
        let is_normal = match byte {
            // An empty segment, or perhaps a dot segment.
            b'/' | b'.' => previous != b'/',
            _ => is_plain(byte),
        };
        if !is_normal {
            return None;
        }
        previous = byte;
    }
    let ends_well = previous != b'/' || path.len() == 1;
    if ends_well { str::from_utf8(path).ok() } else { None }
}

/// Whether a character stands for itself in a segment, so that its percent-encoding means the same: those of RFC 3986,
/// except `;`, which begins parameters.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,=:@".contains(&byte)
}

/// Decodes plain characters and encodes all others, once. Slashes and semicolons keep their meaning.
fn recode(path: &[u8]) -> Result<Vec<u8>, PathError> {
    let mut recoded = Vec::with_capacity(path.len());
    let mut decoded = SmallVec::<[u8; 128]>::new();
    let mut rest = path.iter();
    while let Some(&byte) = rest.next() {
        if byte == b'/' || byte == b';' {
            recoded.push(byte);
            decoded.push(byte);
            continue;
        }
        let mut hex_digit = || rest.next().and_then(|digit| char::from(*digit).to_digit(16));
        let (byte, is_encoded) = match byte {
            b'%' => match (hex_digit(), hex_digit()) {
                (Some(high), Some(low)) => (u8::try_from(high << 4 | low).unwrap_or(0), true),
                _ => return Err(PathError::Encoding),
            },
            _ => (byte, false),
        };
        decoded.push(byte);
        match byte {
            b'\\' => return Err(PathError::Slash),
            b'/' if is_encoded => return Err(PathError::Slash),
            0..=0x1f | 0x7f => return Err(PathError::Control),
            _ if is_plain(byte) => recoded.push(byte),
            _ => {
                const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
                recoded.extend([b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
            }
        }
    }
    // A lax upstream may see ASCII in other bytes.
    match str::from_utf8(&decoded) {
        Ok(_) => Ok(recoded),
        Err(_) => Err(PathError::Encoding),
    }
}

/// Removes parameters, empty segments and dot segments. `written` is the path as the client wrote it.
fn resolve_segments(written: &[u8], path: &[u8]) -> Result<String, PathError> {
    let mut segments: SmallVec<[&[u8]; 16]> = SmallVec::new();
    let mut has_encoded_dots = false;
    let is_slash = |byte: &u8| *byte == b'/';
    // Both have the same slashes.
    for (written, segment) in written.split(is_slash).zip(path.split(is_slash)).skip(1) {
        let parameters = segment.iter().position(|byte| *byte == b';');
        let name = &segment[..parameters.unwrap_or(segment.len())];
        if name == b"." || name == b".." {
            // An upstream that resolves dot segments before it decodes takes encoded ones for names, which `..` removes.
            let is_encoded = written != name;
            if parameters.is_some() || (has_encoded_dots && !is_encoded && name == b"..") {
                return Err(PathError::DotSegment);
            }
            has_encoded_dots |= is_encoded;
        }
        match name {
            b"." => {}
            // Above the root there is the root. Upstreams that keep empty segments would remove only the empty one.
            b".." => {
                if let Some([]) = segments.pop() {
                    return Err(PathError::DotSegment);
                }
            }
            name => segments.push(name),
        }
    }
    segments.retain(|segment| !segment.is_empty());
    let mut normal = String::with_capacity(path.len());
    for segment in segments {
        normal.push('/');
        // All bytes are ASCII after `recode`.
        normal.extend(segment.iter().copied().map(char::from));
    }
    Ok(if normal.is_empty() { "/".to_owned() } else { normal })
}

impl PathError {
    /// A word for it, in metrics and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TooLong => "too_long",
            Self::NotAPath => "not_a_path",
            Self::Encoding => "encoding",
            Self::Slash => "slash",
            Self::Control => "control",
            Self::DotSegment => "dot_segment",
        }
    }
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "the path has more than {PATH_BYTES_MAX} bytes"),
            Self::NotAPath => {
                f.write_str("the target is neither a path that begins with `/` nor an absolute URI")
            }
            Self::Encoding => f.write_str(
                "the path has a `%` that is not followed by two hexadecimal digits, or invalid UTF-8",
            ),
            Self::Slash => f.write_str("the path has an encoded slash or a backslash"),
            Self::Control => f.write_str("the path has a NUL or another control character"),
            Self::DotSegment => f.write_str(
                "the path has `..` after an empty or encoded segment, or a dot segment with parameters",
            ),
        }
    }
}

impl std::error::Error for PathError {}
