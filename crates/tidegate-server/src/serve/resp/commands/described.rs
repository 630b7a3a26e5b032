//! The commands there are, as they are looked up and as `COMMAND` describes them.

/// A command.
#[derive(Debug)]
pub(super) struct Described {
    pub verb: Verb,
    /// In lower case.
    pub name: &'static str,
    /// As Redis says it: so many arguments with the name, or, negative, at least so many.
    pub arity: i64,
    pub flags: &'static [&'static str],
    /// Which argument is a key that a cluster would go by; 0 if none is.
    pub key: i64,
    pub group: &'static str,
    pub summary: &'static str,
    pub arguments: &'static [Argument],
}

/// An argument of a command.
#[derive(Debug)]
pub(super) struct Argument {
    pub name: &'static str,
    pub kind: &'static str,
    pub flags: &'static [&'static str],
}

/// Which command it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
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

impl Described {
    /// The command of this name, in whatever case it is written.
    #[inline]
    pub fn find(name: &[u8]) -> Option<&'static Self> {
        COMMANDS.iter().find(|described| described.name.as_bytes().eq_ignore_ascii_case(name))
    }

    /// Whether it can have so many arguments, with its name.
    #[inline]
    pub fn takes(&self, arguments: usize) -> bool {
        let arguments = i64::try_from(arguments).unwrap_or(i64::MAX);
        if self.arity < 0 { arguments >= -self.arity } else { arguments == self.arity }
    }
}

impl Verb {
    /// Whether it may be asked before the password was said.
    pub fn is_for_strangers(self) -> bool {
        matches!(self, Self::Auth | Self::Hello | Self::Reset | Self::Quit)
    }
}

const FAST: &[&str] = &["fast"];
const CHARGES: &[&str] = &["write", "denyoom", "fast"];
const ABOUT: &[&str] = &["noscript", "loading", "stale", "fast"];

const fn needed(name: &'static str, kind: &'static str) -> Argument {
    Argument { name, kind, flags: &[] }
}

const fn optional(name: &'static str, kind: &'static str) -> Argument {
    Argument { name, kind, flags: &["optional"] }
}

const ATTRIBUTES: &[Argument] = &[
    needed("domain", "string"),
    Argument { name: "key value", kind: "string", flags: &["multiple"] },
    optional("COST cost", "integer"),
];

/// All of them, those that are asked most first.
pub(super) const COMMANDS: [Described; 14] = [
    Described {
        verb: Verb::Throttle,
        name: "cl.throttle",
        // It says itself how it is to be used, as redis-cell does.
        arity: -1,
        flags: CHARGES,
        key: 1,
        group: "tidegate",
        summary: "Asks a limit that comes with the call, as redis-cell does",
        arguments: &[
            needed("key", "key"),
            needed("max_burst", "integer"),
            needed("count", "integer"),
            needed("period", "integer"),
            optional("quantity", "integer"),
        ],
    },
    Described {
        verb: Verb::Check,
        name: "tidegate.check",
        arity: -4,
        flags: CHARGES,
        key: 0,
        group: "tidegate",
        summary: "Decides a request by the rules of a domain",
        arguments: ATTRIBUTES,
    },
    Described {
        verb: Verb::Peek,
        name: "tidegate.peek",
        arity: -4,
        flags: &["readonly", "fast"],
        key: 0,
        group: "tidegate",
        summary: "Says what TIDEGATE.CHECK would, and charges nothing",
        arguments: ATTRIBUTES,
    },
    Described {
        verb: Verb::Ping,
        name: "ping",
        arity: -1,
        flags: FAST,
        key: 0,
        group: "connection",
        summary: "Says that the server is there",
        arguments: &[optional("message", "string")],
    },
    Described {
        verb: Verb::Echo,
        name: "echo",
        arity: 2,
        flags: FAST,
        key: 0,
        group: "connection",
        summary: "Says what it was told",
        arguments: &[needed("message", "string")],
    },
    Described {
        verb: Verb::Select,
        name: "select",
        arity: 2,
        flags: ABOUT,
        key: 0,
        group: "connection",
        summary: "Chooses the database, of which there is one: 0",
        arguments: &[needed("index", "integer")],
    },
    Described {
        verb: Verb::Auth,
        name: "auth",
        arity: -2,
        flags: &["noscript", "loading", "stale", "fast", "no_auth"],
        key: 0,
        group: "connection",
        summary: "Says the password",
        arguments: &[optional("username", "string"), needed("password", "string")],
    },
    Described {
        verb: Verb::Hello,
        name: "hello",
        arity: -1,
        flags: &["noscript", "loading", "stale", "fast", "no_auth"],
        key: 0,
        group: "connection",
        summary: "Chooses RESP2 or RESP3",
        arguments: &[
            optional("protover", "integer"),
            optional("AUTH username password", "string"),
            optional("SETNAME clientname", "string"),
        ],
    },
    Described {
        verb: Verb::Client,
        name: "client",
        arity: -2,
        flags: ABOUT,
        key: 0,
        group: "connection",
        summary: "About this connection",
        arguments: &[needed("subcommand", "string")],
    },
    Described {
        verb: Verb::Command,
        name: "command",
        arity: -1,
        flags: &["loading", "stale"],
        key: 0,
        group: "server",
        summary: "Describes the commands",
        arguments: &[optional("subcommand", "string")],
    },
    Described {
        verb: Verb::Config,
        name: "config",
        arity: -2,
        flags: ABOUT,
        key: 0,
        group: "server",
        summary: "What of a Redis server's settings can be said of this one",
        arguments: &[needed("subcommand", "string")],
    },
    Described {
        verb: Verb::Info,
        name: "info",
        arity: -1,
        flags: &["loading", "stale"],
        key: 0,
        group: "server",
        summary: "About this server",
        arguments: &[optional("section", "string")],
    },
    Described {
        verb: Verb::Reset,
        name: "reset",
        arity: 1,
        flags: &["noscript", "loading", "stale", "fast", "no_auth"],
        key: 0,
        group: "connection",
        summary: "Makes this connection as it was when it was opened",
        arguments: &[],
    },
    Described {
        verb: Verb::Quit,
        name: "quit",
        arity: -1,
        flags: &["noscript", "loading", "stale", "fast", "no_auth"],
        key: 0,
        group: "connection",
        summary: "Closes the connection",
        arguments: &[],
    },
];
