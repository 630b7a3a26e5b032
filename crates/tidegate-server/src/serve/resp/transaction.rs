//! The commands of a transaction: `MULTI` collects them, `EXEC` runs them.

use super::parse::{Arguments, OwnedArguments};
use crate::serve::connections_memory::HeldBytes;

/// Maximum number of commands of a transaction.
pub(crate) const TRANSACTION_COMMANDS_MAX: usize = 1_024;
/// Maximum bytes of the commands of a transaction.
pub(crate) const TRANSACTION_BYTES_MAX: usize = 1 << 20;

/// The memory of a transaction is reserved in multiples of this.
const RESERVATION_STEP_BYTES: usize = 4 << 10;

/// The commands since `MULTI`.
#[derive(Debug)]
pub(crate) struct Transaction {
    commands: QueuedCommands,
    bytes: usize,
    heap_bytes: usize,
    /// Whether a command was rejected, so that `EXEC` runs none.
    is_aborted: bool,
}

/// Commands, and the memory that is reserved for them.
#[derive(Debug)]
pub(crate) struct QueuedCommands {
    pub commands: Vec<OwnedArguments>,
    held: HeldBytes,
}

/// Why a command cannot be queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueError {
    /// The commands exceed a bound.
    TransactionFull,
    /// Connections hold all of their memory.
    OutOfMemory,
}

impl Transaction {
    /// `held` is a reservation of nothing.
    pub fn new(held: HeldBytes) -> Self {
        let commands = QueuedCommands { commands: Vec::new(), held };
        Self { commands, bytes: 0, heap_bytes: 0, is_aborted: false }
    }

    /// Adds a command, unless the transaction is aborted.
    pub fn push(&mut self, arguments: &Arguments<'_>) -> Result<(), QueueError> {
        if self.is_aborted {
            return Ok(());
        }
        let command = arguments.to_owned_arguments();
        self.bytes += command.bytes();
        self.heap_bytes += command.heap_bytes();
        let QueuedCommands { commands, held } = &mut self.commands;
        if commands.len() == TRANSACTION_COMMANDS_MAX || self.bytes > TRANSACTION_BYTES_MAX {
            self.abort();
            return Err(QueueError::TransactionFull);
        }
        commands.push(command);
        let taken_bytes = self.heap_bytes + commands.capacity() * size_of::<OwnedArguments>();
        if !held.try_hold(taken_bytes.next_multiple_of(RESERVATION_STEP_BYTES) as u64) {
            self.abort();
            return Err(QueueError::OutOfMemory);
        }
        Ok(())
    }

    /// Makes `EXEC` fail. Frees the commands.
    pub fn abort(&mut self) {
        self.is_aborted = true;
        self.commands.commands = Vec::new();
        // Less can always be held.
        let _ = self.commands.held.try_hold(0);
    }

    /// The commands; `None` if the transaction is aborted.
    pub fn into_commands(self) -> Option<QueuedCommands> {
        (!self.is_aborted).then_some(self.commands)
    }
}
