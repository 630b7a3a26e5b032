//! One spelling for each path. The attack: no spelling of `/login` may escape a rule for `/login`.

use proptest::prelude::*;
use tidegate::identity::{PATH_BYTES_MAX, PathError, normal_path};

fn normal(target: &str) -> Result<String, PathError> {
    normal_path(target.as_bytes()).map(Into::into)
}

#[test]
fn spellings_and_their_normal_form() {
    for (target, expected) in [
        ("/", "/"),
        ("/login", "/login"),
        ("/login?a=/b", "/login"),
        ("/login#a", "/login"),
        ("//login", "/login"),
        ("/login//", "/login"),
        ("/a//b", "/a/b"),
        ("/%6cogin", "/login"),
        ("/%6Cogi%6E", "/login"),
        ("/./login/.", "/login"),
        ("/a/../login", "/login"),
        ("/../login", "/login"),
        ("/a/%2e%2E/login", "/login"),
        ("/.%2e/login", "/login"),
        ("/login/x/..", "/login"),
        ("/..", "/"),
        ("/login;x=1", "/login"),
        ("/;/login;a;b/", "/login"),
        // Names with dots are no dot segments.
        ("/.well-known/...", "/.well-known/..."),
        // A character that is not plain has one spelling: encoded, in upper case.
        ("/a%2fb?", "slash"),
        ("/a%3ab%2c", "/a:b,"),
        ("/caf\u{e9}", "/caf%C3%A9"),
        ("/caf%c3%a9", "/caf%C3%A9"),
        ("/a b\"{c}", "/a%20b%22%7Bc%7D"),
        ("/a%3fb%23c%3b", "/a%3Fb%23c%3B"),
        // Encoded twice: it is another path, unless an upstream decodes twice.
        ("/%256Cogin", "/%256Cogin"),
        // Absolute URIs.
        ("http://example.org", "/"),
        ("HTTPS://u@example.org:8080/login/", "/login"),
        ("http://example.org?/login", "/"),
        ("*", "*"),
        ("", "not_a_path"),
        ("login", "not_a_path"),
        ("example.org:443", "not_a_path"),
        ("1://", "/"),
        ("://a/login", "not_a_path"),
        ("a/b://c/login", "not_a_path"),
        ("http://a\\login", "slash"),
        ("/a\\login", "slash"),
        ("/a%5clogin", "slash"),
        ("/login%00", "control"),
        ("/login%0A", "control"),
        ("/login\u{7f}", "control"),
        ("/%6", "encoding"),
        ("/%", "encoding"),
        ("/%u006cogin", "encoding"),
        ("/%+6login", "encoding"),
        // Overlong: two to six bytes for `l`.
        ("/%c1%acogin", "encoding"),
        ("/%e0%81%acogin", "encoding"),
        ("/%f0%80%81%acogin", "encoding"),
        ("/%f8%80%80%81%acogin", "encoding"),
        ("/%fc%80%80%80%81%acogin", "encoding"),
        // The bounds of what UTF-8 has.
        ("/%df%bf", "/%DF%BF"),
        ("/%e0%9f%bf", "encoding"),
        ("/%e0%a0%80", "/%E0%A0%80"),
        ("/%f0%8f%bf%bf", "encoding"),
        ("/%f0%90%80%80", "/%F0%90%80%80"),
        ("/%f4%8f%bf%bf", "/%F4%8F%BF%BF"),
        ("/%f4%90%80%80", "encoding"),
        // Surrogates: a second encoding of characters that have four bytes.
        ("/%ed%9f%bf", "/%ED%9F%BF"),
        ("/%ed%a0%80", "encoding"),
        ("/%ed%a0%bd%ed%b8%80", "encoding"),
        // Bytes that some upstreams leave out.
        ("/login%ff", "encoding"),
        ("/lo%e9gin", "encoding"),
        ("/%80login", "encoding"),
        ("/%c3/%a9", "encoding"),
        ("/%c3;%a9", "encoding"),
        // Half of it is encoded.
        ("/caf\u{e9}/caf%c3%a9", "/caf%C3%A9/caf%C3%A9"),
        ("/a/..;/login", "dot_segment"),
        ("/a/.;x/login", "dot_segment"),
        ("/login//..", "dot_segment"),
        ("/login//x/../..", "dot_segment"),
        ("/login/;/..", "dot_segment"),
        ("/login/%2e/..", "dot_segment"),
        ("/login/%2E./x/..", "dot_segment"),
        ("/a/../%2e/login", "/login"),
    ] {
        let found = normal(target).unwrap_or_else(|error| error.as_str().to_owned());
        assert_eq!(found, expected, "{target:?}");
    }
}

