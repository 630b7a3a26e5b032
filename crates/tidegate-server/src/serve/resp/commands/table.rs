//! The table of commands, for look-up and for `COMMAND`.

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
        COMMANDS.iter().find(|spec| spec.name.as_bytes().eq_ignore_ascii_case(name))
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
}

const FAST_FLAGS: &[&str] = &["fast"];
const CHARGE_FLAGS: &[&str] = &["write", "denyoom", "fast"];
const CONNECTION_FLAGS: &[&str] = &["noscript", "loading", "stale", "fast"];

const fn required(name: &'static str, kind: &'static str) -> ArgumentSpec {
    ArgumentSpec { name, kind, flags: &[] }
}

const fn optional(name: &'static str, kind: &'static str) -> ArgumentSpec {
    ArgumentSpec { name, kind, flags: &["optional"] }
}

const ATTRIBUTES: &[ArgumentSpec] = &[
    required("domain", "string"),
    ArgumentSpec { name: "key value", kind: "string", flags: &["multiple"] },
    optional("COST cost", "integer"),
];

/// All commands, the most frequent first.
pub(crate) const COMMANDS: [CommandSpec; 14] = [
    CommandSpec {
        id: CommandId::Throttle,
        name: "cl.throttle",
        // Any number: the command itself reports wrong usage, as redis-cell does.
        arity: -1,
        flags: CHARGE_FLAGS,
        key_position: 1,
        group: "tidegate",
        summary: "Checks a limit given in the call, as redis-cell does",
        arguments: &[
            required("key", "key"),
            required("max_burst", "integer"),
            required("count", "integer"),
            required("period", "integer"),
            optional("quantity", "integer"),
        ],
    },
    CommandSpec {
        id: CommandId::Check,
        name: "tidegate.check",
        arity: -4,
        flags: CHARGE_FLAGS,
        key_position: 0,
        group: "tidegate",
        summary: "Decides a request by the rules of a domain",
        arguments: ATTRIBUTES,
    },
    CommandSpec {
        id: CommandId::Peek,
        name: "tidegate.peek",
        arity: -4,
        flags: &["readonly", "fast"],
        key_position: 0,
        group: "tidegate",
        summary: "Returns what TIDEGATE.CHECK would, without charging",
        arguments: ATTRIBUTES,
    },
    CommandSpec {
        id: CommandId::Ping,
        name: "ping",
        arity: -1,
        flags: FAST_FLAGS,
        key_position: 0,
        group: "connection",
        summary: "Returns PONG or the message",
        arguments: &[optional("message", "string")],
    },
    CommandSpec {
        id: CommandId::Echo,
        name: "echo",
        arity: 2,
        flags: FAST_FLAGS,
        key_position: 0,
        group: "connection",
        summary: "Returns the message",
        arguments: &[required("message", "string")],
    },
    CommandSpec {
        id: CommandId::Select,
        name: "select",
        arity: 2,
        flags: CONNECTION_FLAGS,
        key_position: 0,
        group: "connection",
        summary: "Selects the database; only 0 exists",
        arguments: &[required("index", "integer")],
    },
    CommandSpec {
        id: CommandId::Auth,
        name: "auth",
        arity: -2,
        flags: &["noscript", "loading", "stale", "fast", "no_auth"],
        key_position: 0,
        group: "connection",
        summary: "Authenticates the connection",
        arguments: &[optional("username", "string"), required("password", "string")],
    },
    CommandSpec {
        id: CommandId::Hello,
        name: "hello",
        arity: -1,
        flags: &["noscript", "loading", "stale", "fast", "no_auth"],
        key_position: 0,
        group: "connection",
        summary: "Selects RESP2 or RESP3",
        arguments: &[
            optional("protover", "integer"),
            optional("AUTH username password", "string"),
            optional("SETNAME clientname", "string"),
        ],
    },
    CommandSpec {
        id: CommandId::Client,
        name: "client",
        arity: -2,
        flags: CONNECTION_FLAGS,
        key_position: 0,
        group: "connection",
        summary: "Shows and sets properties of the connection",
        arguments: &[required("subcommand", "string")],
    },
    CommandSpec {
        id: CommandId::Command,
        name: "command",
        arity: -1,
        flags: &["loading", "stale"],
        key_position: 0,
        group: "server",
        summary: "Describes the commands",
        arguments: &[optional("subcommand", "string")],
    },
    CommandSpec {
        id: CommandId::Config,
        name: "config",
        arity: -2,
        flags: CONNECTION_FLAGS,
        key_position: 0,
        group: "server",
        summary: "Returns the Redis settings that apply to this server",
        arguments: &[required("subcommand", "string")],
    },
    CommandSpec {
        id: CommandId::Info,
        name: "info",
        arity: -1,
        flags: &["loading", "stale"],
        key_position: 0,
        group: "server",
        summary: "Returns information about the server",
        arguments: &[optional("section", "string")],
    },
    CommandSpec {
        id: CommandId::Reset,
        name: "reset",
        arity: 1,
        flags: &["noscript", "loading", "stale", "fast", "no_auth"],
        key_position: 0,
        group: "connection",
        summary: "Resets the connection to its initial state",
        arguments: &[],
    },
    CommandSpec {
        id: CommandId::Quit,
        name: "quit",
        arity: -1,
        flags: &["noscript", "loading", "stale", "fast", "no_auth"],
        key_position: 0,
        group: "connection",
        summary: "Closes the connection",
        arguments: &[],
    },
];
