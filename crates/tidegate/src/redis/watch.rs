//! Messages about released units: they wake waiting requests, so that these need not poll as often.
//!
//! The script publishes the name of a key when a lease on it is released, or when its units are refunded or
//! reset. Each server has one connection that subscribes to the watched keys. It opens for the first of them
//! and closes a while after the last.
//!
//! Messages use `PUBLISH`, not `SPUBLISH`. Redis 6.2 lacks the latter, and in a cluster `PUBLISH` reaches
//! subscribers at every server, so a subscription survives a moved slot and a new master. The price is one
//! message to every server of a cluster per release, a fraction of what the release costs.
//!
//! A message can be lost with a connection, and never arrives if the Redis user may not subscribe. So a watch
//! is only a hint, and callers poll as well. A watch also fires when its subscription starts, because a
//! message may have been missed before.

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

use super::connection::{SubscribeError, SubscriberConnection};
use super::deny_cache::DenyCache;
use super::key_name::KeyName;
use super::topology::{ServerId, Servers};
use crate::store::{PollChanged, Watch};
use crate::sync::lock;

/// Watched keys per server at most. Further keys are not watched.
const CHANNELS_MAX: usize = 8_192;
/// Watches of this process at most. Further watches are refused.
const WATCHES_MAX: usize = 16_384;
/// The timeout to open a subscriber connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause after an attempt that failed.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// The pause after Redis denied this user the permission to subscribe. An operator may change that.
const REFUSED_PAUSE: Duration = Duration::from_secs(30);
/// How long an unused connection stays open.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// All watches of a store.
pub(super) struct Watches {
    servers: Arc<Servers>,
    deny_cache: Arc<DenyCache>,
    runtime: Handle,
    /// At most one per server.
    by_server: Mutex<HashMap<ServerId, Subscriber>>,
    count: Arc<AtomicUsize>,
}

/// The subscriber task of one server.
struct Subscriber {
    channels: Arc<Channels>,
    task: JoinHandle<()>,
}

/// The watched keys of one server.
struct Channels {
    watched: Mutex<WatchedKeys>,
    /// Notified when the watched keys have changed.
    changed: Notify,
    is_forbidden: AtomicBool,
    deny_cache: Arc<DenyCache>,
}

type WatchedKeys = HashMap<KeyName, SmallVec<[Arc<WatchFlag>; 1]>, RandomState>;

/// Whether something has changed for a watch, and its waker.
#[derive(Default)]
struct WatchFlag {
    is_changed: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Watches {
    pub(super) fn new(servers: Arc<Servers>, deny_cache: Arc<DenyCache>, runtime: Handle) -> Self {
        Self { servers, deny_cache, runtime, by_server: Mutex::default(), count: Arc::default() }
    }

    /// Watches keys at their servers; none if there are too many watches, or if a server does not let this
    /// user subscribe.
    pub(super) fn watch(&self, keys: impl Iterator<Item = (ServerId, KeyName)>) -> Option<Watch> {
        let mut watch = KeyWatch {
            flag: Arc::default(),
            keys: SmallVec::new(),
            _permit: WatchPermit::acquire(&self.count)?,
        };
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
            let task =
                self.runtime.spawn(run_subscriber(Arc::downgrade(&self.servers), server, channels.clone()));
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
    /// Returns whether there was room for the key.
    fn add(&self, key: &KeyName, flag: &Arc<WatchFlag>) -> bool {
        let mut watched = lock(&self.watched);
        if let Some(flags) = watched.get_mut(key) {
            flags.push(flag.clone());
            return true;
        }
        if watched.len() >= CHANNELS_MAX {
            return false;
        }
        watched.insert(key.clone(), SmallVec::from_elem(flag.clone(), 1));
        drop(watched);
        self.changed.notify_one();
        true
    }

    fn remove(&self, key: &KeyName, flag: &Arc<WatchFlag>) {
        let mut watched = lock(&self.watched);
        let Some(flags) = watched.get_mut(key) else { return };
        flags.retain(|other| !Arc::ptr_eq(other, flag));
        if flags.is_empty() {
            watched.remove(key);
            drop(watched);
            self.changed.notify_one();
        }
    }

    /// Units of a key may have been released.
    fn notify(&self, key: &[u8]) {
        let key = KeyName::from_slice(key);
        let flags = lock(&self.watched).get(&key).cloned();
        // A cached denial would be out of date.
        self.deny_cache.forget_key(&key);
        flags.into_iter().flatten().for_each(|flag| flag.set());
    }

    /// The keys to subscribe to, and the keys to unsubscribe from.
    fn subscription_changes(
        &self,
        subscribed: &HashSet<KeyName, RandomState>,
    ) -> (Vec<KeyName>, Vec<KeyName>) {
        let watched = lock(&self.watched);
        let is_new = |key: &&KeyName| !subscribed.contains(*key);
        let new = watched.keys().filter(is_new).cloned().collect();
        let gone = subscribed.iter().filter(|key| !watched.contains_key(*key)).cloned().collect();
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
        // The waker is set before the flag is read, so a message in between wakes it.
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

/// Counts as one watch until it is dropped.
struct WatchPermit(Arc<AtomicUsize>);

impl WatchPermit {
    /// None if there are too many.
    fn acquire(count: &Arc<AtomicUsize>) -> Option<Self> {
        let permit = Self(count.clone());
        (count.fetch_add(1, Ordering::Relaxed) < WATCHES_MAX).then_some(permit)
    }
}

impl Drop for WatchPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Why a subscriber connection ended.
enum ListenEnd {
    Broken,
    Forbidden,
    Idle,
}

/// Subscribes at one server while its keys are watched.
async fn run_subscriber(servers: Weak<Servers>, server: ServerId, channels: Arc<Channels>) {
    loop {
        while channels.is_empty() {
            channels.changed.notified().await;
        }
        let Some(all) = servers.upgrade() else { return };
        let notified = channels.clone();
        let opened =
            timeout(CONNECT_TIMEOUT, all.open_subscriber(server, move |key| notified.notify(key))).await;
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

/// Keeps the subscriptions equal to the watched keys, until the connection breaks or is idle.
async fn sync_subscriptions(listener: &SubscriberConnection, channels: &Channels) -> ListenEnd {
    let mut subscribed: HashSet<KeyName, RandomState> = HashSet::default();
    loop {
        let (new, gone) = channels.subscription_changes(&subscribed);
        let updates = async {
            if !new.is_empty() {
                listener.subscribe(&new).await?;
            }
            if !gone.is_empty() {
                listener.unsubscribe(&gone).await?;
            }
            Ok(())
        };
        match timeout(CONNECT_TIMEOUT, updates).await {
            Ok(Ok(())) => {}
            Ok(Err(SubscribeError::Forbidden)) => return ListenEnd::Forbidden,
            Ok(Err(SubscribeError::Broken)) | Err(_) => return ListenEnd::Broken,
        }
        for key in &gone {
            subscribed.remove(key);
        }
        for key in new {
            // Messages from before the subscription are lost.
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
