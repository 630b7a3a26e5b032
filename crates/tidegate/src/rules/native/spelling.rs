//! Warnings about names and values that are most likely misspelt.
//!
//! Any name that is not reserved is a descriptor key, so an unknown name is no error. Only a name that is one
//! keystroke away from a reserved one, or that is a reserved one in the spelling of another tool, is reported.

use tidegate_core::rules::Attribute;
use tidegate_core::text::did_you_mean;

use crate::rules::diagnostic::Diagnostic;
use crate::rules::yaml::{Node, Reader, printable};

/// Reserved names that are long enough for a near miss to be a mistake. `ip` is too short: `id` is a name.
const LONG_RESERVED_NAMES: [&str; 3] = ["method", "path", "host"];

/// Words one keystroke away from a reserved name that are names of their own.
const OTHER_WORDS: [&str; 3] = ["patch", "pat", "hot"];

/// How other tools write the header of a request, apart from misspelt forms of `header.`.
const HEADER_PREFIXES: [&str; 8] = [
    "headers.",
    "header:",
    "headers:",
    "header/",
    "request.header.",
    "request.headers.",
    "req.header.",
    "req.headers.",
];

/// The methods of RFC 9110 and its registry, and those that caches use.
const METHODS: [&str; 43] = [
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "DELETE",
    "CONNECT",
    "OPTIONS",
    "TRACE",
    "PATCH",
    "QUERY",
    "ACL",
    "BASELINE-CONTROL",
    "BIND",
    "CHECKIN",
    "CHECKOUT",
    "COPY",
    "LABEL",
    "LINK",
    "LOCK",
    "MERGE",
    "MKACTIVITY",
    "MKCALENDAR",
    "MKCOL",
    "MKREDIRECTREF",
    "MKWORKSPACE",
    "MOVE",
    "ORDERPATCH",
    "PRI",
    "PROPFIND",
    "PROPPATCH",
    "REBIND",
    "REPORT",
    "SEARCH",
    "UNBIND",
    "UNCHECKOUT",
    "UNLINK",
    "UNLOCK",
    "UPDATE",
    "UPDATEREDIRECTREF",
    "VERSION-CONTROL",
    "PURGE",
    "BAN",
    "REFRESH",
];

/// Warns about a name that is most likely meant to be a reserved one.
pub(super) fn warn_attribute(reader: &mut Reader<'_>, node: &Node) {
    let Some(text) = node.text() else { return };
    let Some(hint) = attribute_hint(text) else { return };
    let message = format!("`{}` is an attribute without a special meaning", printable(text));
    reader.push(Diagnostic::warning("misspelt-attribute", node.span, message).hint(hint));
}

fn attribute_hint(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    if lower == "header" || lower == "headers" {
        return Some("name the header: `header.x-api-key`".to_owned());
    }
    let header = |name: &str| Some(format!("did you mean `header.{}`?", printable(name)));
    if let Some(name) = HEADER_PREFIXES.iter().find_map(|prefix| lower.strip_prefix(prefix)) {
        return header(name);
    }
    let in_brackets = lower.strip_prefix("headers[").or_else(|| lower.strip_prefix("header["));
    if let Some(name) = in_brackets.and_then(|rest| rest.strip_suffix(']')) {
        return header(name.trim_matches(['"', '\'']));
    }
    match lower.split_once('.') {
        Some((stem, name)) if is_one_edit(stem, "header") => header(name),
        _ if OTHER_WORDS.contains(&lower.as_str()) => None,
        _ => {
            let meant = LONG_RESERVED_NAMES.iter().find(|name| is_one_edit(&lower, name))?;
            Some(format!("did you mean `{meant}`?"))
        }
    }
}

/// Where a value is written, which decides how to say that an odd one is intended.
#[derive(Clone, Copy, Debug)]
pub(super) enum ValuePlace {
    /// Alone, so that a matcher can take its place.
    Alone,
    /// In a list, which has no matchers.
    InList,
}

impl ValuePlace {
    pub(super) fn how_to_intend(self, text: &str) -> String {
        match self {
            Self::Alone => format!("write `{{ exact: \"{}\" }}` if it is intended", printable(text)),
            Self::InList => "write `{ regex: ... }` instead of the list if it is intended".to_owned(),
        }
    }
}

