//! What a reply means for whoever sent the command.

use redis::{ServerError, ServerErrorKind, Value};

use crate::redis::url::Address;

/// The most that is repeated of what a server says.
const SAID_BYTES_MAX: usize = 200;

/// What a reply means.
pub(super) enum Reply {
    Done(Value),
    /// It was not run: the server does not have the script.
    NoScript,
    /// It was not run: the slot has another owner.
    Moved(Redirect),
    /// It was not run: the slot is on its way to another owner, who has this key.
    Ask(Redirect),
    /// It was not run: the slot is on its way to another owner, and some of its keys are here and some there.
    TryAgain(Box<str>),
    /// It was not run.
    Refused(Refusal),
}

/// Where to go instead.
pub(super) struct Redirect {
    /// None is the host that was asked.
    host: Option<Box<str>>,
    port: u16,
    pub text: Box<str>,
}

/// What the server said, and what that concerns.
pub(super) struct Refusal {
    pub text: Box<str>,
    pub concerns: Concerns,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Concerns {
    /// This command only.
    Command,
    /// A slot that nobody has.
    Slot,
    /// The server: no command would fare better.
    Server,
    /// The server is not the master, or not any more.
    Master,
}

impl Reply {
    pub fn of(value: Value) -> Self {
        let Value::ServerError(error) = value else { return Self::Done(value) };
        let text = said(&error);
        match error.kind() {
            Some(ServerErrorKind::NoScript) => Self::NoScript,
            Some(ServerErrorKind::TryAgain) => Self::TryAgain(text),
            Some(kind @ (ServerErrorKind::Moved | ServerErrorKind::Ask)) => match Redirect::read(&error) {
                Some(to) if kind == ServerErrorKind::Moved => Self::Moved(to),
                Some(to) => Self::Ask(to),
                None => Self::Refused(Refusal { text, concerns: Concerns::Command }),
            },
            _ => Self::Refused(Refusal { concerns: Concerns::of(&error), text }),
        }
    }
}

impl Redirect {
    /// From `3999 127.0.0.1:6381`. The host is empty if the server does not know its own.
    fn read(error: &ServerError) -> Option<Self> {
        let target = error.details()?.split_ascii_whitespace().nth(1)?;
        let (host, port) = target.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Some(Self {
            host: (!host.is_empty() && host != "?").then(|| host.to_ascii_lowercase().into()),
            port: port.parse().ok().filter(|&port| port > 0)?,
            text: said(error),
        })
    }

    pub fn address(&self, asked: &Address) -> Address {
        Address { host: self.host.clone().unwrap_or_else(|| asked.host.clone()), port: self.port }
    }
}

impl Concerns {
    pub fn of(error: &ServerError) -> Self {
        match error.code() {
            "READONLY" => Self::Master,
            "CLUSTERDOWN" if error.details().is_some_and(|text| text.contains("slot not served")) => {
                Self::Slot
            }
            "LOADING" | "CLUSTERDOWN" | "MASTERDOWN" | "OOM" | "MISCONF" | "NOREPLICAS" | "BUSY"
            | "NOAUTH" | "NOPERM" => Self::Server,
            // Before version 7 what stops a script is named inside the message only.
            "ERR" => {
                let within = error.details().unwrap_or_default();
                if within.contains("-READONLY ") {
                    Self::Master
                } else if ["-OOM ", "-MISCONF ", "-NOREPLICAS ", "-NOPERM "]
                    .iter()
                    .any(|code| within.contains(code))
                {
                    Self::Server
                } else {
                    Self::Command
                }
            }
            _ => Self::Command,
        }
    }
}

/// What the server said, on one line of bounded length.
pub(super) fn said(error: &ServerError) -> Box<str> {
    let text = match error.details() {
        Some(details) => format!("{} {details}", error.code()),
        None => error.code().to_owned(),
    };
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .scan(0, |bytes, c| {
            *bytes += c.len_utf8();
            (*bytes <= SAID_BYTES_MAX).then_some(c)
        })
        .collect::<String>()
        .into()
}
