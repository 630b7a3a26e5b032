//! One operation of the store: decides a plan, and acquires its lease.
//!
//! A transaction whose reply was lost may be applied late, after this node has decided again by another one. It can do no
//! harm: it fails if the node's key or any other was created since, or if the etcd lease was revoked. The etcd lease of an
//! acquisition that ends without a lease is always revoked.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidegate_core::{FencingToken, Grant, LeaseToken, OutcomeKind, Role, Timestamp};
use tokio::sync::MutexGuard;
use tokio::time::Instant;

use super::client::CallError;
use super::granted::GrantedLease;
use super::message::Txn;
use super::plan::{EtcdPlan, Owner, fence_base_key};
use super::snapshot::{Decider, LeaseValue, Snapshot};
use super::store::EtcdInner;
use crate::store::{LeaseReply, Reply};
use crate::{Lease, StoreError};

const NANOS_PER_MICRO: u64 = 1_000;

/// An operation on a plan.
pub(super) struct Operation {
    pub store: Arc<EtcdInner>,
    pub plan: EtcdPlan,
    /// When it was asked for, by the clock of this node. The ttl of a lease counts from here.
    pub at: Timestamp,
    pub deadline: Instant,
}

/// A reply, and the etcd lease that is revoked unless the caller takes the reply.
pub(super) struct OperationReply {
    pub reply: Reply,
    pub granted: Option<GrantedLease>,
}

impl Operation {
    /// Reports what the limits say, and changes nothing.
    pub async fn preview(&self, decider: Decider) -> Result<Reply, StoreError> {
        let (_, outcomes) = self.read(Owner(0)).await?.decide(&self.plan, self.at, decider);
        Ok(Reply::new(self.at, outcomes))
    }