/// Warns about a method that does not exist.
pub(super) fn warn_method(reader: &mut Reader<'_>, node: &Node, attribute: &Attribute, place: ValuePlace) {
    let Some(text) = node.text().filter(|_| *attribute == Attribute::Method) else { return };
    // Names of remote procedures are values of a descriptor key `method` too, but not in capital letters.
    let looks_like_method = !text.is_empty() && text.bytes().all(|b| b.is_ascii_uppercase());
    if !looks_like_method || METHODS.contains(&text) {
        return;
    }
    let message = format!("`{}` is not a method of HTTP", printable(text));
    let intended = place.how_to_intend(text);
    let hint = match did_you_mean(text, &METHODS) {
        Some(meant) => format!("{meant} Or else {intended}"),
        None => intended,
    };
    reader.push(Diagnostic::warning("unknown-method", node.span, message).hint(hint));
}

/// Warns about a path with placeholders as other tools write them.
pub(super) fn warn_path(reader: &mut Reader<'_>, node: &Node, attribute: &Attribute, place: ValuePlace) {
    let Some(text) = node.text().filter(|_| *attribute == Attribute::Path) else { return };
    let Some(literal) = text.split('/').find(|segment| placeholder(segment).is_some()) else { return };
    let meant: Vec<_> = text
        .split('/')
        .map(|segment| placeholder(segment).map_or_else(|| segment.to_owned(), |name| format!("{{{name}}}")))
        .collect();
    let message = format!("the segment `{}` is plain text", printable(literal));
    let intended = place.how_to_intend(text);
    let hint = format!("did you mean `{}`? Or else {intended}", printable(&meant.join("/")));
    reader.push(Diagnostic::warning("path-syntax", node.span, message).hint(hint));
}

/// Whether a path has placeholders as other tools write them.
#[cfg(feature = "identity")]
pub(super) fn has_placeholder(path: &str) -> bool {
    path.split('/').any(|segment| placeholder(segment).is_some())
}

/// What to write instead of a path, or a pattern of paths, that is not in its normal form. None if it is.
#[cfg(feature = "identity")]
pub(super) fn normal_form_hint(pattern: &str) -> Option<String> {
    use crate::identity::normal_path;

    // The braces of `{name}` are characters that a normal form would encode.
    let path = pattern.replace(['{', '}'], "_");
    let has_names = path != pattern;
    match normal_path(path.as_bytes()) {
        Ok(normal) if normal == path => None,
        Ok(normal) if !has_names => Some(format!("write `{}`", printable(&normal))),
        Ok(_) => {
            Some("write the path as docs/identity.md says, for example without a slash at the end".to_owned())
        }
        Err(error) => Some(format!("such requests are refused, because {error}")),
    }
}

/// The directory in a matcher that needs the slash after it: `/admin` in `{ prefix: /admin/ }`.
#[cfg(feature = "identity")]
pub(super) fn directory<'t>(matcher: &str, text: &'t str) -> Option<&'t str> {
    let ends: &[&str] = match matcher {
        "prefix" => &["/"],
        "wildcard" => &["/*", "/"],
        "regex" => &["/.*", "/"],
        _ => &[],
    };
    let directory = ends.iter().find_map(|end| text.strip_suffix(end));
    // The root keeps its slash.
    directory.filter(|directory| !matches!(*directory, "" | "^" | "*" | ".*"))
}

/// A pattern for a [`directory`] and what is below it.
#[cfg(feature = "identity")]
pub(super) fn directory_pattern(matcher: &str, directory: &str) -> String {
    let is_plain = !directory.contains(['{', '}', '*']);
    match matcher {
        "regex" => format!("{{ regex: \"{directory}(/.*)?\" }}"),
        _ if is_plain => format!("{directory}/**"),
        _ => "{ regex: \"...(/.*)?\" }".to_owned(),
    }
}

/// The name in `:id`, `<id>`, `<int:id>` or `[id]`.
fn placeholder(segment: &str) -> Option<&str> {
    let between = |open, close| segment.strip_prefix(open)?.strip_suffix(close);
    let name = segment
        .strip_prefix(':')
        .or_else(|| between('<', '>').map(|name| name.rsplit_once(':').map_or(name, |(_, name)| name)))
        .or_else(|| between('[', ']'))?;
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    is_name.then_some(name)
}

