//! Sends requests to DynamoDB: signed, within a deadline, and again after errors that pass.
//!
//! A transaction carries a token in its body (`ClientRequestToken`). DynamoDB does a transaction with a token that it has
//! already done not a second time, so a transaction without a reply is sent again too.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::{Value, json};
use tidegate::config::ConfigStoreError;
use tidegate::{Clock as _, SystemClock};
use tokio::sync::Mutex;

use super::backoff::Backoff;
use super::credentials::CredentialsProvider;
use super::error::{ApiError, CallError, unexpected};
use super::signature::{SigningScope, UnsignedRequest, authorization, hex};
use super::table;
use super::url::{DynamoSettings, MissingTable};
use crate::http_client::{HttpClient, TrustedRoots};

const SERVICE: &str = "dynamodb";
const API_VERSION: &str = "DynamoDB_20120810";
const JSON_TYPE: &str = "application/x-amz-json-1.0";
/// How long one attempt may take. A read that hangs is better sent again soon.
const READ_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);
const WRITE_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a call may take, with all attempts.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
const WRITE_TIMEOUT: Duration = Duration::from_secs(20);
/// How often a request without a reply is sent at most. A connection that the server has closed is one such case.
const NO_REPLY_ATTEMPTS_MAX: usize = 5;
/// After this time all items of a transaction are visible. DynamoDB needs milliseconds.
const SETTLE_US: u64 = 10_000_000;
/// How long a new table may take until it can be used.
const CREATE_POLLS_MAX: usize = 60;
const CREATE_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// An operation of DynamoDB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    CreateTable,
    DescribeTable,
    GetItem,
    Query,
    TransactGetItems,
    TransactWriteItems,
    UpdateTimeToLive,
}

/// Sends requests for one table.
#[derive(Debug)]
pub(super) struct DynamoClient {
    settings: DynamoSettings,
    http: HttpClient,
    credentials: CredentialsProvider,
    clock: SystemClock,
    random: SystemRandom,
    /// Held while the table is created.
    creating: Mutex<()>,
    /// When this node last wrote, or read a change, in microseconds since 1970.
    changed_at_us: AtomicU64,
}

impl Operation {
    const fn as_str(self) -> &'static str {
        match self {
            Self::CreateTable => "CreateTable",
            Self::DescribeTable => "DescribeTable",
            Self::GetItem => "GetItem",
            Self::Query => "Query",
            Self::TransactGetItems => "TransactGetItems",
            Self::TransactWriteItems => "TransactWriteItems",
            Self::UpdateTimeToLive => "UpdateTimeToLive",
        }
    }
}

impl Operation {
    const fn is_read(self) -> bool {
        matches!(self, Self::DescribeTable | Self::GetItem | Self::Query | Self::TransactGetItems)
    }

    const fn attempt_timeout(self) -> Duration {
        if self.is_read() { READ_ATTEMPT_TIMEOUT } else { WRITE_ATTEMPT_TIMEOUT }
    }

    const fn call_timeout(self) -> Duration {
        if self.is_read() { READ_TIMEOUT } else { WRITE_TIMEOUT }
    }
}

impl DynamoClient {
    /// A client. Does not connect yet. `variable` reads the environment.
    pub fn new(settings: DynamoSettings, variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let http = HttpClient::new(settings.address.clone(), TrustedRoots::System)?;
        let credentials = CredentialsProvider::new(variable)?;
        let (clock, random) = (SystemClock::new(), SystemRandom::new());
        Ok(Self {
            settings,
            http,
            credentials,
            clock,
            random,
            creating: Mutex::default(),
            changed_at_us: AtomicU64::new(0),
        })
    }

    pub fn settings(&self) -> &DynamoSettings {
        &self.settings
    }

    pub fn random(&self) -> &SystemRandom {
        &self.random
    }

    /// Microseconds since 1970.
    pub fn now_us(&self) -> u64 {
        self.clock.now().as_nanos() / 1_000
    }

    /// This node has written, or has read a change from the log. Some items of the transaction may not be visible yet.
    pub fn note_change(&self) {
        self.changed_at_us.store(self.now_us(), Ordering::Release);
    }

    /// Whether all items of the transactions that this node knows are visible.
    pub fn is_settled(&self) -> bool {
        self.now_us().saturating_sub(self.changed_at_us.load(Ordering::Acquire)) > SETTLE_US
    }

    /// A token for a transaction that no other has.
    pub fn new_token(&self) -> Result<String, ConfigStoreError> {
        let mut bytes = [0; 16];
        let filled = self.random.fill(&mut bytes);
        filled.map_err(|_| ConfigStoreError::Unavailable("the system has no random numbers".into()))?;
        Ok(hex(&bytes))
    }

    /// Sends a request and returns the reply.
    pub async fn call(&self, operation: Operation, body: &Value) -> Result<Value, ConfigStoreError> {
        self.try_call(operation, body).await.map_err(|error| error.into_config_error(&self.settings))
    }

    /// [`call`](Self::call), with the error as DynamoDB reported it.
    pub async fn try_call(&self, operation: Operation, body: &Value) -> Result<Value, CallError> {
        let result = self.call_existing(operation, body).await;
        match result {
            Err(CallError::Refused(error))
                if error.is_missing_table() && self.settings.missing_table == MissingTable::Create =>
            {
                self.create_table().await?;
                self.call_existing(operation, body).await
            }
            result => result,
        }
    }

