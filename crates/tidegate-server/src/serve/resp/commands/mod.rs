//! What can be asked: a file for each command, or for a few small ones.

mod check;
mod client;
mod command;
mod config;
mod connection;
mod described;
mod hello;
mod info;
mod throttle;

pub use throttle::{BadThrottle, Quota, Throttled, Throttles};

use super::decisions::Decisions;
use super::inline;
use super::parse::{Arguments, Trust};
use super::reply::Replies;
use super::session::Session;
use super::together::{Answering, Asks};
use super::{Protocol, Server};
use described::{Described, Verb};

/// How much of a name or an argument an error shows, in bytes; as in Redis.
const SHOWN_BYTES_MAX: usize = 128;
/// Why calls are rejected that are not as they should be.
const BAD_CALL: &str = "bad_request";

/// What a command works with.
pub(super) struct Context<'s, 'a> {
    pub server: &'s Server,
    pub session: &'a mut Session,
    pub replies: &'a mut Replies,
    pub decisions: &'a mut Decisions,
}

/// What is to be done after a command.
pub(super) enum Step<'s> {
    /// It was answered.
    Next,
    /// It was answered, and is the last.
    Close,
    /// It is none of ours, and gets no answer.
    Http,
    /// It is answered later.
    Later(Later<'s>),
}

/// A command that is answered later.
pub(super) struct Later<'s> {
    pub asks: Asks,
    pub answering: Answering<'s>,
    /// How many bytes it keeps.
    pub bytes: usize,
}

impl Context<'_, '_> {
    /// Counts a request that was not decided.
    fn reject(&self, reason: &'static str) {
        self.server.app.metrics.rejected(Protocol::Resp, reason);
    }
}

/// What a command asks the store for, if it is one that does.
pub(super) fn asks(arguments: &Arguments<'_>) -> Option<Asks> {
    match Described::find(arguments.get(0)?)?.verb {
        Verb::Throttle | Verb::Check => Some(Asks::Charges),
        Verb::Peek => Some(Asks::Looks),
        _ => None,
    }
}

/// Runs a command.
#[inline]
pub(super) fn run<'s>(arguments: &Arguments<'_>, mut context: Context<'s, '_>) -> Step<'s> {
    let name = arguments.get(0).unwrap_or_default();
    let Some(described) = Described::find(name) else {
        if inline::is_http(name) {
            return Step::Http;
        }
        unknown(arguments, context.replies);
        context.reject("unknown_command");
        return Step::Next;
    };
    if !described.takes(arguments.len()) {
        wrong_number_of_arguments(described.name, context.replies);
        context.reject(BAD_CALL);
        return Step::Next;
    }
    if context.session.trust == Trust::Stranger && !described.verb.is_for_strangers() {
        context.replies.error("NOAUTH Authentication required.");
        context.reject("unauthenticated");
        return Step::Next;
    }
    match described.verb {
        Verb::Throttle => return throttle::run(arguments, &mut context),
        Verb::Check => return check::check(arguments, &mut context),
        Verb::Peek => return check::peek(arguments, &mut context),
        Verb::Ping => connection::ping(arguments, context.replies),
        Verb::Echo => context.replies.bulk(arguments.get(1).unwrap_or_default()),
        Verb::Select => connection::select(arguments, context.replies),
        Verb::Auth => hello::auth(arguments, &mut context),
        Verb::Hello => hello::hello(arguments, &mut context),
        Verb::Client => client::run(arguments, &mut context),
        Verb::Command => command::run(arguments, context.replies),
        Verb::Config => config::run(arguments, context.replies),
        Verb::Info => info::run(arguments, &mut context),
        Verb::Reset => connection::reset(&mut context),
        Verb::Quit => {
            context.replies.simple("OK");
            return Step::Close;
        }
    }
    Step::Next
}

/// There is no such command; in the words of Redis, which clients look for.
#[cold]
fn unknown(arguments: &Arguments<'_>, replies: &mut Replies) {
    let mut shown = String::new();
    for argument in arguments.iter().skip(1) {
        if shown.len() >= SHOWN_BYTES_MAX {
            break;
        }
        let room = SHOWN_BYTES_MAX - shown.len();
        shown.push_str(&format!("'{}' ", text(&argument[..argument.len().min(room)])));
    }
    let name = shortened(arguments.get(0).unwrap_or_default());
    replies.error(format_args!("ERR unknown command '{name}', with args beginning with: {shown}"));
}

/// A command of several has no such part.
#[cold]
fn unknown_subcommand(command: &str, subcommand: &[u8], replies: &mut Replies) {
    let (subcommand, command) = (shortened(subcommand), command.to_uppercase());
    replies.error(format_args!("ERR unknown subcommand '{subcommand}'. Try {command} HELP."));
}

#[cold]
fn wrong_number_of_arguments(command: &str, replies: &mut Replies) {
    replies.error(format_args!("ERR wrong number of arguments for '{command}' command"));
}

/// What `COMMAND HELP` and the like answer.
fn help(command: &str, lines: &[&str], replies: &mut Replies) {
    replies.array(lines.len() + 1);
    replies.simple(&format!("{command} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    lines.iter().for_each(|line| replies.simple(line));
}

/// An argument as errors show it.
fn shortened(argument: &[u8]) -> String {
    text(&argument[..argument.len().min(SHOWN_BYTES_MAX)])
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
