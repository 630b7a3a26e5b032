//! Which language a file is written in, before it is parsed. So a file with errors has a kind too.

/// What the names of a file's fields show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    /// It has `rules`.
    Native,
    /// It has `descriptors`, for envoyproxy/ratelimit.
    Envoy,
    /// It has `tests` of rules.
    Tests,
    /// None of these, or it is not text.
    Other,
}

impl FileKind {
    /// The kind of a file, by its first bytes or by all of them.
    pub fn of(bytes: &[u8]) -> Self {
        let text = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
        let text = match str::from_utf8(text) {
            Ok(text) => text,
            // The first bytes may end within a character.
            Err(error) if error.error_len().is_none() => {
                str::from_utf8(&text[..error.valid_up_to()]).unwrap_or_default()
            }
            Err(_) => return Self::Other,
        };
        if has_field(text, "rules") {
            Self::Native
        } else if has_field(text, "descriptors") {
            Self::Envoy
        } else if has_field(text, "tests") {
            Self::Tests
        } else {
            Self::Other
        }
    }
}

/// Whether a mapping has a field: in block style at the start of a line, in flow style (as in JSON) anywhere.
fn has_field(text: &str, name: &str) -> bool {
    let is_content = |line: &&str| !(line.trim().is_empty() || line.starts_with(['#', '%', '-']));
    let is_flow = text.lines().find(is_content).is_some_and(|line| line.trim_start().starts_with('{'));
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].trim_end_matches(['"', '\'']);
        let after = text[at + name.len()..].trim_start_matches(['"', '\'']).trim_start_matches([' ', '\t']);
        let begins = if is_flow {
            before.ends_with(['{', ',', ' ', '\t', '\n'])
        } else {
            before.is_empty() || before.ends_with('\n')
        };
        begins && after.starts_with(':')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_the_fields_show_the_kind() {
        for (text, kind) in [
            ("domain: a\ndescriptors:\n  - key: rules\n", FileKind::Envoy),
            ("\u{feff}# a comment\n---\ndescriptors: []\n", FileKind::Envoy),
            ("{\"domain\": \"a\", \"descriptors\" : []}", FileKind::Envoy),
            ("\n{ domain: a,\n  'descriptors': [ { key: rules } ] }", FileKind::Envoy),
            ("domain: a\n\"descriptors\":\n  - key: [unclosed\n", FileKind::Envoy),
            ("domain: a\nrules:\n  - name: b\n", FileKind::Native),
            ("rules: []", FileKind::Native),
            ("{domain: a, rules: []}", FileKind::Native),
            ("tests:\n  - name: a\n    domain: rules\n", FileKind::Tests),
            ("domain: a\ntests: []\nrules: []\n", FileKind::Native),
            ("domain: a\n", FileKind::Other),
            ("# About descriptors: they are lists\n", FileKind::Other),
            ("  descriptors: nested\n", FileKind::Other),
            ("", FileKind::Other),
        ] {
            assert_eq!(FileKind::of(text.as_bytes()), kind, "{text:?}");
        }
        assert_eq!(FileKind::of(b"descriptors: []\n\xff\xfe"), FileKind::Other, "not text");
        assert_eq!(FileKind::of(b"descriptors: []\n# caf\xc3"), FileKind::Envoy, "cut within a character");
    }
}
