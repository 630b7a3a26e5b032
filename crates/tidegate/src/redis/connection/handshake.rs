//! The first commands on a new connection: login, and what kind of server it is.

use redis::{Pipeline, ServerError, Value};

use super::client_config::Endpoint;
use super::connect_error::{ConnectError, ConnectErrorKind as Kind};
use super::multiplexed::{Connection, closed_error};
use super::reply::{error_text, is_permission_error};
use crate::redis::url::Address;

/// Older versions lack commands that the script needs.
const VERSION_MIN: (u32, u32) = (6, 2);

/// What kind of server replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HelloReply {
    pub mode: ServerMode,
    pub role: ReplicationRole,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerMode {
    Standalone,
    Cluster,
    Sentinel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplicationRole {
    Master,
    Replica,
}

/// Logs in, and queries what kind of server it is.
pub(crate) async fn handshake(
    connection: &Connection,
    endpoint: &Endpoint<'_>,
) -> Result<HelloReply, ConnectError> {
    let address = endpoint.address;
    let mut pipeline = Pipeline::new();
    if let Some(login) = endpoint.login {
        pipeline.cmd("AUTH").arg(login.user.as_deref()).arg(&*login.password);
    }
    // Of all commands that return a version, this one needs the fewest permissions.
    pipeline.cmd("HELLO");
    if endpoint.database > 0 {
        pipeline.cmd("SELECT").arg(endpoint.database);
    }
    let replies = connection.send(&pipeline).await.map_err(|error| closed_error(address, &error))?;
    let mut replies = replies.into_iter();
    if endpoint.login.is_some()
        && let Err(error) = into_result(replies.next())
    {
        return Err(login_error(connection, address, &error).await);
    }
    let hello = match into_result(replies.next()) {
        Ok(hello) => hello,
        Err(error) => return Err(hello_error(connection, address, &error).await),
    };
    if endpoint.database > 0 {
        into_result(replies.next()).map_err(|error| {
            let message = format!("there is no database {} ({})", endpoint.database, error_text(&error));
            ConnectError::new(
                Kind::WrongKind,
                address,
                message,
                "the server's setting `databases` says how many there are",
            )
        })?;
    }
    parse_hello(address, &hello)
}

/// A reply, or its error.
pub(crate) fn into_result(reply: Option<Value>) -> Result<Value, ServerError> {
    match reply {
        Some(Value::ServerError(error)) => Err(error),
        Some(value) => Ok(value),
        None => Ok(Value::Nil),
    }
}

/// The text of a reply.
pub(crate) fn as_text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

/// Parses names and values in turn.
fn parse_hello(address: &Address, hello: &Value) -> Result<HelloReply, ConnectError> {
    let fields = if let Value::Array(fields) = hello { fields.as_slice() } else { &[] };
    let field = |name: &str| {
        fields.chunks_exact(2).find(|pair| as_text(&pair[0]) == Some(name)).and_then(|pair| as_text(&pair[1]))
    };
    if let (Some("redis"), Some(version)) = (field("server"), field("version")) {
        check_version(address, version)?;
    }
    let mode = match field("mode") {
        Some("cluster") => ServerMode::Cluster,
        Some("sentinel") => ServerMode::Sentinel,
        _ => ServerMode::Standalone,
    };
    let role = if let Some("replica" | "slave") = field("role") {
        ReplicationRole::Replica
    } else {
        ReplicationRole::Master
    };
    Ok(HelloReply { mode, role })
}

fn check_version(address: &Address, version: &str) -> Result<(), ConnectError> {
    let mut numbers = version.split('.').map_while(|number| number.parse::<u32>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) if (major, minor) < VERSION_MIN => Err(too_old_error(address, version)),
        _ => Ok(()),
    }
}

fn too_old_error(address: &Address, version: &str) -> ConnectError {
    let (major, minor) = VERSION_MIN;
    let hint = format!("Tidegate needs Redis {major}.{minor} or later, or Valkey");
    ConnectError::new(Kind::TooOld, address, format!("Redis {version} is too old"), hint)
}