    /// Decides the plan, and acquires its lease if it is allowed.
    pub async fn acquire(&self) -> Result<OperationReply, StoreError> {
        let undecided = |reply| Ok(OperationReply { reply, granted: None });
        let owner = self.store.new_owner();
        let mut snapshot = self.read(owner).await?;
        let (mut granted, mut turn): (Option<GrantedLease>, Option<MutexGuard<'_, ()>>) = (None, None);
        loop {
            let (decision, outcomes) = snapshot.decide(&self.plan, self.at, Decider::Limits);
            let reply = Reply::new(self.at, outcomes);
            if let Some(revision) = snapshot.own_revision()
                && let Some(lease) = granted.take()
            {
                // An earlier attempt has succeeded, and its reply was lost.
                return Ok(self.held(reply, &snapshot, revision, owner, lease));
            }
            match decision {
                _ if self.plan.taken().next().is_none() => return undecided(reply),
                OutcomeKind::Denied if snapshot.is_full(&self.plan) => {
                    return undecided(reply.with_lease(LeaseReply::MemoryFull));
                }
                OutcomeKind::Denied => return undecided(reply),
                OutcomeKind::Allowed => {}
            }
            if snapshot.fence_base.is_none() {
                self.create_fence_base().await?;
                snapshot = self.read(owner).await?;
                continue;
            }
            if turn.is_none() {
                // One acquisition of a key at a time per node: otherwise they would fail each other's transactions.
                let turns = self.store.turns_of(&self.plan);
                let (guard, is_late) = match turns.try_lock() {
                    Ok(guard) => (guard, false),
                    Err(_) => (turns.lock().await, true),
                };
                turn = Some(guard);
                if is_late {
                    snapshot = self.read(owner).await?;
                    continue;
                }
            }
            let lease = match granted.take() {
                Some(lease) => lease,
                None => self.grant().await?,
            };
            let result =
                self.store.client.txn(self.acquisition(&snapshot, owner, &lease), self.deadline).await;
            snapshot = match result {
                Ok(written) if written.succeeded => {
                    return Ok(self.held(reply, &snapshot, written.revision, owner, lease));
                }
                Ok(conflict) => {
                    self.store.client.counters.conflicts.add_one();
                    granted = Some(lease);
                    Snapshot::read(&self.plan, owner, &conflict, self.at)?
                }
                // It has expired: the acquisition took longer than its ttl. The next one has a new one.
                Err(CallError::LeaseNotFound) => self.read(owner).await?,
                Err(error) => return Err(error.into()),
            };
        }
    }

    /// An etcd lease that lasts as long as the lease, or as long as etcd's minimum.
    pub async fn grant(&self) -> Result<GrantedLease, StoreError> {
        let wanted_ttl_s = self.plan.ttl_s();
        let (id, ttl_s) = self.store.client.grant(wanted_ttl_s, self.deadline).await?;
        if ttl_s > wanted_ttl_s {
            self.store.minimum_ttl_s.fetch_max(ttl_s, Ordering::Relaxed);
        }
        Ok(GrantedLease::new(id, ttl_s, Arc::clone(&self.store)))
    }

    /// The leases of all keys now.
    async fn read(&self, owner: Owner) -> Result<Snapshot, StoreError> {
        let mut txn = Txn::default();
        txn.then_get(&fence_base_key(&self.store.settings.namespace));
        self.plan.charges.iter().for_each(|charge| txn.then_get_all(charge.leases()));
        let reply = self.store.client.txn(txn, self.deadline).await?;
        Snapshot::read(&self.plan, owner, &reply, self.at)
    }

    /// Writes the lease, if no other was granted since the snapshot. Otherwise reads the leases again.
    fn acquisition(&self, snapshot: &Snapshot, owner: Owner, lease: &GrantedLease) -> Txn {
        let base_key = fence_base_key(&self.store.settings.namespace);
        let mut txn = Txn::default();
        txn.if_unchanged(&base_key, snapshot.fence_base.map_or(0, |base| base.mod_revision));
        txn.otherwise_get(&base_key);
        for charge in &self.plan.charges {
            if charge.role == Role::Enforced {
                txn.if_none_created_after(charge.leases(), snapshot.revision);
            }
            txn.otherwise_get_all(charge.leases());
        }
        for (_, charge) in self.plan.taken().filter(|(index, _)| snapshot.has_room(*index)) {
            let expires = self.at.saturating_add(self.plan.ttl);
            let value = LeaseValue { units: charge.cost, expires, ttl: self.plan.ttl };
            txn.then_put(&charge.lease_key(owner), &value.text(), Some(lease.id));
        }
        txn
    }

    /// Another node may create it at the same time. Only one succeeds.
    async fn create_fence_base(&self) -> Result<(), StoreError> {
        let base_key = fence_base_key(&self.store.settings.namespace);
        let micros = self.at.as_nanos() / NANOS_PER_MICRO;
        let mut txn = Txn::default();
        txn.if_unchanged(&base_key, 0);
        txn.then_put(&base_key, &micros.to_string(), None);
        self.store.client.txn(txn, self.deadline).await?;
        Ok(())
    }

    fn held(
        &self,
        reply: Reply,
        snapshot: &Snapshot,
        revision: u64,
        owner: Owner,
        granted: GrantedLease,
    ) -> OperationReply {
        let fence = snapshot.fence_base.map(|base| base.fencing_token(revision)).unwrap_or_default();
        let lease = self.lease(fence, owner, self.plan.sealed_for);
        OperationReply { reply: reply.with_lease(LeaseReply::Held(lease)), granted: Some(granted) }
    }

    /// The lease for its holder, with a token that is sealed for the key of this charge.
    pub fn lease(&self, fencing_token: FencingToken, owner: Owner, sealed_for: usize) -> Lease {
        let grant = Grant { expires: self.at.saturating_add(self.plan.ttl), fencing_token };
        let token = LeaseToken::new(grant, 0).with_ttl(Some(self.plan.ttl));
        let key = self.plan.charges.get(sealed_for).map_or(&[][..], |charge| &charge.prefix);
        Lease::new(self.store.seal.sealed(&token, owner.0.to_be_bytes(), key), self.at)
    }
}

impl From<CallError> for StoreError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::LeaseNotFound => Self::Refused("the etcd lease has expired".into()),
            CallError::Store(error) => error,
        }
    }
}
