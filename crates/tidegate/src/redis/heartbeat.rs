//! How many processes share the store: each says every two seconds that it is there.
//!
//! A limit is divided among them while Redis does not answer. Who has not been heard of for ten seconds is taken to be gone.
//! A Redis that has lost who there is hears of all of them again within two seconds, and may be away again before that: so
//! what counts is the largest number of the last ten seconds in which it answered.

use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::Value;
use tidegate_core::Timestamp;
use tokio::runtime::Handle;

use super::connect::HEARTBEAT_SCRIPT_INDEX;
use super::servers::{SlotCommand, Servers};
use super::tick::PeriodicTimer;
use crate::sync::lock;

/// The script that says so.
pub(super) const HEARTBEAT_SCRIPT: &str = include_str!("lua/heartbeat.lua");

/// How often at least.
const INTERVAL: Duration = Duration::from_secs(2);
/// How much sooner by chance, so that a fleet that was started together does not beat together.
const JITTER_MAX: Duration = Duration::from_millis(400);
/// How often until the first is answered: a store that connects in the background may be found at any moment.
const INTERVAL_BEFORE_FIRST_REPLY: Duration = Duration::from_millis(200);
/// For how long who was heard of is taken to be there.
const LIVE_FOR_US: u64 = 10_000_000;

/// How many of the last answers are looked at: those of ten seconds, for as long as who was heard of is taken to be there.
const RECENT_COUNTS_MAX: usize = 6;

/// How many processes there are, as far as is known.
pub(super) struct Heartbeat {
    live_nodes: AtomicU32,
    key: Box<str>,
    /// What this process is known by.
    id: Box<str>,
    random: RandomState,
    timer: PeriodicTimer,
    state: Mutex<BeatState>,
}

/// What the last beats came to.
#[derive(Default)]
struct BeatState {
    recent_counts: RecentCounts,
    /// How many were started.
    beats_started: u64,
    is_running: bool,
}

/// The last answers, however long ago that was.
#[derive(Default)]
struct RecentCounts([u32; RECENT_COUNTS_MAX]);

impl RecentCounts {
    fn is_empty(&self) -> bool {
        self.0[0] == 0
    }

    /// Adds one, and gives the largest of them.
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

    /// Says that this process is there if that is due: every two seconds, and sooner until the first is answered.
    pub(super) fn tick(self: &Arc<Self>, now: Timestamp, servers: &Arc<Servers>, runtime: &Handle) {
        let mut beating = lock(&self.state);
        let is_first = beating.beats_started == 0 && beating.recent_counts.is_empty();
        let pause = || self.pause(&beating);
        if !(self.timer.is_due(now, pause) || is_first) || beating.is_running {
            return;
        }
        beating.beats_started += 1;
        beating.is_running = true;
        drop(beating);
        let (heartbeat, servers) = (self.clone(), Arc::downgrade(servers));
        runtime.spawn(async move {
            if let Some(servers) = servers.upgrade() {
                heartbeat.send(&servers).await;
            }
            lock(&heartbeat.state).is_running = false;
        });
    }

    fn pause(&self, beating: &BeatState) -> Duration {
        if beating.recent_counts.is_empty() {
            return INTERVAL_BEFORE_FIRST_REPLY;
        }
        let sooner_ns =
            self.random.hash_one(beating.beats_started) % u64::try_from(JITTER_MAX.as_nanos()).unwrap_or(1);
        INTERVAL - Duration::from_nanos(sooner_ns)
    }

    /// Says that this process is there. If it does not get through, what was known last stays.
    pub(super) async fn send(&self, servers: &Servers) {
        let place = servers.locate(self.key.as_bytes());
        let mut command = redis::cmd("EVALSHA");
        command.arg(servers.sha(HEARTBEAT_SCRIPT_INDEX)).arg(1).arg(&*self.key).arg(&*self.id).arg(LIVE_FOR_US);
        let mut replies = servers.send(place.server, vec![SlotCommand { slot: place.slot, command }]).await;
        if let Some(Ok(Value::Int(count))) = replies.pop()
            && let Ok(count) = u32::try_from(count)
        {
            let known = lock(&self.state).recent_counts.push_and_max(count);
            self.live_nodes.store(known, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::RecentCounts;

    #[test]
    fn a_lost_node_is_forgotten_after_several_replies() {
        let mut heard = RecentCounts::default();
        assert_eq!([1, 3, 4].map(|count| heard.push_and_max(count)), [1, 3, 4]);
        // Redis has lost its data.
        assert_eq!([1, 2, 3].map(|count| heard.push_and_max(count)), [4, 4, 4]);
        assert_eq!([3, 3, 3].map(|count| heard.push_and_max(count)), [4, 4, 3]);
        assert_eq!(heard.push_and_max(7), 7);
        assert_eq!(RecentCounts::default().push_and_max(0), 1);
    }
}
