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

use super::connect::BEATS;
use super::servers::{Sent, Servers};
use super::ticking::Due;
use crate::sync::lock;

/// The script that says so.
pub(super) const HEARTBEAT: &str = include_str!("lua/heartbeat.lua");

/// How often at least.
const EVERY: Duration = Duration::from_secs(2);
/// How much sooner by chance, so that a fleet that was started together does not beat together.
const SOONER_MAX: Duration = Duration::from_millis(400);
/// How often until the first is answered: a store that connects in the background may be found at any moment.
const EVERY_AT_FIRST: Duration = Duration::from_millis(200);
/// For how long who was heard of is taken to be there.
const KEPT_US: u64 = 10_000_000;

/// How many of the last answers are looked at: those of ten seconds, for as long as who was heard of is taken to be there.
const HEARD_MAX: usize = 6;

/// How many processes there are, as far as is known.
pub(super) struct Heartbeat {
    live_nodes: AtomicU32,
    key: Box<str>,
    /// What this process is known by.
    id: Box<str>,
    random: RandomState,
    due: Due,
    beating: Mutex<Beating>,
}

/// What the last beats came to.
#[derive(Default)]
struct Beating {
    heard: Heard,
    /// How many were started.
    turns: u64,
    is_under_way: bool,
}

/// The last answers, however long ago that was.
#[derive(Default)]
struct Heard([u32; HEARD_MAX]);

impl Heard {
    fn is_empty(&self) -> bool {
        self.0[0] == 0
    }

    /// Adds one, and gives the largest of them.
    fn add(&mut self, count: u32) -> u32 {
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
            due: Due::default(),
            beating: Mutex::default(),
        })
    }

    pub(super) fn live_nodes(&self) -> NonZeroU32 {
        NonZeroU32::new(self.live_nodes.load(Ordering::Relaxed)).unwrap_or(NonZeroU32::MIN)
    }

    /// Says that this process is there if that is due: every two seconds, and sooner until the first is answered.
    pub(super) fn tick(self: &Arc<Self>, now: Timestamp, servers: &Arc<Servers>, runtime: &Handle) {
        let mut beating = lock(&self.beating);
        let is_first = beating.turns == 0 && beating.heard.is_empty();
        let pause = || self.pause(&beating);
        if !(self.due.is_due(now, pause) || is_first) || beating.is_under_way {
            return;
        }
        beating.turns += 1;
        beating.is_under_way = true;
        drop(beating);
        let (heartbeat, servers) = (self.clone(), Arc::downgrade(servers));
        runtime.spawn(async move {
            if let Some(servers) = servers.upgrade() {
                heartbeat.beat(&servers).await;
            }
            lock(&heartbeat.beating).is_under_way = false;
        });
    }

    fn pause(&self, beating: &Beating) -> Duration {
        if beating.heard.is_empty() {
            return EVERY_AT_FIRST;
        }
        let sooner_ns =
            self.random.hash_one(beating.turns) % u64::try_from(SOONER_MAX.as_nanos()).unwrap_or(1);
        EVERY - Duration::from_nanos(sooner_ns)
    }

    /// Says that this process is there. If it does not get through, what was known last stays.
    pub(super) async fn beat(&self, servers: &Servers) {
        let place = servers.place(self.key.as_bytes());
        let mut command = redis::cmd("EVALSHA");
        command.arg(servers.sha(BEATS)).arg(1).arg(&*self.key).arg(&*self.id).arg(KEPT_US);
        let mut replies = servers.send(place.server, vec![Sent { slot: place.slot, command }]).await;
        if let Some(Ok(Value::Int(count))) = replies.pop()
            && let Ok(count) = u32::try_from(count)
        {
            let known = lock(&self.beating).heard.add(count);
            self.live_nodes.store(known, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Heard;

    #[test]
    fn who_is_gone_is_forgotten_after_a_while_and_not_at_once() {
        let mut heard = Heard::default();
        assert_eq!([1, 3, 4].map(|count| heard.add(count)), [1, 3, 4]);
        // Redis has lost its data.
        assert_eq!([1, 2, 3].map(|count| heard.add(count)), [4, 4, 4]);
        assert_eq!([3, 3, 3].map(|count| heard.add(count)), [4, 4, 3]);
        assert_eq!(heard.add(7), 7);
        assert_eq!(Heard::default().add(0), 1);
    }
}
