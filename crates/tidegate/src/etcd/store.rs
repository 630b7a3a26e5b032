//! The store on etcd: [`EtcdStore`], which implements [`Store`].

use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate_core::Op;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::client::{CallError, EtcdClient};
use super::granted::PendingRevocations;
use super::message::Txn;
use super::operation::{Operation, OperationReply};
use super::plan::{EtcdPlan, Owner, fence_base_key};
use super::snapshot::Decider;
use super::{EtcdError, EtcdSettings, EtcdStats};
use crate::leases::token_seal::TokenSeal;
use crate::store::{Ask, LeaseReply, Reply, Response, SpawnFn, Store};
use crate::{Clock as _, StoreError, SystemClock};

/// Distinguishes this use of the password.
const SEAL_CONTEXT: &str = "tidegate etcd lease token 1";
/// Operations in flight at most. More are refused.
const OPERATIONS_MAX: usize = 1_024;
/// Acquisitions of one key take turns. Keys share this many queues.
const TURNS: usize = 256;
/// The deadline for budgets that the clock cannot add.
const FAR_FUTURE: Duration = Duration::from_secs(365 * 86_400);

/// Leases in etcd: concurrency limits and [`Locks`](crate::Locks). Clones are the same store.
///
/// It keeps nothing but leases. [`LeaseStore`](crate::store::LeaseStore) combines it with a store for other limits.
///
/// Its tasks run on the tokio runtime on which it was [connected](Self::connect), which must be driven: a
/// `current_thread` runtime runs only within `block_on`. After that runtime is dropped, the result is
/// [`RuntimeGone`](StoreError::RuntimeGone).
#[derive(Clone)]
pub struct EtcdStore {
    inner: Arc<EtcdInner>,
}

/// What all clones share.
pub(super) struct EtcdInner {
    pub client: EtcdClient,
    pub runtime: Handle,
    pub settings: EtcdSettings,
    pub seal: TokenSeal,
    pub revocations: PendingRevocations,
    /// The shortest ttl that etcd grants, as far as is known.
    pub minimum_ttl_s: AtomicU64,
    operations: Arc<Semaphore>,
    turns: Vec<Mutex<()>>,
    clock: SystemClock,
    hasher: foldhash::fast::RandomState,
    /// A source of unpredictable numbers: a hash with random keys, and a counter.
    random_source: (std::hash::RandomState, AtomicU64),
}

