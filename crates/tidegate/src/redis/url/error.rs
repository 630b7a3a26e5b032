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
    Twice(Box<str>),
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

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scheme(scheme) => write!(
                f,
                "`{scheme}` is no kind of store (hint: redis://HOST, redis+sentinel://HOST,HOST/MASTER, \
                 redis-cluster://HOST,HOST or redis+ring://HOST,HOST; with `rediss` in place of `redis` for TLS)"
            ),
            Self::NoServer => {
                f.write_str("the URL names no server (hint: write one after `://`, as in redis://10.0.0.7:6379)")
            }
            Self::SeveralServers => f.write_str(
                "redis:// is for one server (hint: for several use redis-cluster://, redis+sentinel:// or redis+ring://)",
            ),
            Self::TooManyServers => write!(
                f,
                "the URL names more than {URL_SERVERS_MAX} servers (hint: of a cluster some will do, it tells the others)"
            ),
            Self::Twice(address) => write!(f, "the URL names {address} twice (hint: leave one of them out)"),
            Self::Host(host) => write!(
                f,
                "`{host}` is no host (hint: a name or an address; IPv6 in brackets, as in redis://[::1]:6379; after a \
                 password an @, as in redis://USER:PASSWORD@HOST)"
            ),
            Self::Port(host) => {
                write!(f, "the port of `{host}` is none (hint: a number from 1 to 65535, as in redis://10.0.0.7:6379)")
            }
            Self::Unescaped => f.write_str(
                "the user or the password holds a character that means something in a URL (hint: write `/` as %2F, \
                 `@` as %40, `:` as %3A, `?` as %3F, `#` as %23 and `%` as %25)",
            ),
            Self::Escape => f.write_str(
                "a `%` in the URL is not followed by two digits of base 16, or what they stand for is no text (hint: \
                 write `%` as %25)",
            ),
            Self::NoMaster => f.write_str(
                "the URL does not say which master to ask for (hint: redis+sentinel://HOST,HOST/MASTER, where MASTER is \
                 the name in `sentinel monitor MASTER ...`)",
            ),
            Self::Database(number) => {
                write!(f, "`{number}` is no number of a database (hint: 0 is the usual one, and may be left out)")
            }
            Self::Path(path) => write!(
                f,
                "`{path}` does not belong there (hint: after the servers there is at most the number of a database, in \
                 redis+sentinel:// the master before it, and in redis-cluster:// nothing)"
            ),
            Self::Parameter(name) => write!(
                f,
                "`{name}` is no parameter of this URL (hint: redis+sentinel:// has sentinel_user and sentinel_password, \
                 the others have none)"
            ),
        }
    }
}

impl std::error::Error for UrlError {}
