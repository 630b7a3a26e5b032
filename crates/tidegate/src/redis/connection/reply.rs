//! What a reply of Redis means for the command.

use redis::{ServerError, ServerErrorKind, Value};

use crate::redis::url::Address;

/// The bytes of a server's error text to repeat at most.
const ERROR_TEXT_BYTES_MAX: usize = 200;

/// Errors with which a server refuses writes, and still reads.
const WRITE_ERRORS: [&str; 3] = ["OOM", "MISCONF", "NOREPLICAS"];
/// How versions of Redis and Valkey report that the user lacks a permission which a script needs.
const PERMISSION_ERRORS: [&str; 3] = ["-NOPERM ", "user executing the script can't", "ACL failure in script"];

/// What a reply means.
pub(crate) enum CommandReply {
    Done(Value),
    /// It did not run: the server does not have the script.
    NoScript,
    /// It did not run: the slot has another owner.
    Moved(Redirect),
    /// It did not run: the slot is migrating, and this key has moved to the new owner.
    Ask(Redirect),
    /// It did not run: the slot is migrating, and only some of its keys have moved.
    TryAgain(Box<str>),
    /// It did not run.
    Refused(CommandRefusal),
}

/// Where to send the command instead.
pub(crate) struct Redirect {
    /// None means the host that sent the redirect.
    host: Option<Box<str>>,
    port: u16,
    pub text: Box<str>,
}

/// The error text, and what it applies to.
pub(crate) struct CommandRefusal {
    pub text: Box<str>,
    pub scope: RefusalScope,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefusalScope {
    /// This command only.
    Command,
    /// A slot without an owner.
    Slot,
    /// Every write to this server. Reads work.
    Writes,
    /// The commands that the user may not run. All decisions need the same permissions.
    Permission,
    /// The whole server: every command would fail.
    Server,
    /// The server is not the master, or not any more.
    Master,
}

impl CommandReply {
    pub fn from_value(value: Value) -> Self {
        let Value::ServerError(error) = value else { return Self::Done(value) };
        let text = error_text(&error);
        match error.kind() {
            Some(ServerErrorKind::NoScript) => Self::NoScript,
            Some(ServerErrorKind::TryAgain) => Self::TryAgain(text),
            Some(kind @ (ServerErrorKind::Moved | ServerErrorKind::Ask)) => match Redirect::parse(&error) {
                Some(to) if kind == ServerErrorKind::Moved => Self::Moved(to),
                Some(to) => Self::Ask(to),
                None => Self::Refused(CommandRefusal { text, scope: RefusalScope::Command }),
            },
            _ => Self::Refused(CommandRefusal { scope: RefusalScope::from_error(&error), text }),
        }
    }
}

impl Redirect {
    /// From `3999 127.0.0.1:6381`. The host is empty if the server does not know its own.
    fn parse(error: &ServerError) -> Option<Self> {
        let target = error.details()?.split_ascii_whitespace().nth(1)?;
        let (host, port) = target.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Some(Self {
            host: (!host.is_empty() && host != "?").then(|| host.to_ascii_lowercase().into()),
            port: port.parse().ok().filter(|&port| port > 0)?,
            text: error_text(error),
        })
    }

    pub fn address(&self, from: &Address) -> Address {
        Address { host: self.host.clone().unwrap_or_else(|| from.host.clone()), port: self.port }
    }
}

impl RefusalScope {
    pub fn from_error(error: &ServerError) -> Self {
        match error.code() {
            "READONLY" => Self::Master,
            "NOPERM" => Self::Permission,
            "CLUSTERDOWN" if error.details().is_some_and(|text| text.contains("slot not served")) => {
                Self::Slot
            }
            code if WRITE_ERRORS.contains(&code) => Self::Writes,
            "LOADING" | "CLUSTERDOWN" | "MASTERDOWN" | "BUSY" | "NOAUTH" => Self::Server,
            // Before version 7 the cause of a script's error is only in its text.
            "ERR" => {
                let details = error.details().unwrap_or_default();
                if details.contains("-READONLY ") {
                    Self::Master
                } else if is_permission_error(error) {
                    Self::Permission
                } else if WRITE_ERRORS.iter().any(|code| details.contains(&format!("-{code} "))) {
                    Self::Writes
                } else {
                    Self::Command
                }
            }
            _ => Self::Command,
        }
    }
}

/// Whether the user lacks a permission.
pub(crate) fn is_permission_error(error: &ServerError) -> bool {
    let details = error.details().unwrap_or_default();
    error.code() == "NOPERM" || PERMISSION_ERRORS.iter().any(|text| details.contains(text))
}

/// The error text of the server, on one line of bounded length.
pub(crate) fn error_text(error: &ServerError) -> Box<str> {
    let text = match error.details() {
        Some(details) => format!("{} {details}", error.code()),
        None => error.code().to_owned(),
    };
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .scan(0, |bytes, c| {
            *bytes += c.len_utf8();
            (*bytes <= ERROR_TEXT_BYTES_MAX).then_some(c)
        })
        .collect::<String>()
        .into()
}

#[cfg(test)]
mod tests {
    use redis::{Value, parse_redis_value};

