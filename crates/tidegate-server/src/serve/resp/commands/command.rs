//! `COMMAND`: what there is, for clients that ask before they begin.

use super::described::{Argument, COMMANDS, Described};
use super::{help, unknown_subcommand, wrong_number_of_arguments};
use crate::serve::resp::parse::Arguments;
use crate::serve::resp::reply::Replies;

const HELP: [&str; 12] = [
    "(no subcommand)",
    "    Return details about all commands.",
    "COUNT",
    "    Return the total number of commands.",
    "DOCS [<command-name> ...]",
    "    Return documentation details about commands.",
    "INFO [<command-name> ...]",
    "    Return details about multiple commands.",
    "LIST",
    "    Return a list of all commands.",
    "HELP",
    "    Print this help.",
];

/// `COMMAND [subcommand]`.
pub(super) fn run(arguments: &Arguments<'_>, replies: &mut Replies) {
    let Some(subcommand) = arguments.get(1) else { return all(replies) };
    let names = || arguments.iter().skip(2);
    let name = subcommand.to_ascii_lowercase();
    match (name.as_slice(), arguments.len()) {
        (b"count", 2) => replies.integer(i64::try_from(COMMANDS.len()).unwrap_or(i64::MAX)),
        (b"list", 2) => {
            replies.array(COMMANDS.len());
            COMMANDS.iter().for_each(|command| replies.bulk(command.name.as_bytes()));
        }
        (b"help", 2) => help("COMMAND", &HELP, replies),
        (b"count" | b"list" | b"help", _) => {
            wrong_number_of_arguments(&format!("command|{}", super::text(&name)), replies);
        }
        (b"info", 2) => all(replies),
        (b"info", length) => {
            replies.array(length - 2);
            names().for_each(|name| match Described::find(name) {
                Some(command) => details(command, replies),
                None => replies.null(),
            });
        }
        (b"docs", 2) => {
            replies.map(COMMANDS.len());
            COMMANDS.iter().for_each(|command| document(command, replies));
        }
        (b"docs", _) => {
            replies.map(names().filter_map(Described::find).count());
            names().filter_map(Described::find).for_each(|command| document(command, replies));
        }
        _ => unknown_subcommand("command", subcommand, replies),
    }
}

fn all(replies: &mut Replies) {
    replies.array(COMMANDS.len());
    COMMANDS.iter().for_each(|command| details(command, replies));
}

/// Name, arity, flags, first key, last key, step, categories, tips, key specifications, subcommands.
fn details(command: &Described, replies: &mut Replies) {
    replies.array(10);
    replies.bulk(command.name.as_bytes());
    replies.integer(command.arity);
    replies.set(command.flags.len());
    command.flags.iter().for_each(|flag| replies.simple(flag));
    replies.integer(command.key);
    replies.integer(command.key);
    replies.integer(command.key.min(1));
    replies.set(0);
    replies.array(0);
    replies.array(0);
    replies.array(0);
}

fn document(command: &Described, replies: &mut Replies) {
    replies.bulk(command.name.as_bytes());
    replies.map(if command.arguments.is_empty() { 3 } else { 4 });
    for (field, text) in [("summary", command.summary), ("since", "0.1.0"), ("group", command.group)] {
        replies.bulk(field.as_bytes());
        replies.bulk(text.as_bytes());
    }
    if !command.arguments.is_empty() {
        replies.bulk(b"arguments");
        replies.array(command.arguments.len());
        command.arguments.iter().for_each(|argument| document_argument(argument, replies));
    }
}

fn document_argument(argument: &Argument, replies: &mut Replies) {
    replies.map(if argument.flags.is_empty() { 2 } else { 3 });
    for (field, text) in [("name", argument.name), ("type", argument.kind)] {
        replies.bulk(field.as_bytes());
        replies.bulk(text.as_bytes());
    }
    if !argument.flags.is_empty() {
        replies.bulk(b"flags");
        replies.set(argument.flags.len());
        argument.flags.iter().for_each(|flag| replies.simple(flag));
    }
}
