//! Errors of store URLs.

use std::fmt;

use super::URL_SERVERS_MAX;

/// What is wrong with the URL of a store. It never contains text that may be a password.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UrlError {
    /// The scheme is unknown.
    Scheme(Box<str>),
    /// It names no server.
    NoServer,
    /// It names several servers, but its scheme takes one.
    SeveralServers,
    /// It names more servers than are allowed.
    TooManyServers,
    /// It names the same server twice.
    DuplicateServer(Box<str>),
    /// Not a host. The text after its colon is left out.
    Host(Box<str>),
    /// Not a port. Contains the host's name.
    Port(Box<str>),
    /// The user or the password contains a character that must be escaped.
    Unescaped,
    /// A `%` is not followed by two hexadecimal digits, or the decoded bytes are not UTF-8.
    Escape,
    /// A Sentinel URL does not name a master.
    NoMaster,
    /// Not a database number.
    Database(Box<str>),
    /// There is more after the servers than is allowed.
    Path(Box<str>),
    /// The parameter is unknown, or does not belong to this scheme.
    Parameter(Box<str>),
}

impl UrlError {
    /// What is wrong.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Scheme(scheme) => format!("unknown URL scheme `{scheme}`"),
            Self::NoServer => "the URL names no server".to_owned(),
            Self::SeveralServers => "redis:// takes one server".to_owned(),
            Self::TooManyServers => format!("the URL names more than {URL_SERVERS_MAX} servers"),
            Self::DuplicateServer(address) => format!("the URL names {address} twice"),
            Self::Host(host) => format!("`{host}` is not a host"),
            Self::Port(host) => format!("the port of `{host}` is not valid"),
            Self::Unescaped => {
                "the user or the password contains a character that must be escaped in a URL".to_owned()
            }
            Self::Escape => {
                "a `%` in the URL is not followed by two hexadecimal digits, or the decoded bytes are not UTF-8"
                    .to_owned()
            }
            Self::NoMaster => "the URL does not name a master".to_owned(),
            Self::Database(number) => format!("`{number}` is not a database number"),
            Self::Path(path) => format!("unexpected `{path}` after the servers"),
            Self::Parameter(name) => format!("`{name}` is not a parameter of this URL"),
        }
    }

    /// How to fix it.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::Scheme(_) => {
                "redis://HOST, redis+sentinel://HOST,HOST/MASTER, redis-cluster://HOST,HOST or redis+ring://HOST,HOST; with \
                 `rediss` in place of `redis` for TLS"
            }
            Self::NoServer => "write one after `://`, as in redis://10.0.0.7:6379",
            Self::SeveralServers => "for several use redis-cluster://, redis+sentinel:// or redis+ring://",
            Self::TooManyServers => "name only some servers of a cluster; they report the others",
            Self::DuplicateServer(_) => "leave one of them out",
            Self::Host(_) => {
                "use a name or an address; write IPv6 in brackets, as in redis://[::1]:6379; write @ after a password, as in \
                 redis://USER:PASSWORD@HOST"
            }
            Self::Port(_) => "use a number from 1 to 65535, as in redis://10.0.0.7:6379",
            Self::Unescaped => {
                "write `/` as %2F, `@` as %40, `:` as %3A, `?` as %3F, `#` as %23 and `%` as %25"
            }
            Self::Escape => "write `%` as %25",
            Self::NoMaster => {
                "redis+sentinel://HOST,HOST/MASTER, where MASTER is the name in `sentinel monitor MASTER ...`"
            }
            Self::Database(_) => "the default is 0 and can be left out",
            Self::Path(_) => {
                "only a database number may follow the servers; in redis+sentinel:// the master comes before it, and in \
                 redis-cluster:// nothing may follow"
            }
            Self::Parameter(_) => {
                "redis+sentinel:// takes sentinel_user and sentinel_password; other URLs take no parameters"
            }
        }
    }
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (hint: {})", self.message(), self.hint())
    }
}

impl std::error::Error for UrlError {}
