//! How many processes share the store: each says every two seconds that it is there.
//!
//! A limit is divided among them while Redis does not answer. Who has not been heard of for ten seconds is taken to be gone.
//! A Redis that has lost who there is hears of all of them again within two seconds, and may be away again before that: so
//! what counts is the largest number of the last ten seconds in which it answered.

use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::Value;

use super::connect::BEATS;
use super::servers::{Sent, Servers};

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
#[derive(Debug)]
pub(super) struct Heartbeat {
    live_nodes: AtomicU32,
}

/// Who says that it is there, and where.
struct Beating {
    servers: Weak<Servers>,
    key: Box<str>,
    id: Box<str>,
    random: RandomState,
    heard: Heard,
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
    /// Says that this process is there, once now and then every two seconds, for as long as the servers and this are.
    pub(super) async fn start(servers: &Arc<Servers>, namespace: &str) -> Arc<Self> {
        let (heartbeat, mut beating) = (Self::new(), Beating::new(servers, namespace));
        beating.beat(&heartbeat).await;
        tokio::spawn(beating.keep_beating(Arc::downgrade(&heartbeat)));
        heartbeat
    }

    /// The same, and does not wait for the first: the servers may be away.
    pub(super) fn start_lazy(servers: &Arc<Servers>, namespace: &str) -> Arc<Self> {
        let (heartbeat, beating) = (Self::new(), Beating::new(servers, namespace));
        tokio::spawn(beating.keep_beating(Arc::downgrade(&heartbeat)));
        heartbeat
    }

    fn new() -> Arc<Self> {
        Arc::new(Self { live_nodes: AtomicU32::new(1) })
    }

    pub(super) fn live_nodes(&self) -> NonZeroU32 {
        NonZeroU32::new(self.live_nodes.load(Ordering::Relaxed)).unwrap_or(NonZeroU32::MIN)
    }
}

impl Beating {
    fn new(servers: &Arc<Servers>, namespace: &str) -> Self {
        let random = RandomState::new();
        let id = format!("{:016x}{:016x}", random.hash_one(1), random.hash_one(2));
        Self {
            servers: Arc::downgrade(servers),
            key: format!("{namespace}:1nodes").into(),
            id: id.into(),
            random,
            heard: Heard::default(),
        }
    }

    async fn keep_beating(mut self, heartbeat: Weak<Heartbeat>) {
        for turn in 0_u64.. {
            tokio::time::sleep(self.pause(turn)).await;
            let Some(heartbeat) = heartbeat.upgrade() else { return };
            self.beat(&heartbeat).await;
        }
    }

    fn pause(&self, turn: u64) -> Duration {
        if self.heard.is_empty() {
            return EVERY_AT_FIRST;
        }
        let sooner_ns = self.random.hash_one(turn) % u64::try_from(SOONER_MAX.as_nanos()).unwrap_or(1);
        EVERY - Duration::from_nanos(sooner_ns)
    }

    /// If it does not get through, what was known last stays.
    async fn beat(&mut self, heartbeat: &Heartbeat) {
        let Some(servers) = self.servers.upgrade() else { return };
        let place = servers.place(self.key.as_bytes());
        let mut command = redis::cmd("EVALSHA");
        command.arg(servers.sha(BEATS)).arg(1).arg(&*self.key).arg(&*self.id).arg(KEPT_US);
        let mut replies = servers.send(place.server, vec![Sent { slot: place.slot, command }]).await;
        if let Some(Ok(Value::Int(count))) = replies.pop()
            && let Ok(count) = u32::try_from(count)
        {
            heartbeat.live_nodes.store(self.heard.add(count), Ordering::Relaxed);
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
