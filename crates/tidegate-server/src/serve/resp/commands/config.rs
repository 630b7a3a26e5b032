//! `CONFIG GET`: redis-benchmark and other tools ask for it when they start.

use super::{help, unknown_subcommand, wrong_number_of_arguments};
use crate::serve::resp::parse::Arguments;
use crate::serve::resp::reply::Replies;

/// The Redis settings that apply to this server.
const SETTINGS: [(&str, &str); 3] = [("appendonly", "no"), ("databases", "1"), ("save", "")];

const HELP: [&str; 4] = [
    "GET <name> ...",
    "    Return parameters of these names and their values.",
    "HELP",
    "    Print this help.",
];

/// `CONFIG subcommand`.
pub(super) fn run(arguments: &Arguments<'_>, replies: &mut Replies) {
    let subcommand = arguments.get(1).unwrap_or_default();
    if subcommand.eq_ignore_ascii_case(b"HELP") {
        return help("CONFIG", &HELP, replies);
    }
    if !subcommand.eq_ignore_ascii_case(b"GET") {
        return unknown_subcommand("config", subcommand, replies);
    }
    if arguments.len() < 3 {
        return wrong_number_of_arguments("config|get", replies);
    }
    let is_requested = |name: &str| {
        let mut patterns = arguments.iter().skip(2);
        patterns.any(|pattern| pattern == b"*" || pattern.eq_ignore_ascii_case(name.as_bytes()))
    };
    let requested = || SETTINGS.iter().filter(|(name, _)| is_requested(name));
    replies.start_map(requested().count());
    for (name, value) in requested() {
        replies.bulk(name.as_bytes());
        replies.bulk(value.as_bytes());
    }
}
