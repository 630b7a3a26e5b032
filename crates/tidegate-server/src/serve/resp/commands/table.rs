//! The table of commands, for look-up and for `COMMAND`. `specs.rs` has its rows.

pub(crate) use super::specs::COMMANDS;

/// No name is longer.
const NAME_BYTES_MAX: usize = 16;

#[derive(Debug)]
pub(crate) struct CommandSpec {
    pub id: CommandId,
    /// In lower case.
    pub name: &'static str,
    /// As in Redis: the number of arguments including the name, or the negated minimum.
    pub arity: i64,
    pub flags: &'static [&'static str],
    /// Index of the key argument, for cluster clients; 0 if there is none.
    pub key_position: i64,
    pub group: &'static str,
    pub summary: &'static str,
    pub arguments: &'static [ArgumentSpec],
}

#[derive(Debug)]
pub(crate) struct ArgumentSpec {
    pub name: &'static str,
    pub kind: &'static str,
    pub flags: &'static [&'static str],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandId {
    Throttle,
    Check,
    Peek,
    Acquire,
    Renew,
    Release,
    Refund,
    Multi,
    Exec,
    Discard,
    Watch,
    Unwatch,
    Ping,
    Echo,
    Select,
    Auth,
    Hello,
    Client,
    Command,
    Config,
    Info,
    Reset,
    Quit,
}

impl CommandSpec {
    /// Finds a command by its name, in any case.
    #[inline]
    pub fn find(name: &[u8]) -> Option<&'static Self> {
        // In lower case once, not in each comparison.
        let mut buffer = [0; NAME_BYTES_MAX];
        let lower = buffer.get_mut(..name.len())?;
        lower.copy_from_slice(name);
        buffer.make_ascii_lowercase();
        let lower = &buffer[..name.len()];
        COMMANDS.iter().find(|spec| spec.name.as_bytes() == lower)
    }

    /// Whether it accepts this many arguments, including its name.
    #[inline]
    pub fn accepts(&self, arguments: usize) -> bool {
        let arguments = i64::try_from(arguments).unwrap_or(i64::MAX);
        if self.arity < 0 { arguments >= -self.arity } else { arguments == self.arity }
    }
}

impl CommandId {
    /// Whether it is allowed before authentication.
    pub fn is_allowed_unauthenticated(self) -> bool {
        matches!(self, Self::Auth | Self::Hello | Self::Reset | Self::Quit)
    }

    /// Whether it runs at once in a transaction, instead of being queued.
    pub fn runs_in_transaction(self) -> bool {
        matches!(self, Self::Multi | Self::Exec | Self::Discard | Self::Watch | Self::Reset | Self::Quit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_in_any_case() {
        for spec in &COMMANDS {
            assert!(spec.name.len() <= NAME_BYTES_MAX, "{}", spec.name);
            let found = CommandSpec::find(spec.name.to_uppercase().as_bytes());
            assert_eq!(found.map(|found| found.id), Some(spec.id));
        }
        assert!(CommandSpec::find(b"").is_none());
        assert!(CommandSpec::find(b"tidegate.check\0").is_none());
        assert!(CommandSpec::find(&[b'a'; NAME_BYTES_MAX + 1]).is_none());
    }
}
