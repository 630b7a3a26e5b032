//! The commands of a transaction: `MULTI` collects them, `EXEC` runs them.

use super::parse::{Arguments, OwnedArguments};

/// Maximum number of commands of a transaction.
pub(crate) const TRANSACTION_COMMANDS_MAX: usize = 1_024;
/// Maximum bytes of the commands of a transaction.
pub(crate) const TRANSACTION_BYTES_MAX: usize = 1 << 20;

/// The commands since `MULTI`.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    commands: Vec<OwnedArguments>,
    bytes: usize,
    /// Whether a command was rejected, so that `EXEC` runs none.
    is_aborted: bool,
}

/// The commands exceed a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TransactionFull;

impl Transaction {
    /// Adds a command, unless the transaction is aborted.
    pub fn push(&mut self, arguments: &Arguments<'_>) -> Result<(), TransactionFull> {
        if self.is_aborted {
            return Ok(());
        }
        let command = arguments.to_owned_arguments();
        self.bytes += command.bytes();
        if self.commands.len() == TRANSACTION_COMMANDS_MAX || self.bytes > TRANSACTION_BYTES_MAX {
            self.abort();
            return Err(TransactionFull);
        }
        self.commands.push(command);
        Ok(())
    }

    /// Makes `EXEC` fail. Frees the commands.
    pub fn abort(&mut self) {
        self.is_aborted = true;
        self.commands = Vec::new();
    }

    /// The commands; `None` if the transaction is aborted.
    pub fn into_commands(self) -> Option<Vec<OwnedArguments>> {
        (!self.is_aborted).then_some(self.commands)
    }
}
