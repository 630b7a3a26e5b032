//! Renews, releases and resets leases.

use std::sync::atomic::Ordering;

use tidegate_core::LeaseToken;

use super::client::CallError;
use super::granted::{GrantedLease, revoke};
use super::message::{KeyValue, LeaseId, Txn, TxnReply};
use super::operation::Operation;
use super::plan::Owner;
use crate::StoreError;
use crate::store::{LeaseReply, Reply};

/// The lease of a genuine token.
#[derive(Clone, Copy)]
struct OpenedToken {
    owner: Owner,
    /// The index of the charge whose key it is sealed for.
    sealed_for: usize,
}

/// Whether the keys of a lease were attached to another etcd lease.
enum Moved {
    Yes,
    KeysChanged,
}

impl Operation {
    /// Lets a lease last a ttl from now.
    pub async fn renew(&self, token: &LeaseToken) -> Result<Reply, StoreError> {
        let reply = |lease| Ok(Reply::empty(self.at).with_lease(lease));
        let Some(opened) = self.open(token) else { return reply(LeaseReply::WrongOwner) };
        let held =
            || LeaseReply::Held(self.lease(token.grant().fencing_token, opened.owner, opened.sealed_for));
        loop {
            let held_keys = self.read_own(opened.owner).await?.keys();
            let Some(lease) = held_keys.first().map(|key| key.lease) else {
                return reply(self.missing(token));
            };
            let kept = match self.store.client.keep_alive(lease, self.deadline).await {
                Ok(kept) => kept,
                // It has just ended. Its keys go with it.
                Err(CallError::LeaseNotFound) => return reply(self.missing(token)),
                Err(error) => return Err(error.into()),
            };
            // With another ttl than before, it needs another etcd lease.
            if kept.ttl_s != self.plan.ttl_s().max(self.store.minimum_ttl_s.load(Ordering::Relaxed)) {
                let granted = self.grant().await?;
                if granted.ttl_s != kept.ttl_s {
                    match self.move_to(granted, &held_keys, lease).await? {
                        Moved::Yes => return reply(held()),
                        Moved::KeysChanged => continue,
                    }
                }
            }
            // The keep-alive counts if its leader is still the leader: only that one can answer this.
            let confirmed = self.read_own(opened.owner).await?;
            let is_same_leader = confirmed.term == kept.term;
            if confirmed.keys().is_empty() {
                return reply(self.missing(token));
            }
            if is_same_leader {
                return reply(held());
            }
        }
    }

    /// Gives the units of a lease back.
    pub async fn release(&self, token: &LeaseToken) -> Result<Reply, StoreError> {
        let reply = |lease| Ok(Reply::empty(self.at).with_lease(lease));
        let Some(opened) = self.open(token) else { return reply(LeaseReply::WrongOwner) };
        let mut txn = Txn::default();
        self.plan.charges.iter().for_each(|charge| txn.then_delete(&charge.lease_key(opened.owner)));
        let deleted = self.store.client.txn(txn, self.deadline).await?;
        let may_be_repeated = deleted.may_be_repeated;
        let Some(key) = deleted.keys().into_iter().next() else {
            return match self.missing(token) {
                // An earlier attempt has probably released it, and its reply was lost.
                LeaseReply::AlreadyReleased if may_be_repeated => reply(LeaseReply::Released),
                missing => reply(missing),
            };
        };
        // It has no keys any more. Without this, it would stay until its ttl ends.
        revoke(&self.store, key.lease);
        reply(LeaseReply::Released)
    }

    /// Ends all leases of the keys.
    pub async fn reset(&self) -> Result<Reply, StoreError> {
        let mut txn = Txn::default();
        self.plan.charges.iter().for_each(|charge| txn.then_delete_all(charge.leases()));
        self.store.client.txn(txn, self.deadline).await?;
        Ok(Reply::empty(self.at))
    }

    /// Any of the keys will do: a limit may have been added in front of the first one since the lease was taken.
    fn open(&self, token: &LeaseToken) -> Option<OpenedToken> {
        let random = u64::try_from(token.seal() >> 64).unwrap_or_default();
        let is_genuine =
            |prefix: &[u8]| self.store.seal.sealed(token, random.to_be_bytes(), prefix) == *token;
        let sealed_for = self.plan.charges.iter().position(|charge| is_genuine(&charge.prefix))?;
        Some(OpenedToken { owner: Owner(random), sealed_for })
    }

    async fn read_own(&self, owner: Owner) -> Result<TxnReply, StoreError> {
        let mut txn = Txn::default();
        self.plan.charges.iter().for_each(|charge| txn.then_get(&charge.lease_key(owner)));
        Ok(self.store.client.txn(txn, self.deadline).await?)
    }

    /// Attaches the keys of a lease to another etcd lease.
    async fn move_to(
        &self,
        granted: GrantedLease,
        keys: &[KeyValue],
        old: LeaseId,
    ) -> Result<Moved, StoreError> {
        let mut txn = Txn::default();
        for key in keys {
            txn.if_unchanged(&key.key, key.mod_revision);
            txn.then_put(&key.key, &String::from_utf8_lossy(&key.value), Some(granted.id));
            txn.otherwise_get(&key.key);
        }
        let reply = self.store.client.txn(txn, self.deadline).await?;
        // An earlier attempt may have succeeded without a reply.
        if reply.succeeded || reply.keys().iter().any(|key| key.lease == granted.id) {
            granted.keep();
            revoke(&self.store, old);
            return Ok(Moved::Yes);
        }
        Ok(Moved::KeysChanged)
    }

    /// A store keeps no list of released leases: a lease that is gone before its end was released.
    fn missing(&self, token: &LeaseToken) -> LeaseReply {
        if token.grant().expires <= self.at { LeaseReply::Expired } else { LeaseReply::AlreadyReleased }
    }
}

impl TxnReply {
    /// The keys of all operations.
    fn keys(self) -> Vec<KeyValue> {
        self.found.into_iter().flat_map(|found| found.keys).collect()
    }
}
