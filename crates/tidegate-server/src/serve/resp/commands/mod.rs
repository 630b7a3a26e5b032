//! The commands: one file each, or one for a few small ones.

mod check;
mod client;
mod command;
mod config;
mod connection;
mod hello;
mod info;
mod leases;
mod request_call;
mod specs;
mod table;
mod throttle;
mod transactions;

use super::decision_counts::DecisionCounts;
use super::in_flight::{ReplyFuture, StoreAccess};
use super::parse::{Arguments, AuthState};
use super::reply::Replies;
use super::session::Session;
use super::transaction::QueuedCommands;
use super::{Protocol, RespShared, inline};
use crate::serve::SharedInstant;
use request_call::CallError;
use table::{CommandId, CommandSpec};

pub use throttle::{Quota, ThrottleAnswer, ThrottleCache, ThrottleError};

/// Maximum bytes of a name or an argument shown in an error, as in Redis.
const SHOWN_BYTES_MAX: usize = 128;
/// Metric label of invalid calls.
const BAD_REQUEST: &str = "bad_request";

/// What a command needs.
pub(super) struct CommandContext<'s, 'a> {
    pub shared: &'s RespShared,
    pub session: &'a mut Session,
    pub replies: &'a mut Replies,
    pub decisions: &'a mut DecisionCounts,
    pub instant: &'a mut SharedInstant,
}

/// What the connection does after a command.
pub(super) enum CommandStep<'s> {
    /// The command was answered.
    Continue,
    /// The command was answered; close the connection.
    Close,
    /// The command is HTTP; close the connection without a reply.
    WrongProtocol,
    /// Run these commands and answer with an array of their replies.
    Exec(QueuedCommands),
    /// The command will be answered later.
    Later(DeferredReply<'s>),
}

/// A command that is answered later.
pub(super) struct DeferredReply<'s> {
    pub access: StoreAccess,
    pub reply: ReplyFuture<'s>,
    /// Bytes that the future keeps.
    pub bytes: usize,
}

impl CommandContext<'_, '_> {
    /// Answers an invalid call.
    #[cold]
    fn reject_call<'s>(&mut self, error: &CallError) -> CommandStep<'s> {
        self.replies.error(error);
        self.reject(BAD_REQUEST);
        CommandStep::Continue
    }

    /// Counts a command that does not run, and aborts the transaction, if there is one.
    #[cold]
    fn refuse(&mut self, reason: &'static str) {
        if let Some(transaction) = &mut self.session.transaction {
            transaction.abort();
        }
        self.reject(reason);
    }

    /// Counts a call that was rejected.
    fn reject(&self, reason: &'static str) {
        self.shared.app.metrics.count_rejected_request(Protocol::Resp, reason);
    }
}

/// What a command does in the store, if anything.
pub(super) fn store_access(arguments: &Arguments<'_>) -> Option<StoreAccess> {
    match CommandSpec::find(arguments.get(0)?)?.id {
        CommandId::Throttle | CommandId::Check | CommandId::Acquire | CommandId::Renew => {
            Some(StoreAccess::Write)
        }
        CommandId::Release | CommandId::Refund => Some(StoreAccess::Release),
        CommandId::Peek => Some(StoreAccess::Read),
        _ => None,
    }
}

/// Runs a command.
#[inline]
pub(super) fn run<'s>(arguments: &Arguments<'_>, mut context: CommandContext<'s, '_>) -> CommandStep<'s> {
    let name = arguments.get(0).unwrap_or_default();
    let Some(spec) = CommandSpec::find(name) else {
        if inline::is_http(name) {
            return CommandStep::WrongProtocol;
        }
        unknown_command(arguments, context.replies);
        context.refuse("unknown_command");
        return CommandStep::Continue;
    };
    if !spec.accepts(arguments.len()) {
        wrong_number_of_arguments(spec.name, context.replies);
        context.refuse(BAD_REQUEST);
        return CommandStep::Continue;
    }
    if context.session.auth == AuthState::Unauthenticated && !spec.id.is_allowed_unauthenticated() {
        context.replies.error("NOAUTH Authentication required.");
        context.reject("unauthenticated");
        return CommandStep::Continue;
    }
    if context.session.transaction.is_some() && !spec.id.runs_in_transaction() {
        return transactions::queue(spec, arguments, &mut context);
    }
    match spec.id {
        CommandId::Throttle => return throttle::run(arguments, &mut context),
        CommandId::Check => return check::check(arguments, &mut context),
        CommandId::Peek => return check::peek(arguments, &mut context),
        CommandId::Acquire => return leases::acquire(arguments, &mut context),
        CommandId::Renew => return leases::renew(arguments, &mut context),
        CommandId::Release => return leases::release(arguments, &mut context),
        CommandId::Refund => return leases::refund(arguments, &mut context),
        CommandId::Multi => transactions::multi(&mut context),
        CommandId::Exec => return transactions::exec(&mut context),
        CommandId::Discard => transactions::discard(&mut context),
        CommandId::Watch => transactions::watch(&mut context),
        CommandId::Unwatch => context.replies.simple_string("OK"),
        CommandId::Ping => connection::ping(arguments, context.replies),
        CommandId::Echo => context.replies.bulk(arguments.get(1).unwrap_or_default()),
        CommandId::Select => connection::select(arguments, context.replies),
        CommandId::Auth => return hello::auth(arguments, &mut context),
        CommandId::Hello => return hello::hello(arguments, &mut context),
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

/// Unknown command, with the text of Redis, which clients look for.
#[cold]
fn unknown_command(arguments: &Arguments<'_>, replies: &mut Replies) {
    let mut text = String::new();
    for argument in arguments.iter().skip(1) {
        if text.len() >= SHOWN_BYTES_MAX {
            break;
        }
        let room = SHOWN_BYTES_MAX - text.len();
        text.push_str(&format!("'{}' ", lossy_text(&argument[..argument.len().min(room)])));
    }
    let name = shortened(arguments.get(0).unwrap_or_default());
    replies.error(format_args!("ERR unknown command '{name}', with args beginning with: {text}"));
}

/// Unknown subcommand, with the text of Redis.
#[cold]
fn unknown_subcommand(command: &str, subcommand: &[u8], replies: &mut Replies) {
    let (subcommand, command) = (shortened(subcommand), command.to_uppercase());
    replies.error(format_args!("ERR unknown subcommand '{subcommand}'. Try {command} HELP."));
}

#[cold]
fn wrong_number_of_arguments(command: &str, replies: &mut Replies) {
    replies.error(format_args!("ERR wrong number of arguments for '{command}' command"));
}

/// The reply to `COMMAND HELP` and other `HELP` subcommands.
fn help(command: &str, lines: &[&str], replies: &mut Replies) {
    replies.start_array(lines.len() + 1);
    replies.simple_string(&format!("{command} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    lines.iter().for_each(|line| replies.simple_string(line));
}

/// An argument as shown in errors.
fn shortened(argument: &[u8]) -> String {
    lossy_text(&argument[..argument.len().min(SHOWN_BYTES_MAX)])
}

fn lossy_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
