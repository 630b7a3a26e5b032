//! Messages that units have come back: waiting requests are woken by them instead of asking again and again.
//!
//! The script publishes the name of a key when a lease on it is released, or when units of it are refunded or reset. Each
//! server has one connection that listens for the keys that are watched. It is opened for the first of them and closed a while
//! after the last.
//!
//! Messages are sent by `PUBLISH` and not by `SPUBLISH`, which came with Redis 7: Redis 6.2 and Valkey know `PUBLISH` too, and
//! in a cluster it reaches subscribers at every node, so a subscription outlives it when a slot moves or a master is replaced.
//! The price is a message to every node of a cluster for each release, which is a fraction of what the release costs.
//!
//! A message can be missed while there is no connection, and never arrives where the user of Redis may not subscribe. So a
//! watch is a hint, and callers poll as well. A watch is also told when its subscription begins, because a message may have been
//! missed before that.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use foldhash::fast::RandomState;
use smallvec::SmallVec;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::deny_cache::DenyCache;
use super::plan::KeyName;
use super::servers::{SubscribeError, SubscriberConnection, ServerId, Servers};
use crate::store::{PollChanged, Watch};
use crate::sync::lock;

/// Keys of one server that are watched at a time. More are not.
const CHANNELS_MAX: usize = 8_192;
/// Watches of this process at a time. More are not made.
const WATCHES_MAX: usize = 16_384;
/// How long a connection to listen on may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// After an attempt to listen that failed.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// After Redis has refused to let this user subscribe. Somebody may change that.
const REFUSED_PAUSE: Duration = Duration::from_secs(30);
/// How long a connection is kept that nobody needs.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// All watches of a store.
pub(super) struct Watches {
    servers: Arc<Servers>,
    deny_cache: Arc<DenyCache>,
    runtime: Handle,
    /// No more than there are servers.
    by_server: Mutex<HashMap<ServerId, Subscriber>>,
    count: Arc<AtomicUsize>,
}

/// What listens to one server.
struct Subscriber {
    channels: Arc<Channels>,
    task: JoinHandle<()>,
}

/// The keys of one server that are watched.
struct Channels {
    watched: Mutex<WatchedKeys>,
    /// Told when what is wanted has changed.
    changed: Notify,
    is_forbidden: AtomicBool,
    deny_cache: Arc<DenyCache>,
}

type WatchedKeys = HashMap<KeyName, SmallVec<[Arc<WatchFlag>; 1]>, RandomState>;

/// Whether something has changed for a watch, and what to wake then.
#[derive(Default)]
struct WatchFlag {
    is_changed: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Watches {
    pub(super) fn new(servers: Arc<Servers>, deny_cache: Arc<DenyCache>, runtime: Handle) -> Self {
        Self { servers, deny_cache, runtime, by_server: Mutex::default(), count: Arc::default() }
    }

    /// A watch of keys at their servers; none if there are too many, or if one of the servers does not let this user subscribe.
    pub(super) fn watch(&self, keys: impl Iterator<Item = (ServerId, KeyName)>) -> Option<Watch> {
        let mut watch =
            KeyWatch { flag: Arc::default(), keys: SmallVec::new(), _permit: WatchPermit::acquire(&self.count)? };
        for (server, key) in keys {
            let channels = self.channels(server);
            if channels.is_forbidden.load(Ordering::Relaxed) || !channels.add(&key, &watch.flag) {
                return None;
            }
            watch.keys.push((channels, key));
        }
        (!watch.keys.is_empty()).then(|| Watch::new(watch))
    }

    fn channels(&self, server: ServerId) -> Arc<Channels> {
        let mut by_server = lock(&self.by_server);
        let start = || {
            let channels = Arc::new(Channels {
                watched: Mutex::default(),
                changed: Notify::new(),
                is_forbidden: AtomicBool::new(false),
                deny_cache: self.deny_cache.clone(),
            });
            let task = self.runtime.spawn(run_subscriber(Arc::downgrade(&self.servers), server, channels.clone()));
            Subscriber { channels, task }
        };
        by_server.entry(server).or_insert_with(start).channels.clone()
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        lock(&self.by_server).values().for_each(|subscriber| subscriber.task.abort());
    }
}

impl Channels {
    /// Whether there was room for it.
    fn add(&self, key: &KeyName, flag: &Arc<WatchFlag>) -> bool {
        let mut wanted = lock(&self.watched);
        if let Some(flags) = wanted.get_mut(key) {
            flags.push(flag.clone());
            return true;
        }
        if wanted.len() >= CHANNELS_MAX {
            return false;
        }
        wanted.insert(key.clone(), SmallVec::from_elem(flag.clone(), 1));
        drop(wanted);
        self.changed.notify_one();
        true
    }

    fn remove(&self, key: &KeyName, flag: &Arc<WatchFlag>) {
        let mut wanted = lock(&self.watched);
        let Some(flags) = wanted.get_mut(key) else { return };
        flags.retain(|other| !Arc::ptr_eq(other, flag));
        if flags.is_empty() {
            wanted.remove(key);
            drop(wanted);
            self.changed.notify_one();
        }
    }

