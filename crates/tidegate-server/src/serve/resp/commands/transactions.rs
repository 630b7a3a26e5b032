//! `MULTI`, `EXEC`, `DISCARD`, and `WATCH`, which is not supported.
//!
//! As in Redis, nothing runs before `EXEC`, and nothing at all if a command was rejected while it was queued. In
//! contrast to Redis, commands of other clients may run between those of a transaction.

use super::table::{CommandId, CommandSpec};
use super::{CommandContext, CommandStep};
use crate::serve::Protocol;
use crate::serve::resp::parse::Arguments;
use crate::serve::resp::transaction::{
    QueueError, TRANSACTION_BYTES_MAX, TRANSACTION_COMMANDS_MAX, Transaction,
};

const OUT_OF_MEMORY: &str = "ERR the server has no memory for this transaction (hint: try again later, or raise the \
                             server's --connections-memory-max)";

/// Queues a command. The connection is in a transaction.
#[cold]
pub(super) fn queue<'s>(
    spec: &CommandSpec,
    arguments: &Arguments<'_>,
    context: &mut CommandContext<'_, '_>,
) -> CommandStep<'s> {
    let Some(transaction) = &mut context.session.transaction else { return CommandStep::Continue };
    // They would change how the replies of the transaction are encoded, or who it runs for.
    if matches!(spec.id, CommandId::Auth | CommandId::Hello) {
        transaction.abort();
        context.replies.error("ERR Command not allowed inside a transaction");
        return CommandStep::Continue;
    }
    match transaction.push(arguments) {
        Ok(()) => context.replies.simple_string("QUEUED"),
        Err(QueueError::TransactionFull) => {
            context.replies.error(format_args!(
                "ERR the transaction has more than {TRANSACTION_COMMANDS_MAX} commands or {TRANSACTION_BYTES_MAX} \
                 bytes (hint: send a pipeline without MULTI)"
            ));
            context.reject(super::BAD_REQUEST);
        }
        Err(QueueError::OutOfMemory) => {
            context.replies.error(OUT_OF_MEMORY);
            context.reject("memory");
        }
    }
    CommandStep::Continue
}

pub(super) fn multi(context: &mut CommandContext<'_, '_>) {
    match context.session.transaction {
        Some(_) => context.replies.error("ERR MULTI calls can not be nested"),
        None => {
            let held = context.shared.app.connections_memory.reserve_nothing(Protocol::Resp);
            context.session.transaction = Some(Box::new(Transaction::new(held)));
            context.replies.simple_string("OK");
        }
    }
}

pub(super) fn exec<'s>(context: &mut CommandContext<'_, '_>) -> CommandStep<'s> {
    let Some(transaction) = context.session.transaction.take() else {
        context.replies.error("ERR EXEC without MULTI");
        return CommandStep::Continue;
    };
    match transaction.into_commands() {
        Some(commands) => CommandStep::Exec(commands),
        None => {
            context.replies.error("EXECABORT Transaction discarded because of previous errors.");
            CommandStep::Continue
        }
    }
}

pub(super) fn discard(context: &mut CommandContext<'_, '_>) {
    match context.session.transaction.take() {
        Some(_) => context.replies.simple_string("OK"),
        None => context.replies.error("ERR DISCARD without MULTI"),
    }
}

pub(super) fn watch(context: &mut CommandContext<'_, '_>) {
    context.replies.error(match context.session.transaction {
        Some(_) => "ERR WATCH inside MULTI is not allowed",
        None => "ERR WATCH is not supported: there are no keys to watch (hint: MULTI needs no WATCH)",
    });
    context.reject(super::BAD_REQUEST);
}
