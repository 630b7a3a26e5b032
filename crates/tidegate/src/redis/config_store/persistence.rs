//! Whether Redis keeps its data.

use std::collections::BTreeMap;

use redis::Value;

use super::RedisConfigStore;
use super::call::ShardCall;
use super::shard::Shard;
use crate::config::ConfigStoreError;
use crate::redis::connection::as_text;

impl RedisConfigStore {
    /// Why Redis may lose config data, if its settings say so. To be logged when a node starts.
    ///
    /// There is a warning if a server has no append-only file, if it may evict keys without a TTL, or if the user may not
    /// ask (`INFO`).
    pub async fn persistence_warning(&self) -> Result<Option<String>, ConfigStoreError> {
        let mut shard_of_server = BTreeMap::new();
        for shard in Shard::all() {
            shard_of_server.entry(self.locate(shard).server).or_insert(shard);
        }
        for (server, shard) in shard_of_server {
            // Redis 6.2 takes one section for each command.
            let info = |section: &str| {
                let mut command = redis::cmd("INFO");
                command.arg(section);
                ShardCall { shard, command }
            };
            let address = self.inner.context.servers.address(server);
            let name = address.map_or_else(|| "Redis".to_owned(), |address| format!("Redis at {address}"));
            let warning = match self.send_all(vec![info("persistence"), info("memory")]).await {
                Ok(replies) => warning(&replies),
                Err(ConfigStoreError::Broken(reason)) => {
                    Some(format!("does not say whether it keeps its data: {reason} (hint: permit `INFO`)"))
                }
                Err(error) => return Err(error),
            };
            if let Some(warning) = warning {
                return Ok(Some(format!("{name} {warning}")));
            }
        }
        Ok(None)
    }
}

fn warning(replies: &[Value]) -> Option<String> {
    let field = |name: &str| {
        let lines = replies.iter().filter_map(as_text).flat_map(str::lines);
        lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim).next()
    };
    if field("aof_enabled") != Some("1") {
        return Some(
            "has no append-only file: a restart loses overrides and rules (hint: set `appendonly yes`)"
                .to_owned(),
        );
    }
    let policy = field("maxmemory_policy").filter(|policy| policy.starts_with("allkeys-"))?;
    Some(format!(
        "has `maxmemory-policy {policy}`: it evicts overrides and rules when its memory is full (hint: set `volatile-ttl` or \
         `noeviction`)"
    ))
}

#[cfg(test)]
mod tests {
    use redis::Value;

    use super::warning;

    fn warning_for(aof_enabled: u8, policy: &str) -> Option<String> {
        let section = |text: String| Value::BulkString(text.into_bytes());
        warning(&[
            section(format!("# Persistence\r\nloading:0\r\naof_enabled:{aof_enabled}\r\n")),
            section(format!("# Memory\r\nmaxmemory_policy:{policy}\r\n")),
        ])
    }

    #[test]
    fn settings_that_lose_data_are_named() {
        assert!(warning_for(0, "noeviction").is_some_and(|text| text.contains("appendonly yes")));
        assert!(warning_for(1, "allkeys-lru").is_some_and(|text| text.contains("allkeys-lru")));
        assert_eq!(warning_for(1, "volatile-ttl"), None);
        assert_eq!(warning_for(1, "noeviction"), None);
    }
}
