//! Counts the nodes that share the store: each sends a heartbeat every two seconds.
//!
//! While Redis does not reply, each node enforces its share of a limit, so it must know how many nodes there
//! are. A node without a heartbeat for ten seconds counts as gone. A Redis that lost its data learns of all
//! nodes again within two seconds, but may be down again before that. So the count in use is the largest of
//! the last ten seconds in which Redis replied.

use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::Value;
use tidegate_core::Timestamp;
use tokio::runtime::Handle;

use super::connect::HEARTBEAT_SCRIPT_INDEX;
use super::connection::SlotCommand;
use super::tick::PeriodicTimer;
use super::topology::{KeyMobility, Servers};
use crate::sync::lock;

/// The script of a heartbeat.
pub(super) const HEARTBEAT_SCRIPT: &str = include_str!("lua/heartbeat.lua");

/// The longest time between heartbeats.
const INTERVAL: Duration = Duration::from_secs(2);
/// How much earlier a heartbeat may be, at random. Nodes that started together then do not send together.
const JITTER_MAX: Duration = Duration::from_millis(400);
/// The interval until the first reply: a store that connects in the background may become connected at any
/// moment.
const INTERVAL_BEFORE_FIRST_REPLY: Duration = Duration::from_millis(200);
/// How long a node counts as live after its last heartbeat.
const LIVE_FOR_US: u64 = 10_000_000;

/// How long the list of nodes stays in Redis without a heartbeat: longer than nearly every counter, so that a
/// Redis with `volatile-ttl` evicts counters first.
const LIST_TTL_MS: u64 = 366 * 24 * 3_600_000;

/// How many of the last replies count: those of ten seconds, as long as a node stays live.
const RECENT_COUNTS_MAX: usize = 6;

/// The number of live nodes, as far as this node knows.
pub(super) struct Heartbeat {
    live_nodes: AtomicU32,
    key: Box<str>,
    /// The id of this node.
    id: Box<str>,
    random: RandomState,
    timer: PeriodicTimer,
    state: Mutex<BeatState>,
}

/// The state of the last heartbeats.
#[derive(Default)]
struct BeatState {
    recent_counts: RecentCounts,
    /// How many were started.
    beats_started: u64,
    is_running: bool,
}

/// The counts in the last replies, however long ago they were.
#[derive(Default)]
struct RecentCounts([u32; RECENT_COUNTS_MAX]);

impl RecentCounts {
    fn is_empty(&self) -> bool {
        self.0[0] == 0
    }

    /// Adds a count, and returns the largest.
    fn push_and_max(&mut self, count: u32) -> u32 {
        self.0.rotate_right(1);
        self.0[0] = count;
        self.0.into_iter().fold(1, u32::max)
    }
}

impl Heartbeat {
    pub(super) fn new(namespace: &str) -> Arc<Self> {
        let random = RandomState::new();
        let id = format!("{:016x}{:016x}", random.hash_one(1), random.hash_one(2));
        Arc::new(Self {
            live_nodes: AtomicU32::new(1),
            key: format!("{namespace}:1nodes").into(),
            id: id.into(),
            random,
            timer: PeriodicTimer::default(),
            state: Mutex::default(),
        })
    }

    pub(super) fn live_nodes(&self) -> NonZeroU32 {
        NonZeroU32::new(self.live_nodes.load(Ordering::Relaxed)).unwrap_or(NonZeroU32::MIN)
    }

    /// Sends a heartbeat if one is due: every two seconds, and more often until the first reply.
    pub(super) fn tick(self: &Arc<Self>, now: Timestamp, servers: &Arc<Servers>, runtime: &Handle) {
        let mut state = lock(&self.state);
        let is_first = state.beats_started == 0 && state.recent_counts.is_empty();
        let pause = || self.pause(&state);
        if !(self.timer.is_due(now, pause) || is_first) || state.is_running {
            return;
        }
        state.beats_started += 1;
        state.is_running = true;
        drop(state);
        let (heartbeat, servers) = (self.clone(), Arc::downgrade(servers));
        runtime.spawn(async move {
            if let Some(servers) = servers.upgrade() {
                heartbeat.send(&servers).await;
            }
            lock(&heartbeat.state).is_running = false;
        });
    }

    fn pause(&self, state: &BeatState) -> Duration {
        if state.recent_counts.is_empty() {
            return INTERVAL_BEFORE_FIRST_REPLY;
        }
        let sooner_ns =
            self.random.hash_one(state.beats_started) % u64::try_from(JITTER_MAX.as_nanos()).unwrap_or(1);
        INTERVAL - Duration::from_nanos(sooner_ns)
    }

    /// Sends a heartbeat. If it fails, the last count stays.
    pub(super) async fn send(&self, servers: &Servers) {
        let location = servers.locate(self.key.as_bytes(), KeyMobility::Movable);
        let mut command = redis::cmd("EVALSHA");
        command
            .arg(servers.sha(HEARTBEAT_SCRIPT_INDEX))
            .arg(1)
            .arg(&*self.key)
            .arg(&*self.id)
            .arg(LIVE_FOR_US)
            .arg(LIST_TTL_MS);
        let mut replies =
            servers.send(location.server, vec![SlotCommand { slot: location.slot, command }]).await;
        if let Some(Ok(Value::Int(count))) = replies.results.pop()
            && let Ok(count) = u32::try_from(count)
        {
            let largest = lock(&self.state).recent_counts.push_and_max(count);
            self.live_nodes.store(largest, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::RecentCounts;

    #[test]
    fn a_lost_node_is_forgotten_after_several_replies() {
        let mut counts = RecentCounts::default();
        assert_eq!([1, 3, 4].map(|count| counts.push_and_max(count)), [1, 3, 4]);
        // Redis has lost its data.
        assert_eq!([1, 2, 3].map(|count| counts.push_and_max(count)), [4, 4, 4]);
        assert_eq!([3, 3, 3].map(|count| counts.push_and_max(count)), [4, 4, 3]);
        assert_eq!(counts.push_and_max(7), 7);
        assert_eq!(RecentCounts::default().push_and_max(0), 1);
    }
}