    async fn call_existing(&self, operation: Operation, body: &Value) -> Result<Value, CallError> {
        let body = Bytes::from(body.to_string());
        let mut last_error = None;
        let attempts = self.attempt_until_done(operation, &body, &mut last_error);
        let timeout = operation.call_timeout();
        if let Ok(result) = tokio::time::timeout(timeout, attempts).await {
            return result;
        }
        Err(last_error.unwrap_or_else(|| CallError::NoReply(format!("no reply within {timeout:?}"))))
    }

    async fn attempt_until_done(
        &self,
        operation: Operation,
        body: &Bytes,
        last_error: &mut Option<CallError>,
    ) -> Result<Value, CallError> {
        let (mut backoff, mut no_replies, mut renewed_credentials) = (Backoff::default(), 0, false);
        loop {
            let error = match self.attempt(operation, body.clone()).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            match &error {
                CallError::NoReply(_) => {
                    no_replies += 1;
                    if no_replies >= NO_REPLY_ATTEMPTS_MAX {
                        return Err(error);
                    }
                }
                CallError::Refused(refused) if refused.is_transient() => {}
                CallError::Refused(refused) if refused.is_credentials() && !renewed_credentials => {
                    renewed_credentials = true;
                    self.credentials.forget().await;
                }
                CallError::Refused(_) | CallError::NoCredentials(_) => return Err(error),
            }
            *last_error = Some(error);
            tokio::time::sleep(backoff.next(&self.random)).await;
        }
    }

    async fn attempt(&self, operation: Operation, body: Bytes) -> Result<Value, CallError> {
        let request = self.signed(operation, body).await?;
        let reply = self.http.send(request, operation.attempt_timeout()).await;
        let reply = reply.map_err(CallError::NoReply)?;
        if reply.status().is_success() {
            return serde_json::from_slice(reply.body()).map_err(|error| {
                let message = format!("the reply is not JSON: {error}");
                CallError::Refused(ApiError {
                    status: reply.status().as_u16(),
                    message,
                    ..ApiError::default()
                })
            });
        }
        Err(CallError::Refused(ApiError::parse(reply.status().as_u16(), reply.body())))
    }

    async fn signed(&self, operation: Operation, body: Bytes) -> Result<Request<Full<Bytes>>, CallError> {
        let now_s = i64::try_from(self.clock.now().as_nanos() / 1_000_000_000).unwrap_or(i64::MAX);
        let credentials = self.credentials.get(now_s).await.map_err(CallError::NoCredentials)?;
        let time = jiff::Timestamp::from_second(now_s).unwrap_or_default();
        let time = time.strftime("%Y%m%dT%H%M%SZ").to_string();
        let target = format!("{API_VERSION}.{}", operation.as_str());
        // In the order of their names.
        let mut headers = vec![
            (CONTENT_TYPE.as_str(), JSON_TYPE),
            (HOST.as_str(), &*self.settings.host),
            ("x-amz-date", &*time),
        ];
        headers.extend(credentials.session_token.as_deref().map(|token| ("x-amz-security-token", token)));
        headers.push(("x-amz-target", &*target));
        let unsigned =
            UnsignedRequest { method: "POST", path: "/", query: "", headers: &headers, body: &body };
        let scope = SigningScope { time: &time, region: &self.settings.region, service: SERVICE };
        let signature = authorization(unsigned, scope, &credentials);
        let mut request = Request::post("/").header(AUTHORIZATION, signature);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        request.body(Full::new(body)).map_err(|_| {
            CallError::NoCredentials(ConfigStoreError::Broken(
                "the credentials for DynamoDB contain characters that a header cannot have (hint: check AWS_ACCESS_KEY_ID and \
                 AWS_SESSION_TOKEN)"
                    .into(),
            ))
        })
    }

    /// Creates the table, and waits until it can be used. Another node may create it at the same time.
    async fn create_table(&self) -> Result<(), CallError> {
        let _creating = self.creating.lock().await;
        let table = &self.settings.table;
        match self.call_existing(Operation::CreateTable, &table::create_table(table)).await {
            Err(CallError::Refused(error)) if error.code == "ResourceInUseException" => {}
            result => drop(result?),
        }
        let describe = json!({ "TableName": table });
        let mut polls = tokio::time::interval(CREATE_POLL_INTERVAL);
        for _ in 0..CREATE_POLLS_MAX {
            polls.tick().await;
            match self.call_existing(Operation::DescribeTable, &describe).await {
                Ok(reply) if reply["Table"]["TableStatus"] == "ACTIVE" => {
                    // Another node may have done this, or is doing it now. Without it the log is only never shortened.
                    if let Err(error) =
                        self.call_existing(Operation::UpdateTimeToLive, &table::expire_log(table)).await
                    {
                        tracing::debug!("the time to live of `{table}` was not set: {error:?}");
                    }
                    tracing::info!("created the table `{table}` in DynamoDB");
                    return Ok(());
                }
                // A new table is not visible at once.
                Ok(_) => {}
                Err(CallError::Refused(error)) if error.is_missing_table() => {}
                Err(error) => return Err(error),
            }
        }
        Err(CallError::NoReply(format!("the new table `{table}` cannot be used yet")))
    }

    /// A reply or an item that this store does not write.
    pub fn unexpected(&self, what: &str) -> ConfigStoreError {
        unexpected(what, &self.settings)
    }
}
