//! `INFO`: the lines about the server that clients look for.

use std::fmt::Write as _;

use super::CommandContext;
use crate::serve::resp::parse::Arguments;

/// The version of Redis whose commands and texts are followed. Some clients check it.
const REDIS_VERSION: &str = "7.0.0";

const SECTIONS: [&str; 5] = ["Server", "Memory", "Persistence", "Stats", "Replication"];

/// `INFO [section ...]`.
pub(super) fn run(arguments: &Arguments<'_>, context: &mut CommandContext<'_, '_>) {
    let is_requested = |section: &&str| {
        let names_section = |argument: &[u8]| {
            let everything: [&[u8]; 3] = [b"default", b"all", b"everything"];
            argument.eq_ignore_ascii_case(section.as_bytes())
                || everything.iter().any(|name| argument.eq_ignore_ascii_case(name))
        };
        arguments.len() == 1 || arguments.iter().skip(1).any(names_section)
    };
    let mut text = String::new();
    for section in SECTIONS.into_iter().filter(is_requested) {
        let gap = if text.is_empty() { "" } else { "\r\n" };
        // Writing to memory does not fail.
        let _ = write!(text, "{gap}# {section}\r\n");
        for (name, value) in section_lines(section, context) {
            let _ = write!(text, "{name}:{value}\r\n");
        }
    }
    context.replies.verbatim(&text);
}

fn section_lines(section: &str, context: &CommandContext<'_, '_>) -> Vec<(&'static str, String)> {
    let stats = context.shared.app.engine.store().memory().stats();
    match section {
        "Server" => vec![
            ("redis_version", REDIS_VERSION.to_owned()),
            ("redis_mode", "standalone".to_owned()),
            ("tidegate_version", env!("CARGO_PKG_VERSION").to_owned()),
            ("process_id", std::process::id().to_string()),
            ("uptime_in_seconds", context.shared.started.elapsed().as_secs().to_string()),
        ],
        "Memory" => vec![("used_memory", stats.bytes_used.to_string())],
        "Persistence" => vec![("loading", "0".to_owned())],
        "Stats" => vec![("evicted_keys", stats.live_evictions.to_string())],
        _ => vec![("role", "master".to_owned()), ("connected_slaves", "0".to_owned())],
    }
}
