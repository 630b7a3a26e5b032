//! Pages of entries in the byte order of their keys, from all shards.

use redis::Value;

use super::call::ShardCall;
use super::error::unexpected_reply;
use super::shard::{SHARDS, Shard, ShardKey};
use super::store::parse_entry;
use super::{ConfigScript, RedisConfigStore};
use crate::config::{
    CONFIG_PAGE_MAX, ConfigEntry, ConfigStoreError, MergedPage, Scan, ScanPage, ShardPage, merge_pages,
    shard_share,
};

/// About how many bytes of values a page has at most. Decisions wait while a page is sent on their connection.
const PAGE_BYTES_MAX: usize = 1 << 20;

impl RedisConfigStore {
    pub(super) async fn scan_page(&self, scan: Scan<'_>) -> Result<ScanPage, ConfigStoreError> {
        let entries_max = scan.entries_max.clamp(1, CONFIG_PAGE_MAX);
        let calls =
            Shard::all().map(|shard| self.scan_call(shard, scan, shard_share(entries_max, SHARDS))).collect();
        let replies = self.send_all(calls).await?;
        let parse = |(shard, reply): (Shard, &Value)| {
            parse_reply(reply).ok_or_else(|| unexpected_reply(shard, reply))
        };
        let pages = Shard::all().zip(&replies).map(parse).collect::<Result<Vec<_>, _>>()?;
        let MergedPage { items, has_more } =
            merge_pages(pages, entries_max, |entry: &ConfigEntry| &*entry.key);
        Ok(ScanPage { entries: items, has_more })
    }

    fn scan_call(&self, shard: Shard, scan: Scan<'_>, entries_max: usize) -> ShardCall {
        let Scan { prefix, after, .. } = scan;
        let from = match after {
            Some(after) if after >= prefix => format!("({after}"),
            _ => format!("[{prefix}"),
        };
        // Keys are UTF-8, which never contains this byte.
        let to = [b"[", prefix.as_bytes(), b"\xff"].concat();
        let mut call = self.script_call(ConfigScript::Scan, shard, &[ShardKey::Values, ShardKey::Keys]);
        call.command.arg(from).arg(to).arg(entries_max).arg(PAGE_BYTES_MAX / SHARDS);
        call
    }
}

fn parse_reply(reply: &Value) -> Option<ShardPage<ConfigEntry>> {
    let Value::Array(items) = reply else { return None };
    let [Value::Int(has_more), entries @ ..] = items.as_slice() else { return None };
    let parse = |entry: &[Value]| {
        let [Value::BulkString(key), Value::BulkString(stored)] = entry else { return None };
        Some(parse_entry(std::str::from_utf8(key).ok()?.into(), stored))
    };
    let items = entries.chunks(2).map(parse).collect::<Option<Vec<_>>>()?;
    Some(ShardPage { items, has_more: *has_more == 1 })
}
