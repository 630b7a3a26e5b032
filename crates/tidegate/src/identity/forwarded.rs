//! Reads X-Forwarded-For and Forwarded from the end.
//!
//! What a client wrote is on the left of what proxies wrote, and may be malformed: an open quote must not swallow the
//! entries of proxies. So each line is split from the right, and no entry spans two lines.

use std::net::IpAddr;

use tidegate_core::rules::parse_client_address;

use super::ForwardedHeader;

/// The addresses of all entries, the last one first. `None` stands for an entry that is no address, such as `unknown`:
/// it counts as an entry, else a client could write one to move the others.
pub(super) fn addresses_from_last<'v>(
    header: ForwardedHeader,
    lines: impl DoubleEndedIterator<Item = &'v [u8]>,
) -> impl Iterator<Item = Option<IpAddr>> {
    lines.rev().flat_map(move |line| EntriesFromLast { header, rest: Some(line) }).map(move |entry| {
        match header {
            ForwardedHeader::XForwardedFor => address(entry),
            ForwardedHeader::Forwarded => address(for_parameter(entry)?),
        }
    })
}

/// The entries of one line, from the right.
struct EntriesFromLast<'v> {
    header: ForwardedHeader,
    rest: Option<&'v [u8]>,
}

impl<'v> Iterator for EntriesFromLast<'v> {
    type Item = &'v [u8];

    fn next(&mut self) -> Option<&'v [u8]> {
        let line = self.rest.take()?;
        let comma = match self.header {
            ForwardedHeader::XForwardedFor => line.iter().rposition(|byte| *byte == b','),
            ForwardedHeader::Forwarded => last_outside_quotes(line, b','),
        };
        let Some(comma) = comma else { return Some(line) };
        self.rest = Some(&line[..comma]);
        Some(&line[comma + 1..])
    }
}

/// The last position of a byte outside quotes. Quotes are counted from the right.
fn last_outside_quotes(text: &[u8], wanted: u8) -> Option<usize> {
    let mut in_quotes = false;
    (0..text.len()).rev().find(|&at| {
        // Within quotes a backslash escapes a quote. Proxies write no backslashes: an address needs none.
        if text[at] == b'"' && !(in_quotes && at > 0 && text[at - 1] == b'\\') {
            in_quotes = !in_quotes;
        }
        text[at] == wanted && !in_quotes
    })
}

/// The value of `for` in an entry of Forwarded. `None` if there is none, or more than one.
fn for_parameter(entry: &[u8]) -> Option<&[u8]> {
    let mut rest = Some(entry);
    let mut found = None;
    while let Some(text) = rest {
        let (before, parameter) = match last_outside_quotes(text, b';') {
            Some(at) => (Some(&text[..at]), &text[at + 1..]),
            None => (None, text),
        };
        rest = before;
        let Some(equals) = parameter.iter().position(|byte| *byte == b'=') else { continue };
        if parameter[..equals].trim_ascii().eq_ignore_ascii_case(b"for") {
            if found.is_some() {
                return None;
            }
            found = Some(&parameter[equals + 1..]);
        }
    }
    found
}

fn address(text: &[u8]) -> Option<IpAddr> {
    let text = text.trim_ascii();
    let unquoted = text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")).unwrap_or(text);
    parse_client_address(str::from_utf8(unquoted).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(header: ForwardedHeader, lines: &[&str]) -> Vec<String> {
        let found = addresses_from_last(header, lines.iter().map(|line| line.as_bytes()));
        found.map(|address| address.map_or("-".to_owned(), |address| address.to_string())).collect()
    }

    #[test]
    fn entries_of_x_forwarded_for() {
        for (lines, expected) in [
            (vec![], vec![]),
            (vec!["1.1.1.1"], vec!["1.1.1.1"]),
            (vec!["1.1.1.1, 2.2.2.2,3.3.3.3"], vec!["3.3.3.3", "2.2.2.2", "1.1.1.1"]),
            (vec!["1.1.1.1, 2.2.2.2", "3.3.3.3"], vec!["3.3.3.3", "2.2.2.2", "1.1.1.1"]),
            (
                vec!["1.1.1.1:80", "[2001:db8::1]:443", "2001:db8::2"],
                vec!["2001:db8::2", "2001:db8::1", "1.1.1.1"],
            ),
            (vec!["\"[2001:db8::1]:443\"", "::ffff:1.2.3.4"], vec!["1.2.3.4", "2001:db8::1"]),
            (vec!["unknown, _hidden, 1.1.1.1"], vec!["1.1.1.1", "-", "-"]),
            (vec!["1.1.1.1,, ", ""], vec!["-", "-", "-", "1.1.1.1"]),
            (vec!["\", 1.1.1.1"], vec!["1.1.1.1", "-"]),
        ] {
            assert_eq!(addresses(ForwardedHeader::XForwardedFor, &lines), expected, "{lines:?}");
        }
    }

    #[test]
    fn entries_of_forwarded() {
        for (lines, expected) in [
            (vec!["for=1.1.1.1"], vec!["1.1.1.1"]),
            (vec!["For=1.1.1.1;proto=http;by=9.9.9.9"], vec!["1.1.1.1"]),
            (vec!["proto=http; for=\"[2001:db8:cafe::17]:4711\""], vec!["2001:db8:cafe::17"]),
            (vec!["for=1.1.1.1, for=\"2.2.2.2:80\"", "for=3.3.3.3"], vec!["3.3.3.3", "2.2.2.2", "1.1.1.1"]),
            (vec!["for=unknown, for=_x, by=1.1.1.1, for=1.1.1.1;for=2.2.2.2"], vec!["-", "-", "-", "-"]),
            (vec!["host=\"a,b;for=9.9.9.9\";for=1.1.1.1"], vec!["1.1.1.1"]),
            // Quotes of a client swallow nothing of what follows.
            (vec!["for=\", for=1.1.1.1"], vec!["1.1.1.1", "-"]),
            (vec!["for=\"", "for=1.1.1.1"], vec!["1.1.1.1", "-"]),
            (vec!["for=\"a\\\", for=\"1.1.1.1\""], vec!["1.1.1.1", "-"]),
        ] {
            assert_eq!(addresses(ForwardedHeader::Forwarded, &lines), expected, "{lines:?}");
        }
    }
}