async fn login_error(connection: &Connection, address: &Address, error: &ServerError) -> ConnectError {
    let details = error.details().unwrap_or_default();
    if details.starts_with(ONE_ARGUMENT_TEXT) {
        return too_old_error(address, query_version(connection).await.as_deref().unwrap_or("before 6.0"));
    }
    let denied = |hint: &str| ConnectError::new(Kind::AccessDenied, address, error_text(error), hint);
    if error.code() == "WRONGPASS" || details.starts_with(WRONG_PASSWORD_TEXT) {
        return denied(
            "the user or the password is wrong; write redis://USER:PASSWORD@HOST, or redis://:PASSWORD@HOST without a \
             user",
        );
    }
    if NO_PASSWORD_TEXTS.iter().any(|text| details.starts_with(text)) {
        return denied("the server has no password: leave it out of the URL, or set `requirepass` there");
    }
    let refused = refusal_error(address, error);
    if ECHO_FREE_CODES.contains(&error.code()) || details.starts_with(MAX_CLIENTS_TEXT) {
        return refused;
    }
    // Redis echoes the arguments of an unknown command, and a proxy in front of it may too. They contain the
    // password.
    let message =
        format!("it replies to AUTH with an error ({}), which may contain the password", error.code());
    let hint = "see the server's log; AUTH may have another name there (`rename-command`), or a proxy in between may not \
                support it";
    ConnectError::new(refused.kind(), address, message, hint)
}

/// Error codes of AUTH whose text never contains the password, as Redis and Valkey write them.
const ECHO_FREE_CODES: [&str; 6] = ["NOAUTH", "NOPERM", "LOADING", "DENIED", "MASTERDOWN", "BUSY"];
const MAX_CLIENTS_TEXT: &str = "max number of clients";
/// Before version 6.
const WRONG_PASSWORD_TEXT: &str = "invalid password";
const NO_PASSWORD_TEXTS: [&str; 2] =
    ["AUTH <password> called without any password", "Client sent AUTH, but no password is set"];
/// Version 5 has no users, only a password.
const ONE_ARGUMENT_TEXT: &str = "wrong number of arguments for 'auth'";

async fn hello_error(connection: &Connection, address: &Address, error: &ServerError) -> ConnectError {
    let text = error_text(error);
    if error.code() == "NOAUTH" {
        let hint = "the server wants a password: redis://:PASSWORD@HOST, or redis://USER:PASSWORD@HOST";
        return ConnectError::new(Kind::AccessDenied, address, text, hint);
    }
    if !matches!(error.code(), "ERR" | "NOPROTO") || text.contains(MAX_CLIENTS_TEXT) {
        return refusal_error(address, error);
    }
    // The server does not know the command, or requires arguments.
    too_old_error(address, query_version(connection).await.as_deref().unwrap_or("(unknown version)"))
}

/// The server's version, if it reports one.
async fn query_version(connection: &Connection) -> Option<String> {
    let mut info = Pipeline::new();
    info.cmd("INFO").arg("server");
    let replies = connection.send(&info).await.unwrap_or_default();
    replies.first().and_then(|info| text_after(as_text(info)?, "redis_version:").map(str::to_owned))
}

fn text_after<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(label)).map(str::trim)
}

/// The error for a server that denies access or cannot be used now.
pub(crate) fn refusal_error(address: &Address, error: &ServerError) -> ConnectError {
    let details = error.details().unwrap_or_default();
    let (kind, hint) = match error.code() {
        _ if is_permission_error(error) => (
            Kind::AccessDenied,
            "the user lacks a permission that Tidegate needs: ACL SETUSER USER ~NAMESPACE:* +evalsha +eval +script|load +time \
             +mget +mset +exists +del +pexpireat +pexpire +zadd +zcard +zremrangebyscore +wait +cluster|slots +asking",
        ),
        "NOAUTH" | "WRONGPASS" => (Kind::AccessDenied, "the user or the password is wrong"),
        "DENIED" => (
            Kind::AccessDenied,
            "the server is in protected mode: set a password, or bind it to an address that only you can reach",
        ),
        "LOADING" => (Kind::NotReady, "the server is loading its data from disk: wait until it is done"),
        "OOM" => (Kind::NotReady, "the server is out of memory: raise its `maxmemory`, or let it evict keys"),
        "MISCONF" => (Kind::NotReady, "the server cannot save its data to disk: see its log"),
        "NOREPLICAS" => {
            (Kind::NotReady, "the server requires more replicas than it has: see `min-replicas-to-write`")
        }
        "READONLY" => (
            Kind::WrongKind,
            "it is a replica, which accepts no writes: name the master, or use redis+sentinel://",
        ),
        "CLUSTERDOWN" => {
            (Kind::NotReady, "the cluster has slots without a master: redis-cli --cluster check")
        }
        "ERR" if details.contains(MAX_CLIENTS_TEXT) => {
            (Kind::NotReady, "raise the server's `maxclients`, or open fewer connections")
        }
        _ => (Kind::NotReady, "see the server's log"),
    };
    ConnectError::new(kind, address, error_text(error), hint)
}