/// Whether one keystroke turns `word` into `known`: a letter too many, one missing, a wrong one, or two
/// swapped. The first letter and digits are hardly ever wrong, so they make another word: `cost`, `path2`.
fn is_one_edit(word: &str, known: &str) -> bool {
    let (word, known) = (word.as_bytes(), known.as_bytes());
    if word == known || word.first() != known.first() || !word.iter().all(u8::is_ascii_lowercase) {
        return false;
    }
    let same_start = word.iter().zip(known).take_while(|(a, b)| a == b).count();
    let (word, known) = (&word[same_start..], &known[same_start..]);
    match (word, known) {
        ([_, word @ ..], _) if word == known => true,
        (_, [_, known @ ..]) if word == known => true,
        ([_, word @ ..], [_, known @ ..]) if word == known => true,
        ([a, b, word @ ..], [c, d, known @ ..]) => (a, b) == (d, c) && word == known,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_keystroke() {
        for word in ["pth", "ath", "paht", "psth", "patth", "paths", "pathh", "pat"] {
            assert_eq!(is_one_edit(word, "path"), word != "ath", "{word}");
        }
        for word in ["path", "math", "path2", "path_", "pt", "phta", "", "p", "pathos", "püth"] {
            assert!(!is_one_edit(word, "path"), "{word}");
        }
    }

    #[test]
    fn names_of_their_own() {
        let names = [
            "user",
            "plan",
            "tenant",
            "id",
            "zip",
            "ip_address",
            "remote_address",
            "masked_remote_address",
            "generic_key",
            "header_match",
            "header_x",
            "cost",
            "post",
            "most",
            "patch",
            "pat",
            "hot",
            "path1",
            "host2",
            "path_prefix",
            "x-user",
            "metro",
            "methodology",
            "oauth.scope",
            "leader.id",
            "algo",
            "hostname",
        ];
        for name in names {
            assert_eq!(attribute_hint(name), None, "{name}");
        }
    }

    #[cfg(feature = "identity")]
    #[test]
    fn normal_forms() {
        for path in
            ["/", "/login", "/a/b.c", "/caf%C3%A9", "/users/{id}/posts", "/files/**", "/.well-known/x"]
        {
            assert_eq!(normal_form_hint(path), None, "{path}");
        }
        for (path, hint) in [
            ("/login/", "write `/login`"),
            ("//login", "write `/login`"),
            ("/caf%c3%a9", "write `/caf%C3%A9`"),
            ("/café", "write `/caf%C3%A9`"),
            ("/a/../b", "write `/b`"),
            ("/login;v=1", "write `/login`"),
            ("/api/*/", "write `/api/*`"),
            ("/users/{id}/", "without a slash at the end"),
            ("/a%2fb", "are refused, because the path has an encoded slash"),
        ] {
            let found = normal_form_hint(path).unwrap_or_default();
            assert!(found.contains(hint), "{path}: {found}");
        }
    }

    #[cfg(feature = "identity")]
    #[test]
    fn directories() {
        for (matcher, text, pattern) in [
            ("prefix", "/admin/", "/admin/**"),
            ("prefix", "/a*b/", "{ regex: \"...(/.*)?\" }"),
            ("wildcard", "/admin/*", "/admin/**"),
            ("wildcard", "/admin/", "/admin/**"),
            ("wildcard", "*/admin/*", "{ regex: \"...(/.*)?\" }"),
            ("regex", "/v[0-9]/.*", "{ regex: \"/v[0-9](/.*)?\" }"),
            ("regex", "/admin/", "{ regex: \"/admin(/.*)?\" }"),
        ] {
            let found = directory(matcher, text).map(|directory| directory_pattern(matcher, directory));
            assert_eq!(found.as_deref(), Some(pattern), "{matcher} {text}");
        }
        for (matcher, text) in [
            ("prefix", "/"),
            ("prefix", "/admin"),
            ("wildcard", "/*"),
            ("wildcard", "*/"),
            ("wildcard", "/admin*"),
            ("regex", "/.*"),
            ("regex", "^/.*"),
            ("regex", "/admin/.+"),
            ("regex", "/admin(/.*)?"),
            ("exact", "/admin/"),
        ] {
            assert_eq!(directory(matcher, text), None, "{matcher} {text}");
        }
    }

    #[test]
    fn placeholders() {
        for (segment, name) in
            [(":id", "id"), ("<id>", "id"), ("<int:user_id>", "user_id"), ("[slug]", "slug")]
        {
            assert_eq!(placeholder(segment), Some(name));
        }
        for segment in ["users:batch", ":", "<>", "[]", "[0-9]+", "{id}", "*", "", "a<b>", ":80"] {
            assert_eq!(placeholder(segment), None, "{segment}");
        }
    }
}
