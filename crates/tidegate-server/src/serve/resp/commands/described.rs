//! The commands there are, as they are looked up and as `COMMAND` describes them.

/// A command.
#[derive(Debug)]
pub(super) struct CommandSpec {
    pub id: CommandId,
    /// In lower case.
    pub name: &'static str,
    /// As Redis says it: so many arguments with the name, or, negative, at least so many.
    pub arity: i64,
    pub flags: &'static [&'static str],
    /// Which argument is a key that a cluster would go by; 0 if none is.
    pub key_position: i64,
    pub group: &'static str,
    pub summary: &'static str,
    pub arguments: &'static [ArgumentSpec],
}

/// An argument of a command.
#[derive(Debug)]
pub(super) struct ArgumentSpec {
    pub name: &'static str,
    pub kind: &'static str,
    pub flags: &'static [&'static str],
}

/// Which command it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandId {
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
    /// The command of this name, in whatever case it is written.
    #[inline]
    pub fn find(name: &[u8]) -> Option<&'static Self> {
        COMMANDS.iter().find(|described| described.name.as_bytes().eq_ignore_ascii_case(name))
    }

    /// Whether it can have so many arguments, with its name.
    #[inline]
    pub fn accepts(&self, arguments: usize) -> bool {
        let arguments = i64::try_from(arguments).unwrap_or(i64::MAX);
        if self.arity < 0 { arguments >= -self.arity } else { arguments == self.arity }
    }
}

impl CommandId {
    /// Whether it may be asked before the password was said.
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

/// All of them, those that are asked most first.
pub(super) const COMMANDS: [CommandSpec; 14] = [
    CommandSpec {
        id: CommandId::Throttle,
        name: "cl.throttle",
        // It says itself how it is to be used, as redis-cell does.
        arity: -1,
        flags: CHARGE_FLAGS,
        key_position: 1,
        group: "tidegate",
        summary: "Asks a limit that comes with the call, as redis-cell does",
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
        summary: "Says what TIDEGATE.CHECK would, and charges nothing",
        arguments: ATTRIBUTES,
    },
    CommandSpec {
        id: CommandId::Ping,
        name: "ping",
        arity: -1,
        flags: FAST_FLAGS,
        key_position: 0,
        group: "connection",
        summary: "Says that the server is there",
        arguments: &[optional("message", "string")],
    },
    CommandSpec {
        id: CommandId::Echo,
        name: "echo",
        arity: 2,
        flags: FAST_FLAGS,
        key_position: 0,
        group: "connection",
        summary: "Says what it was told",
        arguments: &[required("message", "string")],
    },
    CommandSpec {
        id: CommandId::Select,
        name: "select",
        arity: 2,
        flags: CONNECTION_FLAGS,
        key_position: 0,
        group: "connection",
        summary: "Chooses the database, of which there is one: 0",
        arguments: &[required("index", "integer")],
    },
    CommandSpec {
        id: CommandId::Auth,
        name: "auth",
        arity: -2,
        flags: &["noscript", "loading", "stale", "fast", "no_auth"],
        key_position: 0,
        group: "connection",
        summary: "Says the password",
        arguments: &[optional("username", "string"), required("password", "string")],
    },
    CommandSpec {
        id: CommandId::Hello,
        name: "hello",
        arity: -1,
        flags: &["noscript", "loading", "stale", "fast", "no_auth"],
        key_position: 0,
        group: "connection",
        summary: "Chooses RESP2 or RESP3",
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
        summary: "About this connection",
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
        summary: "What of a Redis server's settings can be said of this one",
        arguments: &[required("subcommand", "string")],
    },
    CommandSpec {
        id: CommandId::Info,
        name: "info",
        arity: -1,
        flags: &["loading", "stale"],
        key_position: 0,
        group: "server",
        summary: "About this server",
        arguments: &[optional("section", "string")],
    },
    CommandSpec {
        id: CommandId::Reset,
        name: "reset",
        arity: 1,
        flags: &["noscript", "loading", "stale", "fast", "no_auth"],
        key_position: 0,
        group: "connection",
        summary: "Makes this connection as it was when it was opened",
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