impl EtcdStore {
    /// Connects, and returns an error if no member answers or the login is refused. Accepts [`EtcdSettings`], an
    /// [`EtcdUrl`](super::EtcdUrl) or the text of a URL.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use tidegate::Locks;
    /// use tidegate::etcd::EtcdStore;
    ///
    /// # async fn lock() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = EtcdStore::connect("etcd://10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379").await?;
    /// let guard = Locks::with_store(store).lock("invoice:2025-11", Duration::from_secs(30)).await?;
    /// println!("write the invoice, with the fencing token {}", guard.fencing_token());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(
        settings: impl TryInto<EtcdSettings, Error: Into<EtcdError>>,
    ) -> Result<Self, EtcdError> {
        let store = Self::connect_lazy(settings)?;
        let EtcdInner { client, settings, .. } = &*store.inner;
        let mut txn = Txn::default();
        txn.then_get(&fence_base_key(&settings.namespace));
        let url = &settings.url;
        match client.txn(txn, deadline_after(settings.timeout)).await {
            Ok(_) => Ok(store),
            Err(CallError::Store(StoreError::Refused(text))) => Err(EtcdError::permanent(format!(
                "{url} cannot be used: {text} (hint: check the user, its password and its rights, and that the URL is \
                 that of an etcd 3.4 or later)"
            ))),
            Err(error) => Err(EtcdError::transient(format!(
                "{url} cannot be used: {} (hint: is etcd running there, and has it a leader?)",
                StoreError::from(error)
            ))),
        }
    }

    /// Connects when it is first used, so a program can start while etcd is down. Returns an error if the URL is wrong,
    /// if certificates cannot be read or if there is no tokio runtime.
    pub fn connect_lazy(
        settings: impl TryInto<EtcdSettings, Error: Into<EtcdError>>,
    ) -> Result<Self, EtcdError> {
        let settings: EtcdSettings = settings.try_into().map_err(Into::into)?;
        let runtime = Handle::try_current().map_err(|_| {
            EtcdError::permanent(
                "there is no tokio runtime on this thread (hint: connect within `#[tokio::main]`, `Runtime::block_on` or \
                 after `Handle::enter`)",
            )
        })?;
        let password = settings.url.login.as_ref().map_or("", |login| &*login.password);
        let inner = EtcdInner {
            client: EtcdClient::new(&settings)?,
            runtime,
            seal: TokenSeal::new([SEAL_CONTEXT, &settings.namespace, password]),
            revocations: PendingRevocations::default(),
            minimum_ttl_s: AtomicU64::new(0),
            operations: Arc::new(Semaphore::new(OPERATIONS_MAX)),
            turns: (0..TURNS).map(|_| Mutex::new(())).collect(),
            clock: SystemClock::new(),
            hasher: foldhash::fast::RandomState::default(),
            random_source: (std::hash::RandomState::new(), AtomicU64::new(0)),
            settings,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Counts of what it has done.
    pub fn stats(&self) -> EtcdStats {
        self.inner.client.counters.stats()
    }

    /// Waits until etcd has got all leases back whose callers are gone, up to `at_most`. Returns how many are left.
    /// Call this before you end the runtime, when you make no more calls.
    pub async fn wait_for_revocations(&self, at_most: Duration) -> usize {
        let revocations = &self.inner.revocations;
        let _ = timeout_at(deadline_after(at_most), revocations.wait_idle()).await;
        revocations.count()
    }

    fn deadline(&self, ask: &Ask<'_, '_>) -> Instant {
        let left_ns = ask.deadline.map(|deadline| deadline.as_nanos().saturating_sub(ask.now.as_nanos()));
        let timeout = self.inner.settings.timeout;
        deadline_after(left_ns.map_or(timeout, |left_ns| timeout.min(Duration::from_nanos(left_ns))))
    }
}

impl Store for EtcdStore {
    fn ask(&self, ask: &Ask<'_, '_>) -> Response {
        let inner = &self.inner;
        let at = inner.clock.now();
        let ttl = match ask.op {
            Op::Acquire { ttl } | Op::Renew { ttl, .. } => ttl,
            _ => None,
        };
        let plan = match EtcdPlan::new(&inner.settings.namespace, ask.plan, ttl) {
            Ok(Some(plan)) => plan,
            Ok(None) => return Response::Now(Ok(Reply::empty(at))),
            Err(error) => return Response::Now(Err(error)),
        };
        inner.client.counters.operations.add_one();
        let Ok(permit) = Arc::clone(&inner.operations).try_acquire_owned() else {
            inner.client.counters.count_failure(&StoreError::Overloaded);
            return Response::Now(Err(StoreError::Overloaded));
        };
        let (op, deadline) = (ask.op, self.deadline(ask));
        let operation = Operation { store: Arc::clone(inner), plan, at, deadline };
        // It runs to completion even if the caller is gone: then its lease is given back.
        let running = inner.runtime.spawn(async move {
            let _permit = permit;
            timeout_at(deadline, operation.run(op)).await.unwrap_or(Err(StoreError::TimedOut))
        });
        let counters = Arc::clone(&inner.client.counters);
        Response::Later(Box::pin(async move {
            let result = running.await.unwrap_or(Err(StoreError::RuntimeGone)).map(OperationReply::take);
            if let Err(error) = &result {
                counters.count_failure(error);
            }
            result
        }))
    }

    fn timeout(&self) -> Option<Duration> {
        Some(self.inner.settings.timeout)
    }

    fn spawner(&self) -> Option<SpawnFn> {
        let runtime = self.inner.runtime.clone();
        Some(Box::new(move |work| drop(runtime.spawn(work))))
    }
}

impl Operation {
    async fn run(self, op: Op) -> Result<OperationReply, StoreError> {
        let reply = match op {
            Op::Acquire { .. } => return self.acquire().await,
            Op::Check => self.acquire().await.map(|acquired| match acquired.take() {
                // The caller gets no token, so the lease ends with its ttl.
                reply if matches!(reply.lease, LeaseReply::Held(_)) => reply.with_lease(LeaseReply::None),
                reply => reply,
            }),
            Op::Peek => self.preview(Decider::Limits).await,
            Op::Deny { .. } => self.preview(Decider::Denied).await,
            Op::Renew { token, .. } => self.renew(&token).await,
            Op::Release { token } => self.release(&token).await,
            Op::Reset => self.reset().await,
            // Only the holder of a lease can give it back.
            Op::Refund { .. } => Ok(Reply::empty(self.at)),
            op => Err(StoreError::Refused(format!("unknown operation {op:?}").into())),
        };
        reply.map(|reply| OperationReply { reply, granted: None })
    }
}

impl OperationReply {
    /// Hands the reply and its lease to the caller.
    fn take(self) -> Reply {
        if let Some(granted) = self.granted {
            granted.keep();
        }
        self.reply
    }
}

impl EtcdInner {
    pub fn new_owner(&self) -> Owner {
        let (keys, counter) = &self.random_source;
        Owner(keys.hash_one(counter.fetch_add(1, Ordering::Relaxed)).max(1))
    }

    /// The queue for acquisitions of the first key of a plan.
    pub fn turns_of(&self, plan: &EtcdPlan) -> &Mutex<()> {
        let hash = self.hasher.hash_one(plan.charges.first().map(|charge| &charge.prefix));
        let index = usize::try_from(hash % TURNS as u64).unwrap_or_default();
        &self.turns[index]
    }
}

fn deadline_after(timeout: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(timeout).unwrap_or(now + FAR_FUTURE)
}

impl std::fmt::Debug for EtcdStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EtcdStore").field("url", &self.inner.settings.url).finish_non_exhaustive()
    }
}
