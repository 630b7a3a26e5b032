//! `CONFIG GET`: what redis-benchmark and others ask before they begin.

use super::{help, unknown_subcommand, wrong_number_of_arguments};
use crate::serve::resp::parse::Arguments;
use crate::serve::resp::reply::Replies;

/// What of a Redis server's settings is true of this one.
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
    let is_wanted = |name: &str| {
        arguments.iter().skip(2).any(|wanted| wanted == b"*" || wanted.eq_ignore_ascii_case(name.as_bytes()))
    };
    let wanted = || SETTINGS.iter().filter(|(name, _)| is_wanted(name));
    replies.start_map(wanted().count());
    for (name, value) in wanted() {
        replies.bulk(name.as_bytes());
        replies.bulk(value.as_bytes());
    }
}
