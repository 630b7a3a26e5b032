//! `COMMAND`: describes the commands. Some clients ask for it when they connect.

use super::table::{ArgumentSpec, COMMANDS, CommandSpec};
use super::{help, unknown_subcommand, wrong_number_of_arguments};
use crate::serve::resp::parse::Arguments;
use crate::serve::resp::reply::Replies;

const HELP: [&str; 14] = [
    "(no subcommand)",
    "    Return details about all commands.",
    "COUNT",
    "    Return the total number of commands.",
    "DOCS [<command-name> ...]",
    "    Return documentation details about commands.",
    "GETKEYS <full-command>",
    "    Return the keys from a full command.",
    "INFO [<command-name> ...]",
    "    Return details about multiple commands.",
    "LIST",
    "    Return a list of all commands.",
    "HELP",
    "    Print this help.",
];

/// `COMMAND [subcommand]`.
pub(super) fn run(arguments: &Arguments<'_>, replies: &mut Replies) {
    let Some(subcommand) = arguments.get(1) else { return write_all(replies) };
    let names = || arguments.iter().skip(2);
    let name = subcommand.to_ascii_lowercase();
    match (name.as_slice(), arguments.len()) {
        (b"count", 2) => replies.integer(i64::try_from(COMMANDS.len()).unwrap_or(i64::MAX)),
        (b"list", 2) => {
            replies.start_array(COMMANDS.len());
            COMMANDS.iter().for_each(|command| replies.bulk(command.name.as_bytes()));
        }
        (b"help", 2) => help("COMMAND", &HELP, replies),
        (b"count" | b"list" | b"help", _) => {
            wrong_number_of_arguments(&format!("command|{}", super::lossy_text(&name)), replies);
        }
        (b"getkeys", 2) => wrong_number_of_arguments("command|getkeys", replies),
        (b"getkeys", _) => write_keys(arguments, replies),
        (b"info", 2) => write_all(replies),
        (b"info", length) => {
            replies.start_array(length - 2);
            names().for_each(|name| match CommandSpec::find(name) {
                Some(command) => write_info(command, replies),
                None => replies.null(),
            });
        }
        (b"docs", 2) => {
            replies.start_map(COMMANDS.len());
            COMMANDS.iter().for_each(|command| write_docs(command, replies));
        }
        (b"docs", _) => {
            replies.start_map(names().filter_map(CommandSpec::find).count());
            names().filter_map(CommandSpec::find).for_each(|command| write_docs(command, replies));
        }
        _ => unknown_subcommand("command", subcommand, replies),
    }
}

/// `COMMAND GETKEYS command [argument ...]`. The errors are those of Redis.
fn write_keys(arguments: &Arguments<'_>, replies: &mut Replies) {
    /// Where the inner command begins.
    const INNER: usize = 2;
    let Some(command) = CommandSpec::find(arguments.get(INNER).unwrap_or_default()) else {
        return replies.error("ERR Invalid command specified");
    };
    let Ok(position @ 1..) = usize::try_from(command.key_position) else {
        return replies.error("ERR The command has no key arguments");
    };
    match arguments.get(INNER + position) {
        Some(key) if command.accepts(arguments.len() - INNER) => {
            replies.start_array(1);
            replies.bulk(key);
        }
        _ => replies.error("ERR Invalid number of arguments specified for command"),
    }
}

fn write_all(replies: &mut Replies) {
    replies.start_array(COMMANDS.len());
    COMMANDS.iter().for_each(|command| write_info(command, replies));
}

/// The elements, in order: name, arity, flags, first key, last key, step, categories, tips, key specifications,
/// subcommands.
fn write_info(command: &CommandSpec, replies: &mut Replies) {
    replies.start_array(10);
    replies.bulk(command.name.as_bytes());
    replies.integer(command.arity);
    replies.start_set(command.flags.len());
    command.flags.iter().for_each(|flag| replies.simple_string(flag));
    replies.integer(command.key_position);
    replies.integer(command.key_position);
    replies.integer(command.key_position.min(1));
    replies.start_set(0);
    replies.start_array(0);
    replies.start_array(0);
    replies.start_array(0);
}

fn write_docs(command: &CommandSpec, replies: &mut Replies) {
    replies.bulk(command.name.as_bytes());
    replies.start_map(if command.arguments.is_empty() { 3 } else { 4 });
    for (field, text) in [("summary", command.summary), ("since", "0.1.0"), ("group", command.group)] {
        replies.bulk(field.as_bytes());
        replies.bulk(text.as_bytes());
    }
    if !command.arguments.is_empty() {
        replies.bulk(b"arguments");
        replies.start_array(command.arguments.len());
        command.arguments.iter().for_each(|argument| write_argument_docs(argument, replies));
    }
}

fn write_argument_docs(argument: &ArgumentSpec, replies: &mut Replies) {
    replies.start_map(if argument.flags.is_empty() { 2 } else { 3 });
    for (field, text) in [("name", argument.name), ("type", argument.kind)] {
        replies.bulk(field.as_bytes());
        replies.bulk(text.as_bytes());
    }
    if !argument.flags.is_empty() {
        replies.bulk(b"flags");
        replies.start_set(argument.flags.len());
        argument.flags.iter().for_each(|flag| replies.simple_string(flag));
    }
}
