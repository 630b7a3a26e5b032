//! Changes after a version, from the logs of all shards. The module's documentation says why nothing is missed.

use redis::Value;

use super::call::ShardCall;
use super::error::unexpected_reply;
use super::shard::{SHARDS, Shard, ShardKey};
use super::{ConfigScript, RedisConfigStore};
use crate::config::{
    CONFIG_PAGE_MAX, Changes, ConfigStoreError, ConfigVersion, MergedPage, ShardPage, merge_pages,
    shard_share,
};

/// How often clocks are raised in one call at most. Once is enough, or twice if a shard is new. If Redis refuses writes,
/// clocks stay behind, and the caller gets some changes again.
const RAISES_MAX: usize = 3;

/// What to read of each log.
#[derive(Clone, Copy)]
struct LogRead {
    since: u64,
    entries_max: usize,
    purpose: ReadPurpose,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ReadPurpose {
    /// To continue from a version: what was lost since then matters.
    Continue,
    /// To start: only the clocks are read, and shards without a state get one.
    Start,
}

/// The log of a shard, as far as it was read.
struct ShardLog {
    clock: u64,
    start: u64,
    is_gap: bool,
    entries: Vec<LogEntry>,
}

struct LogEntry {
    version: u64,
    key: Box<str>,
    shard: Shard,
}

impl RedisConfigStore {
    pub(super) async fn read_latest(&self) -> Result<ConfigVersion, ConfigStoreError> {
        let read = LogRead { since: 0, entries_max: 0, purpose: ReadPurpose::Start };
        let logs = self.read_logs(read).await?;
        Ok(ConfigVersion::new(least_clock(&logs)))
    }

    pub(super) async fn read_changes(
        &self,
        since: ConfigVersion,
        changes_max: usize,
    ) -> Result<Changes, ConfigStoreError> {
        let changes_max = changes_max.clamp(1, CONFIG_PAGE_MAX);
        let share = shard_share(changes_max, SHARDS);
        let read = LogRead { since: since.get(), entries_max: share, purpose: ReadPurpose::Continue };
        let logs = self.read_logs(read).await?;
        let clock = ConfigVersion::new(least_clock(&logs));
        if logs.iter().any(|log| log.is_gap) {
            self.forget_reads();
            return Ok(Changes { next: clock, is_gap: true, ..Changes::default() });
        }
        let pages = logs.into_iter().map(|log| {
            let has_more = log.entries.len() >= share;
            ShardPage { items: log.entries, has_more }
        });
        let MergedPage { items, has_more } =
            merge_pages(pages, changes_max, |entry: &LogEntry| &entry.version);
        let next = match items.last() {
            Some(last) if has_more => clock.min(ConfigVersion::new(last.version)),
            _ => clock,
        };
        items.iter().for_each(|entry| self.record_read(entry.shard, entry.version));
        let keys = items.into_iter().map(|entry| (entry.key, ConfigVersion::new(entry.version))).collect();
        // While Redis refuses writes, the same page would be read again and again.
        let has_more = has_more && next > since;
        Ok(Changes { keys, next, has_more, is_gap: false })
    }

    /// Reads all logs, and raises the clocks that lag behind.
    async fn read_logs(&self, read: LogRead) -> Result<Vec<ShardLog>, ConfigStoreError> {
        let mut logs = self.read_logs_of(Shard::all().collect(), read, 0).await?;
        let clocks = logs.iter().map(|log| log.clock);
        // A reader that starts creates the shards of a new store. A shard that is created later looks like one that lost
        // its data, to readers that continue from less than its start.
        let mut target = match read.purpose {
            ReadPurpose::Start => clocks.fold(1, u64::max),
            ReadPurpose::Continue => clocks.fold(0, u64::max),
        };
        for _ in 0..RAISES_MAX {
            // A shard that is new starts above all clocks.
            target = logs.iter().map(|log| log.start).fold(target, u64::max);
            let behind: Vec<Shard> =
                Shard::all().filter(|shard| logs[shard.index()].clock < target).collect();
            if behind.is_empty() {
                break;
            }
            for (shard, log) in behind.iter().zip(self.read_logs_of(behind.clone(), read, target).await?) {
                // A loss that the first read has found is not found again.
                let is_gap = log.is_gap || logs[shard.index()].is_gap;
                logs[shard.index()] = ShardLog { is_gap, ..log };
            }
        }
        logs.iter().for_each(|log| self.record_version(log.clock));
        Ok(logs)
    }

    async fn read_logs_of(
        &self,
        shards: Vec<Shard>,
        read: LogRead,
        raise_to: u64,
    ) -> Result<Vec<ShardLog>, ConfigStoreError> {
        let calls = shards.iter().map(|shard| self.changes_call(*shard, read, raise_to)).collect();
        let replies = self.send_all(calls).await?;
        let parse = |(shard, reply): (&Shard, &Value)| {
            parse_reply(*shard, reply).ok_or_else(|| unexpected_reply(*shard, reply))
        };
        shards.iter().zip(&replies).map(parse).collect()
    }

    fn changes_call(&self, shard: Shard, read: LogRead, raise_to: u64) -> ShardCall {
        let mut call = self.script_call(ConfigScript::Changes, shard, &[ShardKey::Log, ShardKey::State]);
        let last_read = match read.purpose {
            ReadPurpose::Continue => self.last_read(shard),
            ReadPurpose::Start => 0,
        };
        call.command.arg(shard.index()).arg(read.since).arg(read.entries_max).arg(raise_to).arg(last_read);
        call
    }
}

/// All changes up to it have been listed.
fn least_clock(logs: &[ShardLog]) -> u64 {
    logs.iter().map(|log| log.clock).min().unwrap_or(0)
}

fn parse_reply(shard: Shard, reply: &Value) -> Option<ShardLog> {
    let Value::Array(items) = reply else { return None };
    let [Value::Int(clock), Value::Int(start), Value::Int(is_gap), entries @ ..] = items.as_slice() else {
        return None;
    };
    let entries = entries.chunks(2).map(|entry| parse_entry(shard, entry)).collect::<Option<Vec<_>>>()?;
    let version = |number: &i64| u64::try_from(*number).ok();
    Some(ShardLog { clock: version(clock)?, start: version(start)?, is_gap: *is_gap == 1, entries })
}

/// The id of an entry is `<version>-0`.
fn parse_entry(shard: Shard, entry: &[Value]) -> Option<LogEntry> {
    let [Value::BulkString(id), Value::BulkString(key)] = entry else { return None };
    let version = std::str::from_utf8(id).ok()?.split('-').next()?.parse().ok()?;
    Some(LogEntry { version, key: std::str::from_utf8(key).ok()?.into(), shard })
}
