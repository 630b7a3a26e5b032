//! All commands, as clients see them in `COMMAND`.

use super::table::{ArgumentSpec, CommandId, CommandSpec};

const FAST_FLAGS: &[&str] = &["fast"];
const CHARGE_FLAGS: &[&str] = &["write", "denyoom", "fast"];
const CONNECTION_FLAGS: &[&str] = &["noscript", "loading", "stale", "fast"];

const fn required(name: &'static str, kind: &'static str) -> ArgumentSpec {
    ArgumentSpec { name, kind, flags: &[] }
}

const fn optional(name: &'static str, kind: &'static str) -> ArgumentSpec {
    ArgumentSpec { name, kind, flags: &["optional"] }
}

const TOKEN: ArgumentSpec = required("token", "string");
const DOMAIN: ArgumentSpec = required("domain", "string");
const ATTRIBUTES: ArgumentSpec = ArgumentSpec { name: "key value", kind: "string", flags: &["multiple"] };
const COST: ArgumentSpec = optional("COST cost", "integer");
const TTL: ArgumentSpec = optional("TTL ttl", "string");

/// A command of Tidegate's own.
const fn tidegate_command(
    id: CommandId,
    name: &'static str,
    arity: i64,
    summary: &'static str,
    arguments: &'static [ArgumentSpec],
) -> CommandSpec {
    CommandSpec {
        id,
        name,
        arity,
        flags: CHARGE_FLAGS,
        key_position: 0,
        group: "tidegate",
        summary,
        arguments,
    }
}

/// A command of Redis' transactions.
const fn transaction_command(
    id: CommandId,
    name: &'static str,
    arity: i64,
    summary: &'static str,
) -> CommandSpec {
    let (flags, group) = (CONNECTION_FLAGS, "transactions");
    CommandSpec { id, name, arity, flags, key_position: 0, group, summary, arguments: &[] }
}

/// All commands, the most frequent first.
pub(crate) const COMMANDS: [CommandSpec; 23] = [
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
    tidegate_command(
        CommandId::Check,
        "tidegate.check",
        -4,
        "Decides a request by the rules of a domain",
        &[DOMAIN, ATTRIBUTES, COST],
    ),
    CommandSpec {
        flags: &["readonly", "fast"],
        ..tidegate_command(
            CommandId::Peek,
            "tidegate.peek",
            -4,
            "Returns what TIDEGATE.CHECK would, without charging",
            &[DOMAIN, ATTRIBUTES, COST],
        )
    },
    tidegate_command(
        CommandId::Acquire,
        "tidegate.acquire",
        -4,
        "Decides a request, and takes a lease of its concurrency limits",
        &[DOMAIN, ATTRIBUTES, COST, TTL],
    ),
    tidegate_command(
        CommandId::Renew,
        "tidegate.renew",
        -5,
        "Extends a lease",
        &[TOKEN, DOMAIN, ATTRIBUTES, COST, TTL],
    ),
    tidegate_command(
        CommandId::Release,
        "tidegate.release",
        -5,
        "Releases a lease",
        &[TOKEN, DOMAIN, ATTRIBUTES, COST],
    ),
    tidegate_command(
        CommandId::Refund,
        "tidegate.refund",
        -4,
        "Refunds what a request was charged; needs the admin token",
        &[DOMAIN, ATTRIBUTES, COST],
    ),
    transaction_command(CommandId::Multi, "multi", 1, "Begins a transaction: queues the next commands"),
    transaction_command(CommandId::Exec, "exec", 1, "Runs the queued commands"),
    transaction_command(CommandId::Discard, "discard", 1, "Drops the queued commands"),
    transaction_command(CommandId::Watch, "watch", -2, "Is not supported: there are no keys to watch"),
    transaction_command(CommandId::Unwatch, "unwatch", 1, "Accepted; has no effect"),
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