    /// Units of a key may have come back.
    fn notify(&self, key: &[u8]) {
        let key = KeyName::from_slice(key);
        let flags = lock(&self.watched).get(&key).cloned();
        // A denial from memory would be out of date.
        self.deny_cache.forget_key(&key);
        flags.into_iter().flatten().for_each(|flag| flag.set());
    }

    /// What is wanted and not among these, and what is among these and not wanted.
    fn subscription_changes(&self, subscribed: &HashSet<KeyName, RandomState>) -> (Vec<KeyName>, Vec<KeyName>) {
        let wanted = lock(&self.watched);
        let is_new = |key: &&KeyName| !subscribed.contains(*key);
        let new = wanted.keys().filter(is_new).cloned().collect();
        let gone = subscribed.iter().filter(|key| !wanted.contains_key(*key)).cloned().collect();
        (new, gone)
    }

    fn is_empty(&self) -> bool {
        lock(&self.watched).is_empty()
    }
}

impl WatchFlag {
    fn set(&self) {
        self.is_changed.store(true, Ordering::SeqCst);
        let waker = lock(&self.waker).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn poll_changed(&self, context: &mut Context<'_>) -> Poll<()> {
        // The waker is there before the flag is read, so that a message in between wakes it.
        lock(&self.waker).replace(context.waker().clone());
        match self.is_changed.swap(false, Ordering::SeqCst) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

/// A watch of some keys.
struct KeyWatch {
    flag: Arc<WatchFlag>,
    keys: SmallVec<[(Arc<Channels>, KeyName); 1]>,
    _permit: WatchPermit,
}

impl PollChanged for KeyWatch {
    fn poll_changed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.flag.poll_changed(context)
    }
}

impl Drop for KeyWatch {
    fn drop(&mut self) {
        self.keys.iter().for_each(|(channels, key)| channels.remove(key, &self.flag));
    }
}

/// One of the watches there are.
struct WatchPermit(Arc<AtomicUsize>);

impl WatchPermit {
    /// None if there are too many.
    fn acquire(count: &Arc<AtomicUsize>) -> Option<Self> {
        let counted = Self(count.clone());
        (count.fetch_add(1, Ordering::Relaxed) < WATCHES_MAX).then_some(counted)
    }
}

impl Drop for WatchPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Why a connection is not listened on any more.
enum ListenEnd {
    Broken,
    Forbidden,
    Idle,
}

/// Listens to one server while keys of it are watched.
async fn run_subscriber(servers: Weak<Servers>, server: ServerId, channels: Arc<Channels>) {
    loop {
        while channels.is_empty() {
            channels.changed.notified().await;
        }
        let Some(all) = servers.upgrade() else { return };
        let told = channels.clone();
        let opened = timeout(CONNECT_TIMEOUT, all.open_subscriber(server, move |key| told.notify(key))).await;
        drop(all);
        let ended = match opened {
            Ok(Ok(listener)) => sync_subscriptions(&listener, &channels).await,
            Ok(Err(SubscribeError::Forbidden)) => ListenEnd::Forbidden,
            Ok(Err(SubscribeError::Broken)) | Err(_) => ListenEnd::Broken,
        };
        match ended {
            ListenEnd::Broken => sleep(RETRY_PAUSE).await,
            ListenEnd::Idle => {}
            ListenEnd::Forbidden => {
                channels.is_forbidden.store(true, Ordering::Relaxed);
                sleep(REFUSED_PAUSE).await;
                // The next watch tries again.
                channels.is_forbidden.store(false, Ordering::Relaxed);
            }
        }
    }
}

/// Subscribes to what is watched, for as long as the connection lasts and anything is.
async fn sync_subscriptions(listener: &SubscriberConnection, channels: &Channels) -> ListenEnd {
    let mut subscribed: HashSet<KeyName, RandomState> = HashSet::default();
    loop {
        let (new, gone) = channels.subscription_changes(&subscribed);
        let asked = async {
            if !new.is_empty() {
                listener.subscribe(&new).await?;
            }
            if !gone.is_empty() {
                listener.unsubscribe(&gone).await?;
            }
            Ok(())
        };
        match timeout(CONNECT_TIMEOUT, asked).await {
            Ok(Ok(())) => {}
            Ok(Err(SubscribeError::Forbidden)) => return ListenEnd::Forbidden,
            Ok(Err(SubscribeError::Broken)) | Err(_) => return ListenEnd::Broken,
        }
        for key in &gone {
            subscribed.remove(key);
        }
        for key in new {
            // What was published before is not known here.
            channels.notify(&key);
            subscribed.insert(key);
        }
        let idle = async {
            match subscribed.is_empty() {
                true => sleep(IDLE_MAX).await,
                false => std::future::pending().await,
            }
        };
        tokio::select! {
            () = channels.changed.notified() => {}
            () = listener.until_broken() => return ListenEnd::Broken,
            () = idle => return ListenEnd::Idle,
        }
    }
}
