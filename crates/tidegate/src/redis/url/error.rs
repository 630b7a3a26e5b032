//! What is wrong with an address.

use std::fmt;

use super::URL_SERVERS_MAX;

/// What is wrong with the address of a store. Nothing of what may be a password is repeated in it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UrlError {
    /// It does not begin with one of the schemes.
    Scheme(Box<str>),
    /// It names no server.
    NoServer,
    /// It names more than one server, and is of a kind that has one.
    SeveralServers,
    /// It names more servers than are allowed.
    TooManyServers,
    /// It names the same server twice.
    DuplicateServer(Box<str>),
    /// A host that is none, without what comes after its colon.
    Host(Box<str>),
    /// A port that is none: the host's name.
    Port(Box<str>),
    /// A user name or a password holds a character that has to be written in another way.
    Unescaped,
    /// A `%` that is not followed by two digits of base 16, or what they stand for is no text.
    Escape,
    /// It does not say which master the Sentinels are to be asked for.
    NoMaster,
    /// A number of a database that is none.
    Database(Box<str>),
    /// Something after the servers that does not belong there.
    Path(Box<str>),
    /// A parameter that is not known, or not for this kind of store.
    Parameter(Box<str>),
}

impl UrlError {
    /// What is wrong.
    pub(in crate::redis) fn message(&self) -> String {
        match self {
            Self::Scheme(scheme) => format!("`{scheme}` is no kind of store"),
            Self::NoServer => "the URL names no server".to_owned(),
            Self::SeveralServers => "redis:// is for one server".to_owned(),
            Self::TooManyServers => format!("the URL names more than {URL_SERVERS_MAX} servers"),
            Self::DuplicateServer(address) => format!("the URL names {address} twice"),
            Self::Host(host) => format!("`{host}` is no host"),
            Self::Port(host) => format!("the port of `{host}` is none"),
            Self::Unescaped => {
                "the user or the password holds a character that means something in a URL".to_owned()
            }
            Self::Escape => {
                "a `%` in the URL is not followed by two digits of base 16, or what they stand for is no text"
                    .to_owned()
            }
            Self::NoMaster => "the URL does not say which master to ask for".to_owned(),
            Self::Database(number) => format!("`{number}` is no number of a database"),
            Self::Path(path) => format!("`{path}` does not belong there"),
            Self::Parameter(name) => format!("`{name}` is no parameter of this URL"),
        }
    }

    /// What to do about it.
    pub(in crate::redis) fn hint(&self) -> &'static str {
        match self {
            Self::Scheme(_) => {
                "redis://HOST, redis+sentinel://HOST,HOST/MASTER, redis-cluster://HOST,HOST or redis+ring://HOST,HOST; with \
                 `rediss` in place of `redis` for TLS"
            }
            Self::NoServer => "write one after `://`, as in redis://10.0.0.7:6379",
            Self::SeveralServers => "for several use redis-cluster://, redis+sentinel:// or redis+ring://",
            Self::TooManyServers => "of a cluster some will do, it tells the others",
            Self::DuplicateServer(_) => "leave one of them out",
            Self::Host(_) => {
                "a name or an address; IPv6 in brackets, as in redis://[::1]:6379; after a password an @, as in \
                 redis://USER:PASSWORD@HOST"
            }
            Self::Port(_) => "a number from 1 to 65535, as in redis://10.0.0.7:6379",
            Self::Unescaped => {
                "write `/` as %2F, `@` as %40, `:` as %3A, `?` as %3F, `#` as %23 and `%` as %25"
            }
            Self::Escape => "write `%` as %25",
            Self::NoMaster => {
                "redis+sentinel://HOST,HOST/MASTER, where MASTER is the name in `sentinel monitor MASTER ...`"
            }
            Self::Database(_) => "0 is the usual one, and may be left out",
            Self::Path(_) => {
                "after the servers there is at most the number of a database, in redis+sentinel:// the master before it, \
                 and in redis-cluster:// nothing"
            }
            Self::Parameter(_) => {
                "redis+sentinel:// has sentinel_user and sentinel_password, the others have none"
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
