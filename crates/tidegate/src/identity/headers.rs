//! The headers of a request, whichever HTTP library read them.

use std::borrow::Cow;

/// The headers of a request. Implemented for slices of names and values; other types need a few lines.
pub trait Headers {
    /// The values of all header lines with this name, in order. The name is in lower case; names of lines are not
    /// case-sensitive.
    fn values<'h>(&'h self, name: &str) -> impl DoubleEndedIterator<Item = &'h [u8]>;
}

impl<N: AsRef<[u8]>, V: AsRef<[u8]>> Headers for [(N, V)] {
    fn values<'h>(&'h self, name: &str) -> impl DoubleEndedIterator<Item = &'h [u8]> {
        let lines = self.iter().filter(move |(line, _)| line.as_ref().eq_ignore_ascii_case(name.as_bytes()));
        lines.map(|(_, value)| value.as_ref())
    }
}

impl<N: AsRef<[u8]>, V: AsRef<[u8]>, const LENGTH: usize> Headers for [(N, V); LENGTH] {
    fn values<'h>(&'h self, name: &str) -> impl DoubleEndedIterator<Item = &'h [u8]> {
        self.as_slice().values(name)
    }
}

/// The value of a header. Several lines are joined as RFC 9110 and, for cookies, RFC 9113 say. Bytes that are not UTF-8
/// are replaced, so that a header cannot be hidden by one.
pub(super) fn joined<'h>(headers: &'h (impl Headers + ?Sized), name: &str) -> Option<Cow<'h, str>> {
    let mut values = headers.values(name).map(<[u8]>::trim_ascii);
    let mut joined = String::from_utf8_lossy(values.next()?);
    for value in values {
        let joined = joined.to_mut();
        joined.push_str(if name == "cookie" { "; " } else { ", " });
        joined.push_str(&String::from_utf8_lossy(value));
    }
    Some(joined)
}

/// The value of a header that has one line and is not empty.
pub(super) fn only<'h>(headers: &'h (impl Headers + ?Sized), name: &str) -> Option<&'h [u8]> {
    let mut values = headers.values(name).map(<[u8]>::trim_ascii);
    let first = values.next().filter(|value| !value.is_empty())?;
    values.next().is_none().then_some(first)
}