#[test]
fn long_paths_are_refused() {
    let longest = format!("/{}", "a".repeat(PATH_BYTES_MAX - 1));
    assert_eq!(normal(&format!("{longest}?{longest}")), Ok(longest.clone()));
    assert_eq!(normal(&format!("{longest}a")), Err(PathError::TooLong));
    let slashes = "/".repeat(PATH_BYTES_MAX);
    assert_eq!(normal(&slashes), Ok("/".to_owned()));
}

/// How an upstream finds the handler of a path.
#[derive(Clone, Copy, Debug)]
struct Upstream {
    removes_parameters: bool,
    merges_slashes: bool,
    decodes_slashes: bool,
    takes_backslashes_for_slashes: bool,
    decodes_before_dots: bool,
    resolves_dots: bool,
    text_decoder: TextDecoder,
}

/// How an upstream turns bytes into text.
#[derive(Clone, Copy, Debug)]
enum TextDecoder {
    Latin1,
    /// UTF-8 without checks: it takes overlong encodings.
    LaxUtf8,
    /// UTF-8 without the bytes that are invalid.
    Utf8WithoutInvalid,
}

impl Upstream {
    fn all() -> impl Iterator<Item = Self> {
        let decoders = [TextDecoder::Latin1, TextDecoder::LaxUtf8, TextDecoder::Utf8WithoutInvalid];
        decoders.into_iter().flat_map(|text_decoder| {
            (0..64_u8).map(move |bits| {
                let is = |bit: u8| bits >> bit & 1 == 1;
                Self {
                    text_decoder,
                    removes_parameters: is(0),
                    merges_slashes: is(1),
                    decodes_slashes: is(2),
                    takes_backslashes_for_slashes: is(3),
                    decodes_before_dots: is(4),
                    resolves_dots: is(5),
                }
            })
        })
    }

    /// The path as this upstream sees it, without a slash at the end. `None` if it refuses the path.
    fn path(self, target: &str) -> Option<String> {
        let mut path = target.split(['?', '#']).next()?.to_owned();
        if self.removes_parameters {
            let name = |segment: &str| segment.split(';').next().unwrap_or_default().to_owned();
            path = path.split('/').map(name).collect::<Vec<_>>().join("/");
        }
        if self.decodes_before_dots {
            path = self.decode(&path)?;
        }
        if self.takes_backslashes_for_slashes {
            path = path.replace('\\', "/");
        }
        let mut segments: Vec<&str> = Vec::new();
        for segment in path.split('/').skip(1).filter(|segment| !self.merges_slashes || !segment.is_empty()) {
            match segment {
                "." if self.resolves_dots => {}
                ".." if self.resolves_dots => drop(segments.pop()),
                segment => segments.push(segment),
            }
        }
        let path = format!("/{}", segments.join("/"));
        let path = if self.decodes_before_dots { path } else { self.decode(&path)? };
        // A handler ends at NUL in C, and at a line end for some regular expressions.
        let path = path.split(['\0', '\n']).next()?;
        Some(path.trim_end_matches('/').to_owned())
    }

    fn decode(self, path: &str) -> Option<String> {
        let mut parts = path.split('%');
        let mut decoded = parts.next()?.as_bytes().to_vec();
        for part in parts {
            match u8::from_str_radix(part.get(..2)?, 16).ok()? {
                b'/' if !self.decodes_slashes => decoded.extend(b"%2F"),
                byte => decoded.push(byte),
            }
            decoded.extend(&part.as_bytes()[2..]);
        }
        Some(self.text_decoder.decode(&decoded))
    }
}

