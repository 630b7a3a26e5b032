//! Calls to an etcd: to one member, and to the next one if it does not answer.
//!
//! Every call may be sent again, also if its effect is unknown: reads and keep-alives change nothing that matters, a
//! second grant leaves an etcd lease without keys that expires, and `operation.rs` says why transactions are safe.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::HeaderValue;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until, timeout};

use super::endpoint::{Endpoint, HttpReply};
use super::message::{LeaseId, Txn, TxnReply, number, signed_number};
use super::stats::Counters;
use super::url::{Encryption, Login};
use super::{EtcdError, EtcdSettings};
use crate::StoreError;
use crate::sync::lock;
use crate::tls::client_config;

/// The pause after every member has said that it cannot answer now: there is no leader.
const PAUSE: Duration = Duration::from_millis(50);
/// The characters of an error's text that are kept.
const ERROR_CHARS_MAX: usize = 200;

/// The codes of gRPC errors that the gateway repeats.
mod code {
    pub const CANCELLED: u64 = 1;
    pub const UNKNOWN: u64 = 2;
    pub const INVALID_ARGUMENT: u64 = 3;
    pub const DEADLINE_EXCEEDED: u64 = 4;
    pub const NOT_FOUND: u64 = 5;
    pub const RESOURCE_EXHAUSTED: u64 = 8;
    pub const UNAVAILABLE: u64 = 14;
    pub const UNAUTHENTICATED: u64 = 16;
}

/// The members of an etcd.
pub(super) struct EtcdClient {
    /// At least one.
    endpoints: Vec<Endpoint>,
    /// The index of the member to ask first: the one that answered last.
    preferred: AtomicUsize,
    login: Option<Login>,
    /// The token that a login returned.
    token: Mutex<Option<HeaderValue>>,
    pub counters: Arc<Counters>,
}

/// Why a call has no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CallError {
    /// The etcd lease does not exist any more.
    LeaseNotFound,
    Store(StoreError),
}

/// Why a member gave no reply that counts.
enum MemberError {
    /// It cannot be reached.
    Unreachable(String),
    /// It cannot answer now: it has no leader, or the leader does not answer.
    Unavailable,
    /// The login is not valid any more.
    Unauthenticated(String),
    /// It answered with an error.
    Answered(CallError),
}

impl EtcdClient {
    /// Connects later. Returns an error if the certificates cannot be used.
    pub fn new(settings: &EtcdSettings) -> Result<Self, EtcdError> {
        let url = &settings.url;
        let tls = match url.encryption {
            Encryption::Plain => None,
            Encryption::Tls => {
                let config = client_config(settings.ca_file.as_deref(), settings.client_certificate.as_ref());
                let config = config.map_err(|error| {
                    EtcdError::permanent(format!(
                        "{url} cannot be used: {} (hint: {})",
                        error.message, error.hint
                    ))
                })?;
                Some(Arc::new(config))
            }
        };
        let endpoint = |member: &super::url::Member| Endpoint::new(member.clone(), tls.clone());
        Ok(Self {
            endpoints: url.members.iter().map(endpoint).collect(),
            preferred: AtomicUsize::new(0),
            login: url.login.clone(),
            token: Mutex::new(None),
            counters: Arc::default(),
        })
    }

    pub async fn txn(&self, txn: Txn, deadline: Instant) -> Result<TxnReply, CallError> {
        let CallReply { json, attempts } = self.call("/v3/kv/txn", &txn.into_json(), deadline).await?;
        let reply = TxnReply::read(&json).ok_or_else(|| unexpected("/v3/kv/txn"))?;
        Ok(TxnReply { may_be_repeated: attempts > 1, ..reply })
    }

    /// An etcd lease that lasts this long without a keep-alive, or longer: etcd has a minimum. Returns its ttl too.
    pub async fn grant(&self, ttl_s: u64, deadline: Instant) -> Result<(LeaseId, u64), CallError> {
        let reply = self.call("/v3/lease/grant", &json!({ "TTL": ttl_s.to_string() }), deadline).await?.json;
        let id = signed_number(&reply, "ID").filter(|id| *id != 0).map(LeaseId);
        id.zip(number(&reply, "TTL")).ok_or_else(|| unexpected("/v3/lease/grant"))
    }

    /// Lets an etcd lease last its whole ttl from now. Returns this ttl, and the term of the leader.
    pub async fn keep_alive(&self, lease: LeaseId, deadline: Instant) -> Result<KeptAlive, CallError> {
        let path = "/v3/lease/keepalive";
        let reply = self.call(path, &json!({ "ID": lease.0.to_string() }), deadline).await?.json;
        let result = reply.get("result").ok_or_else(|| unexpected(path))?;
        let term = result.get("header").and_then(|header| number(header, "raft_term"));
        match (number(result, "TTL"), term) {
            (Some(0), _) => Err(CallError::LeaseNotFound),
            (Some(ttl_s), Some(term)) => Ok(KeptAlive { ttl_s, term }),
            _ => Err(unexpected(path)),
        }
    }

