//! `CLIENT`: clients describe themselves, and ask about their connection.

use super::{CommandContext, help, unknown_subcommand, wrong_number_of_arguments};
use crate::serve::resp::parse::Arguments;
use crate::serve::resp::reply::RespVersion;
use crate::serve::resp::session::NAME_BYTES_MAX;

pub(super) const BAD_NAME: &str =
    "ERR Client names cannot contain spaces, newlines or special characters, nor have more than 256 bytes.";
const SYNTAX: &str = "ERR syntax error";

const HELP: [&str; 18] = [
    "GETNAME",
    "    Return the name of the current connection.",
    "ID",
    "    Return the ID of the current connection.",
    "INFO",
    "    Return information about the current client connection.",
    "NO-EVICT (ON|OFF)",
    "    Accepted; connections are never closed to free memory.",
    "NO-TOUCH (ON|OFF)",
    "    Accepted; has no effect.",
    "REPLY ON",
    "    Accepted; every command is answered.",
    "SETINFO <option> <value>",
    "    Set client meta attr. Options are LIB-NAME and LIB-VER.",
    "SETNAME <name>",
    "    Assign the name <name> to the current connection.",
    "HELP",
    "    Print this help.",
];

/// `CLIENT subcommand`.
pub(super) fn run(arguments: &Arguments<'_>, context: &mut CommandContext<'_, '_>) {
    let subcommand = arguments.get(1).unwrap_or_default();
    let name = subcommand.to_ascii_lowercase();
    let takes = match name.as_slice() {
        b"id" | b"info" | b"getname" | b"help" => 2..=2,
        b"setname" | b"no-evict" | b"no-touch" | b"reply" => 3..=3,
        b"setinfo" => 4..=4,
        b"tracking" => 3..=usize::MAX,
        _ => return unknown_subcommand("client", subcommand, context.replies),
    };
    if !takes.contains(&arguments.len()) {
        let name = format!("client|{}", super::lossy_text(&name));
        return wrong_number_of_arguments(&name, context.replies);
    }
    let value = arguments.get(2).unwrap_or_default();
    match name.as_slice() {
        b"id" => context.replies.integer(i64::try_from(context.session.id).unwrap_or(i64::MAX)),
        b"info" => info(context),
        b"getname" if context.session.name.is_empty() => context.replies.null(),
        b"getname" => context.replies.bulk(&context.session.name),
        b"setname" => set_name(value, context),
        b"setinfo" => set_info(value, arguments.get(3).unwrap_or_default(), context),
        b"no-evict" | b"no-touch" => reply_on_off(value, context),
        b"reply" => reply(value, context),
        b"tracking" => tracking(value, context),
        _ => help("CLIENT", &HELP, context.replies),
    }
}

/// Whether this is a valid client name.
pub(super) fn is_valid_name(name: &[u8]) -> bool {
    name.len() <= NAME_BYTES_MAX && name.iter().all(u8::is_ascii_graphic)
}

fn set_name(name: &[u8], context: &mut CommandContext<'_, '_>) {
    if !is_valid_name(name) {
        return context.replies.error(BAD_NAME);
    }
    context.session.name = name.to_vec();
    context.replies.simple_string("OK");
}

fn set_info(option: &[u8], value: &[u8], context: &mut CommandContext<'_, '_>) {
    let (field, option) = if option.eq_ignore_ascii_case(b"LIB-NAME") {
        (&mut context.session.library, "lib-name")
    } else if option.eq_ignore_ascii_case(b"LIB-VER") {
        (&mut context.session.library_version, "lib-ver")
    } else {
        let option = super::shortened(option);
        return context.replies.error(format_args!("ERR Unrecognized option '{option}'"));
    };
    if !is_valid_name(value) {
        return context.replies.error(format_args!(
            "ERR {option} cannot contain spaces, newlines or special characters, nor have more than 256 bytes."
        ));
    }
    *field = value.to_vec();
    context.replies.simple_string("OK");
}

fn reply_on_off(value: &[u8], context: &mut CommandContext<'_, '_>) {
    match value.eq_ignore_ascii_case(b"ON") || value.eq_ignore_ascii_case(b"OFF") {
        true => context.replies.simple_string("OK"),
        false => context.replies.error(SYNTAX),
    }
}

fn reply(value: &[u8], context: &mut CommandContext<'_, '_>) {
    if value.eq_ignore_ascii_case(b"ON") {
        context.replies.simple_string("OK");
    } else if value.eq_ignore_ascii_case(b"OFF") || value.eq_ignore_ascii_case(b"SKIP") {
        context.replies.error("ERR CLIENT REPLY OFF and SKIP are not supported: every command is answered");
    } else {
        context.replies.error(SYNTAX);
    }
}

fn tracking(value: &[u8], context: &mut CommandContext<'_, '_>) {
    match value.eq_ignore_ascii_case(b"OFF") {
        true => context.replies.simple_string("OK"),
        false => context.replies.error("ERR CLIENT TRACKING is not supported: there are no keys to cache"),
    }
}

fn info(context: &mut CommandContext<'_, '_>) {
    let session = &context.session;
    let version = match context.replies.version() {
        RespVersion::Resp2 => 2,
        RespVersion::Resp3 => 3,
    };
    let [name, library, library_version] =
        [&session.name, &session.library, &session.library_version].map(|bytes| super::lossy_text(bytes));
    let line = format!(
        "id={} name={name} db=0 user={} resp={version} lib-name={library} lib-ver={library_version}\n",
        session.id,
        session.user.as_str()
    );
    context.replies.verbatim(&line);
}
