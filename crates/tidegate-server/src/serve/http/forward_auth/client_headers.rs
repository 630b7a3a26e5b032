//! The headers of the client, without those that only Tidegate may send.

use hyper::header::{HeaderMap, HeaderValue};
use tidegate::identity::Headers;

/// Headers that Tidegate sends to proxies. A client could send them too, to be taken for something else.
const OWN_PREFIX: &str = "x-tidegate-";

/// Headers that hyper has read.
pub(crate) struct HeaderMapLines<'m>(pub &'m HeaderMap);

/// Headers that are not in a map.
pub(crate) struct ParsedLines<'h, 'i>(pub &'h [httparse::Header<'i>]);

impl Headers for HeaderMapLines<'_> {
    fn values<'h>(&'h self, name: &str) -> impl DoubleEndedIterator<Item = &'h [u8]> {
        let values = (!name.starts_with(OWN_PREFIX)).then(|| self.0.get_all(name));
        values.into_iter().flat_map(|values| values.into_iter().map(HeaderValue::as_bytes))
    }
}

impl Headers for ParsedLines<'_, '_> {
    fn values<'h>(&'h self, name: &str) -> impl DoubleEndedIterator<Item = &'h [u8]> {
        let lines = if name.starts_with(OWN_PREFIX) { &[] } else { self.0 };
        lines.iter().filter(move |line| line.name.eq_ignore_ascii_case(name)).map(|line| line.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_headers_give_the_same_values() {
        let lines = [("X-Plan", "a"), ("host", "h"), ("x-plan", "b"), ("X-Tidegate-Decision", "allowed")];
        let parsed = lines.map(|(name, value)| httparse::Header { name, value: value.as_bytes() });
        let parsed = ParsedLines(&parsed);
        let mut map = HeaderMap::new();
        for (name, value) in lines {
            map.append(name, HeaderValue::from_static(value));
        }
        let map = HeaderMapLines(&map);
        let expected: [(&str, &[&[u8]]); 4] =
            [("x-plan", &[b"a", b"b"]), ("host", &[b"h"]), ("x-tidegate-decision", &[]), ("x-other", &[])];
        for (name, values) in expected {
            assert_eq!(parsed.values(name).collect::<Vec<_>>(), values, "{name}");
            assert_eq!(map.values(name).collect::<Vec<_>>(), values, "{name}");
            let reversed: Vec<&[u8]> = values.iter().rev().copied().collect();
            assert_eq!(parsed.values(name).rev().collect::<Vec<_>>(), reversed, "{name}");
            assert_eq!(map.values(name).rev().collect::<Vec<_>>(), reversed, "{name}");
        }
    }
}