    /// Ends an etcd lease, and deletes its keys.
    pub async fn revoke(&self, lease: LeaseId, deadline: Instant) -> Result<(), CallError> {
        match self.call("/v3/lease/revoke", &json!({ "ID": lease.0.to_string() }), deadline).await {
            Ok(_) | Err(CallError::LeaseNotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Asks the members until one has answered, or none can be reached, or the deadline has passed.
    async fn call(
        &self,
        path: &'static str,
        body: &Value,
        deadline: Instant,
    ) -> Result<CallReply, CallError> {
        let body = Bytes::from(body.to_string());
        let mut attempts = 0;
        let (members, first) = (self.endpoints.len(), self.preferred.load(Ordering::Relaxed));
        loop {
            let (mut reasons, mut is_any_reachable) = (Vec::new(), false);
            for index in (0..members).map(|offset| (first + offset) % members) {
                let endpoint = &self.endpoints[index];
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(CallError::Store(StoreError::TimedOut));
                }
                attempts += 1;
                // A member that hangs must leave time for the next one.
                let attempt_max = if members > 1 { left / 2 } else { left };
                match timeout(attempt_max, self.call_member(endpoint, path, body.clone())).await {
                    Ok(Ok(json)) => {
                        self.preferred.store(index, Ordering::Relaxed);
                        return Ok(CallReply { json, attempts });
                    }
                    Ok(Err(MemberError::Answered(error))) => return Err(error),
                    Ok(Err(MemberError::Unauthenticated(text))) => return Err(refused(&text)),
                    Ok(Err(MemberError::Unavailable)) | Err(_) => is_any_reachable = true,
                    Ok(Err(MemberError::Unreachable(text))) => reasons.push(format!("{endpoint}: {text}")),
                }
                self.counters.calls_failed.add_one();
                self.preferred.store((index + 1) % members, Ordering::Relaxed);
            }
            if !is_any_reachable {
                return Err(CallError::Store(StoreError::Unreachable(clip(&reasons.join(", ")))));
            }
            sleep_until(deadline.min(Instant::now() + PAUSE)).await;
        }
    }

    /// Asks one member. Logs in before, if that is necessary.
    async fn call_member(
        &self,
        endpoint: &Endpoint,
        path: &'static str,
        body: Bytes,
    ) -> Result<Value, MemberError> {
        let authorization = self.authorization(endpoint).await?;
        match self.post(endpoint, path, authorization, body.clone()).await {
            Err(MemberError::Unauthenticated(_)) if self.login.is_some() => {
                // Tokens end after some minutes, or when members restart.
                *lock(&self.token) = None;
                let authorization = self.authorization(endpoint).await?;
                self.post(endpoint, path, authorization, body).await
            }
            reply => reply,
        }
    }

    async fn authorization(&self, endpoint: &Endpoint) -> Result<Option<HeaderValue>, MemberError> {
        let Some(login) = &self.login else { return Ok(None) };
        let known = lock(&self.token).clone();
        if known.is_some() {
            return Ok(known);
        }
        let path = "/v3/auth/authenticate";
        let body = json!({ "name": login.user, "password": login.password });
        let reply = self.post(endpoint, path, None, Bytes::from(body.to_string())).await?;
        let token = reply.get("token").and_then(Value::as_str).map(HeaderValue::from_str);
        let Some(Ok(mut token)) = token else { return Err(MemberError::Answered(unexpected(path))) };
        token.set_sensitive(true);
        *lock(&self.token) = Some(token.clone());
        Ok(Some(token))
    }

    async fn post(
        &self,
        endpoint: &Endpoint,
        path: &'static str,
        authorization: Option<HeaderValue>,
        body: Bytes,
    ) -> Result<Value, MemberError> {
        self.counters.calls.add_one();
        let HttpReply { status, body } =
            endpoint.post(path, authorization, body).await.map_err(MemberError::Unreachable)?;
        // A member that is starting answers 404 with a text. So does something else than an etcd.
        let json: Value = serde_json::from_slice(&body).map_err(|_| {
            MemberError::Unreachable(format!("it answered {status} without JSON; it may not be an etcd"))
        })?;
        match status {
            StatusCode::OK => match json.get("error") {
                // A stream answers 200 before it fails.
                Some(error) => Err(member_error(error)),
                None => Ok(json),
            },
            _ => Err(member_error(&json)),
        }
    }
}

/// The reply to a call, and how often it was sent.
struct CallReply {
    json: Value,
    attempts: usize,
}

/// The reply to a keep-alive.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeptAlive {
    pub ttl_s: u64,
    pub term: u64,
}

fn member_error(json: &Value) -> MemberError {
    let text = ["message", "error"].iter().find_map(|name| json.get(*name).and_then(Value::as_str));
    let text = text.unwrap_or("an error without a text").to_owned();
    let code = ["code", "grpc_code"].iter().find_map(|name| json.get(*name).and_then(Value::as_u64));
    match code.unwrap_or_default() {
        // Elections end calls with several of these. Too many requests may go away too.
        code::UNAVAILABLE
        | code::DEADLINE_EXCEEDED
        | code::CANCELLED
        | code::UNKNOWN
        | code::RESOURCE_EXHAUSTED => MemberError::Unavailable,
        code::NOT_FOUND if text.contains("lease") => MemberError::Answered(CallError::LeaseNotFound),
        code::UNAUTHENTICATED => MemberError::Unauthenticated(text),
        // The users or their rights have changed since the login.
        code::INVALID_ARGUMENT if text.contains("auth") => MemberError::Unauthenticated(text),
        _ => MemberError::Answered(refused(&text)),
    }
}

fn refused(text: &str) -> CallError {
    CallError::Store(StoreError::Refused(clip(text)))
}

fn unexpected(path: &str) -> CallError {
    refused(&format!("the reply to {path} is not one of etcd 3.4 or later"))
}

fn clip(text: &str) -> Box<str> {
    text.chars().take(ERROR_CHARS_MAX).collect::<String>().into()
}