    use super::{Address, CommandReply, ERROR_TEXT_BYTES_MAX, RefusalScope};

    fn parse_reply(line: &str) -> CommandReply {
        CommandReply::from_value(parse_redis_value(format!("{line}\r\n").as_bytes()).expect("a reply"))
    }

    fn refusal_scope(line: &str) -> RefusalScope {
        let CommandReply::Refused(refusal) = parse_reply(line) else { panic!("{line}") };
        refusal.scope
    }

    #[test]
    fn a_refusal_has_a_scope() {
        assert_eq!(refusal_scope("-LOADING Redis is loading the dataset in memory"), RefusalScope::Server);
        assert_eq!(refusal_scope("-NOPERM this user has no permissions"), RefusalScope::Permission);
        assert_eq!(refusal_scope("-CLUSTERDOWN The cluster is down"), RefusalScope::Server);
        assert_eq!(refusal_scope("-CLUSTERDOWN Hash slot not served"), RefusalScope::Slot);
        assert_eq!(
            refusal_scope("-READONLY You can't write against a read only replica."),
            RefusalScope::Master
        );
        assert_eq!(refusal_scope("-WRONGTYPE Operation against a key"), RefusalScope::Command);
        assert_eq!(refusal_scope("-ERR value is not an integer or out of range"), RefusalScope::Command);
        // The format of Redis 6.2.
        let details = "-ERR Error running script (call to f_9c): @user_script:1: @user_script: 1: ";
        assert_eq!(refusal_scope(&format!("{details}-READONLY You can't write")), RefusalScope::Master);
        assert_eq!(refusal_scope(&format!("{details}-OOM command not allowed")), RefusalScope::Writes);
        assert_eq!(
            refusal_scope("-OOM command not allowed when used memory > 'maxmemory'."),
            RefusalScope::Writes
        );
        assert_eq!(refusal_scope("-NOREPLICAS Not enough good replicas to write."), RefusalScope::Writes);
        assert_eq!(refusal_scope(&format!("{details}WRONGTYPE Operation")), RefusalScope::Command);
    }

    #[test]
    fn redirects_are_parsed() {
        let from = Address { host: "asked".into(), port: 1 };
        for (line, host, port) in [
            ("-MOVED 3999 127.0.0.1:6381", "127.0.0.1", 6381),
            ("-MOVED 3999 Node.Example:6381", "node.example", 6381),
            ("-MOVED 3999 ::1:6381", "::1", 6381),
            ("-MOVED 3999 [::1]:6381", "::1", 6381),
            ("-MOVED 3999 :6381", "asked", 6381),
        ] {
            let CommandReply::Moved(to) = parse_reply(line) else { panic!("{line}") };
            assert_eq!(to.address(&from), Address { host: host.into(), port }, "{line}");
        }
        assert!(matches!(parse_reply("-ASK 7 127.0.0.1:6381"), CommandReply::Ask(_)));
        for line in
            ["-MOVED", "-MOVED 1", "-MOVED 1 host", "-MOVED 1 host:0", "-MOVED 1 host:x", "-ASK 1 h:70000"]
        {
            assert_eq!(refusal_scope(line), RefusalScope::Command, "{line}");
        }
    }

    #[test]
    fn error_text_is_bounded_and_on_one_line() {
        let CommandReply::Refused(refusal) = parse_reply(&format!("-ERR a\tb{}", "\u{e9}".repeat(5000)))
        else {
            panic!()
        };
        assert!(refusal.text.len() <= ERROR_TEXT_BYTES_MAX && refusal.text.starts_with("ERR a b\u{e9}"));
        assert!(matches!(parse_reply("+OK"), CommandReply::Done(Value::Okay)));
        assert!(matches!(parse_reply("-NOSCRIPT No matching script."), CommandReply::NoScript));
        assert!(matches!(parse_reply("-TRYAGAIN Multiple keys"), CommandReply::TryAgain(_)));
    }
}
