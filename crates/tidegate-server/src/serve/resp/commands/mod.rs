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

pub use throttle::{ThrottleError, Quota, ThrottleAnswer, ThrottleCache};

use super::decisions::DecisionCounts;
use super::inline;
use super::parse::{Arguments, AuthState};
use super::reply::Replies;
use super::session::Session;
use super::together::{ReplyFuture, StoreAccess};
use super::{Protocol, RespShared};
use described::{CommandSpec, CommandId};

/// How much of a name or an argument an error shows, in bytes; as in Redis.
const SHOWN_BYTES_MAX: usize = 128;
/// Why calls are rejected that are not as they should be.
const BAD_REQUEST: &str = "bad_request";

/// What a command works with.
pub(super) struct CommandContext<'s, 'a> {
    pub shared: &'s RespShared,
    pub session: &'a mut Session,
    pub replies: &'a mut Replies,
    pub decisions: &'a mut DecisionCounts,
}

/// What is to be done after a command.
pub(super) enum CommandStep<'s> {
    /// It was answered.
    Continue,
    /// It was answered, and is the last.
    Close,
    /// It is none of ours, and gets no answer.
    WrongProtocol,
    /// It is answered later.
    Later(DeferredReply<'s>),
}

/// A command that is answered later.
pub(super) struct DeferredReply<'s> {
    pub access: StoreAccess,
    pub reply: ReplyFuture<'s>,
    /// How many bytes it keeps.
    pub bytes: usize,
}

impl CommandContext<'_, '_> {
    /// Counts a request that was not decided.
    fn reject(&self, reason: &'static str) {
        self.shared.app.metrics.count_rejected_request(Protocol::Resp, reason);
    }
}

/// What a command asks the store for, if it is one that does.
pub(super) fn store_access(arguments: &Arguments<'_>) -> Option<StoreAccess> {
    match CommandSpec::find(arguments.get(0)?)?.id {
        CommandId::Throttle | CommandId::Check => Some(StoreAccess::Write),
        CommandId::Peek => Some(StoreAccess::Read),
        _ => None,
    }
}

/// Runs a command.
#[inline]
pub(super) fn run<'s>(arguments: &Arguments<'_>, mut context: CommandContext<'s, '_>) -> CommandStep<'s> {
    let name = arguments.get(0).unwrap_or_default();
    let Some(described) = CommandSpec::find(name) else {
        if inline::is_http(name) {
            return CommandStep::WrongProtocol;
        }
        unknown_command(arguments, context.replies);
        context.reject("unknown_command");
        return CommandStep::Continue;
    };
    if !described.accepts(arguments.len()) {
        wrong_number_of_arguments(described.name, context.replies);
        context.reject(BAD_REQUEST);
        return CommandStep::Continue;
    }
    if context.session.auth == AuthState::Unauthenticated && !described.id.is_allowed_unauthenticated() {
        context.replies.error("NOAUTH Authentication required.");
        context.reject("unauthenticated");
        return CommandStep::Continue;
    }
    match described.id {
        CommandId::Throttle => return throttle::run(arguments, &mut context),
        CommandId::Check => return check::check(arguments, &mut context),
        CommandId::Peek => return check::peek(arguments, &mut context),
        CommandId::Ping => connection::ping(arguments, context.replies),
        CommandId::Echo => context.replies.bulk(arguments.get(1).unwrap_or_default()),
        CommandId::Select => connection::select(arguments, context.replies),
        CommandId::Auth => hello::auth(arguments, &mut context),
        CommandId::Hello => hello::hello(arguments, &mut context),
        CommandId::Client => client::run(arguments, &mut context),
        CommandId::Command => command::run(arguments, context.replies),
        CommandId::Config => config::run(arguments, context.replies),
        CommandId::Info => info::run(arguments, &mut context),
        CommandId::Reset => connection::reset(&mut context),
        CommandId::Quit => {
            context.replies.simple_string("OK");
            return CommandStep::Close;
        }
    }
    CommandStep::Continue
}

/// There is no such command; in the words of Redis, which clients look for.
#[cold]
fn unknown_command(arguments: &Arguments<'_>, replies: &mut Replies) {
    let mut shown = String::new();
    for argument in arguments.iter().skip(1) {
        if shown.len() >= SHOWN_BYTES_MAX {
            break;
        }
        let room = SHOWN_BYTES_MAX - shown.len();
        shown.push_str(&format!("'{}' ", lossy_text(&argument[..argument.len().min(room)])));
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
    replies.start_array(lines.len() + 1);
    replies.simple_string(&format!("{command} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    lines.iter().for_each(|line| replies.simple_string(line));
}

/// An argument as errors show it.
fn shortened(argument: &[u8]) -> String {
    lossy_text(&argument[..argument.len().min(SHOWN_BYTES_MAX)])
}

fn lossy_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