impl TextDecoder {
    fn decode(self, bytes: &[u8]) -> String {
        match self {
            Self::Latin1 => bytes.iter().copied().map(char::from).collect(),
            Self::Utf8WithoutInvalid => {
                String::from_utf8_lossy(bytes).replace(char::REPLACEMENT_CHARACTER, "")
            }
            Self::LaxUtf8 => {
                let (mut text, mut rest) = (String::new(), bytes.iter());
                while let Some(&first) = rest.next() {
                    let length = first.leading_ones();
                    let start = if length == 0 { first } else { first & (0x7f_u8 >> length.min(7)) };
                    let following = rest.by_ref().take(length.saturating_sub(1) as usize);
                    let code =
                        following.fold(u32::from(start), |code, byte| code << 6 | u32::from(byte & 0x3f));
                    text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                text
            }
        }
    }
}

/// A character, plain or encoded.
fn spelled(text: &'static str) -> impl Strategy<Value = String> {
    let character = |byte: u8| {
        prop_oneof![
            2 => Just(char::from(byte).to_string()),
            1 => Just(format!("%{byte:02x}")),
            1 => Just(format!("%{byte:02X}")),
        ]
    };
    text.bytes().map(character).collect::<Vec<_>>().prop_map(|characters| characters.concat())
}

/// An overlong encoding of an ASCII character, with up to six bytes.
fn overlong(character: u8, bytes: u32) -> String {
    let first = !(0xff_u8 >> bytes) | if bytes == 2 { character >> 6 } else { 0 };
    let following = (1..bytes).rev().map(|index| match index {
        1 => character & 0x3f,
        2 => character >> 6,
        _ => 0,
    });
    let all = std::iter::once(first).chain(following.map(|bits| 0x80 | bits));
    all.map(|byte| format!("%{byte:02x}")).collect()
}

/// As [`spelled`], and perhaps with one character that is overlong, or with bytes that are not UTF-8.
fn hostile(text: &'static str) -> impl Strategy<Value = String> {
    let invalid = prop::sample::select(vec!["%ff", "%e9", "%80", "%c3", "%ed%a0%80"]);
    let one_overlong = (0..text.len(), 2..=6_u32).prop_map(|(index, bytes)| {
        let (before, from) = text.split_at(index);
        format!("{before}{}{}", overlong(from.as_bytes()[0], bytes), &from[1..])
    });
    let with_invalid = (0..=text.len(), invalid).prop_map(|(index, invalid)| {
        let (before, after) = text.split_at(index);
        format!("{before}{invalid}{after}")
    });
    prop_oneof![8 => spelled(text), 1 => one_overlong, 1 => with_invalid]
}

#[test]
fn overlong_encodings_of_a_letter() {
    let spellings = (2..=6).map(|bytes| overlong(b'l', bytes)).collect::<Vec<_>>();
    assert_eq!(spellings, ["%c1%ac", "%e0%81%ac", "%f0%80%81%ac", "%f8%80%80%81%ac", "%fc%80%80%80%81%ac"]);
}

/// A segment of a hostile path.
fn segment() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        4 => hostile("login"),
        4 => hostile(".."),
        3 => Just(String::new()),
        1 => hostile("."),
        1 => spelled("x"),
    ];
    let parameters =
        prop_oneof![6 => Just(""), 1 => Just(";"), 1 => Just(";v=1"), 1 => Just("%00"), 1 => Just("%0a")];
    (name, parameters).prop_map(|(name, parameters)| name + parameters)
}

/// A hostile path: segments, and what might separate them.
fn hostile_target() -> impl Strategy<Value = String> {
    let separator =
        prop_oneof![12 => Just("/"), 1 => Just("%2f"), 1 => Just("\\"), 1 => Just("%5C"), 1 => Just("?")];
    let parts = prop::collection::vec((segment(), separator), 1..7);
    parts.prop_map(|parts| {
        let text: String =
            parts.iter().flat_map(|(segment, separator)| [segment.as_str(), separator]).collect();
        let (_, last) = parts.last().expect("a segment");
        format!("/{}", text.strip_suffix(last).unwrap_or(&text))
    })
}

proptest! {
    #![proptest_config(tidegate_testing::proptest_config(4000))]

    /// If any kind of upstream takes a spelling for `/login`, the rule for `/login` matches it, or it is refused.
    #[test]
    fn no_spelling_of_login_escapes(target in hostile_target()) {
        let normal = normal(&target);
        for upstream in Upstream::all() {
            if upstream.path(&target).as_deref() == Some("/login") {
                prop_assert!(normal.as_deref().is_ok_and(|path| path == "/login") || normal.is_err(), "{target} is {normal:?} for {upstream:?}");
            }
        }
    }

    /// Spellings that ordinary proxies and clients produce are not refused.
    #[test]
    fn harmless_spellings_are_the_login(
        before in prop_oneof![Just(""), Just("/"), Just("/."), Just("/a/.."), Just("http://example.org")],
        name in spelled("login"),
        after in prop_oneof![Just(""), Just("/"), Just("/."), Just("/x/.."), Just(";x=1"), Just("?x=%zz"), Just("#/")],
    ) {
        let target = format!("{before}/{name}{after}");
        prop_assert_eq!(normal(&target), Ok("/login".to_owned()), "{}", target);
    }

    #[test]
    fn the_normal_form_is_normal(
        target in prop_oneof![prop::collection::vec(any::<u8>(), 0..24), "\\PC{0,24}".prop_map(String::into_bytes)],
        start in "(/|http://a)",
    ) {
        let target = [start.as_bytes(), &target].concat();
        if let Ok(path) = normal_path(&target) {
            let again = normal_path(path.as_bytes());
            prop_assert_eq!(again.as_deref(), Ok(&*path));
            prop_assert!(path.starts_with('/') && path.is_ascii());
        }
    }
}
