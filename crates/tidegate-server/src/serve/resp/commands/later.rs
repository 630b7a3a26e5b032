//! Commands whose answers come later, because the store is not in this process.

use super::described::{Described, Verb};
use super::{check, throttle};
use crate::serve::resp::Server;
use crate::serve::resp::parse::{Arguments, OwnedArguments, Trust};
use crate::serve::resp::reply::{Replies, Version};
use crate::serve::resp::session::Session;
use crate::serve::resp::together::Asks;

/// A command whose answer comes later, with nothing borrowed of what was read.
pub(in crate::serve::resp) struct Later {
    command: Command,
    arguments: OwnedArguments,
    version: Version,
}

#[derive(Clone, Copy)]
enum Command {
    Throttle,
    Check,
    Peek,
}

impl Later {
    /// This command, if it is one that the store is asked for, and may be asked.
    pub fn of(arguments: &Arguments<'_>, session: &Session, version: Version) -> Option<Self> {
        let described = Described::find(arguments.get(0)?)?;
        let command = match described.verb {
            Verb::Throttle => Command::Throttle,
            Verb::Check => Command::Check,
            Verb::Peek => Command::Peek,
            _ => return None,
        };
        let is_asked = session.trust == Trust::Known && described.takes(arguments.len());
        is_asked.then(|| Self { command, arguments: arguments.kept(), version })
    }

    /// What the store is asked for.
    pub fn asks(&self) -> Asks {
        match self.command {
            Command::Throttle | Command::Check => Asks::Charges,
            Command::Peek => Asks::Looks,
        }
    }

    /// How many bytes it keeps.
    pub fn bytes(&self) -> usize {
        self.arguments.bytes()
    }

    /// Asks, and answers.
    pub async fn answer(self, server: &Server) -> Replies {
        let mut replies = Replies::new(self.version);
        let arguments = self.arguments.lent();
        match self.command {
            Command::Throttle => throttle::later(server, &arguments, &mut replies).await,
            Command::Check => check::check_later(server, &arguments, &mut replies).await,
            Command::Peek => check::peek_later(server, &arguments, &mut replies).await,
        }
        replies
    }
}
