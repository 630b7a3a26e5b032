//! What an error of Redis means for the caller of the config store.

use std::time::Duration;

use redis::Value;

use super::shard::{Shard, ShardKey};
use crate::config::ConfigStoreError;
use crate::redis::connection::SendError;
use crate::redis::url::Address;

/// Errors of a server that cannot be used now. Another attempt may succeed.
const TEMPORARY_ERRORS: [&str; 11] = [
    "LOADING",
    "READONLY",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "BUSY",
    "MOVED",
    "ASK",
    "TRYAGAIN",
    "NOSCRIPT",
    "NOAUTH",
    "UNBLOCKED",
];
/// What a user of Redis needs for the config store, besides the permissions of the counters.
const PERMISSIONS: &str = "+hget +hmget +hset +hdel +zrem +zrangebylex +xadd +xrange +xrevrange +info";
/// The bytes of a reply to repeat at most.
const REPLY_BYTES_MAX: usize = 100;

/// The error for a command without a reply.
pub(super) fn send_error(
    error: &SendError,
    shard: Shard,
    address: Option<Address>,
    namespace: &str,
    timeout: Duration,
) -> ConfigStoreError {
    let server = address.map_or_else(|| "Redis".to_owned(), |address| format!("Redis at {address}"));
    let unavailable = |reason: String| ConfigStoreError::Unavailable(reason.into());
    match error {
        SendError::NoReply => unavailable(format!(
            "{server} did not reply within {timeout:?}, or closed the connection (hint: a write may have been done, so read \
             the key before you repeat it)"
        )),
        SendError::Away => unavailable(format!(
            "{server} is not connected, or failed several times in a row (hint: the log has the reason; the node \
             reconnects by itself)"
        )),
        SendError::Overloaded => {
            unavailable(format!("too many calls wait for {server} (hint: find out why it is slow)"))
        }
        SendError::WriteRefused(text) if text.contains("OOM ") => ConfigStoreError::Full(
            format!("{server} is out of memory: {text} (hint: raise its `maxmemory`, or delete entries)")
                .into(),
        ),
        SendError::WriteRefused(text) => {
            unavailable(format!("{server} refuses writes: {text} (hint: see its log)"))
        }
        SendError::Refused(text) if TEMPORARY_ERRORS.iter().any(|code| text.starts_with(code)) => {
            unavailable(format!("{server} cannot answer now: {text}"))
        }
        SendError::Refused(text) => {
            ConfigStoreError::Broken(format!("{server}: {text}{}", hint(text, shard, namespace)).into())
        }
    }
}

fn hint(text: &str, shard: Shard, namespace: &str) -> String {
    if text.contains("WRONGTYPE") {
        let name = |key| shard.key_name(namespace, key);
        let [values, keys, log, state] =
            [ShardKey::Values, ShardKey::Keys, ShardKey::Log, ShardKey::State].map(name);
        return format!(
            " (hint: `{values}`, `{keys}`, `{log}` or `{state}` is not what Tidegate wrote; delete it, or give Tidegate its \
             own namespace)"
        );
    }
    if text.contains("NOPERM") || text.contains("ACL failure") || text.contains("can't") {
        return format!(
            " (hint: the user lacks a permission that config data needs: ACL SETUSER USER {PERMISSIONS})"
        );
    }
    String::new()
}

/// A reply of another form than the script has.
pub(super) fn unexpected_reply(shard: Shard, reply: &Value) -> ConfigStoreError {
    let mut text = format!("{reply:?}");
    let end = (0..=REPLY_BYTES_MAX.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.truncate(end.unwrap_or(0));
    let reason =
        format!("an unexpected reply for shard {}: {text} (hint: is it Redis or Valkey?)", shard.index());
    ConfigStoreError::Broken(reason.into())
}

/// The runtime of the store does not run its tasks.
pub(super) fn timed_out(timeout: Duration) -> ConfigStoreError {
    let reason =
        format!("no result within {timeout:?} (hint: the tokio runtime of the store must be driven)");
    ConfigStoreError::Unavailable(reason.into())
}

/// The runtime of the store was dropped.
pub(super) fn runtime_gone() -> ConfigStoreError {
    ConfigStoreError::Unavailable(
        "the tokio runtime of the store has ended (hint: keep it until the end)".into(),
    )
}
