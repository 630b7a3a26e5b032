//! The task that writes. One transaction is in flight at a time, because each one moves the head. Calls that wait meanwhile
//! share the next transactions.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tidegate::config::{
    CONFIG_WRITES_MAX, ConfigStoreError, ConfigVersion, ConfigWrite, WriteResult, check_writes,
};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use super::backoff::random_up_to;
use super::client::{DynamoClient, Operation};
use super::error::{ApiError, CallError};
use super::item::version_of;
use super::transaction::{ACTIONS_BEFORE_WRITES, HEAD_ACTION, TRANSACTION_WRITES_MAX, Transaction, fitting};

/// The most calls that wait.
const CALLS_QUEUED_MAX: usize = 1_024;
/// No call is added to a group that has this many writes.
const GROUP_WRITES_MAX: usize = CONFIG_WRITES_MAX;
/// How often a transaction is tried again because another node has moved the head. This takes seconds.
const HEAD_MOVES_MAX: usize = 300;
/// The pause after each transaction. A node that writes all the time would otherwise move the head again before any other
/// node could use it. Calls that come during the pause share the next transaction.
const PAUSE: Duration = Duration::from_millis(10);
/// How long a node waits at most before it tries again because another node has moved the head. It has to be within the pause
/// of that node.
const RETRY_WAIT_MAX: Duration = Duration::from_millis(2);

type WriteReply = Result<Vec<WriteResult>, ConfigStoreError>;

/// Sends calls to the task, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Writer {
    calls: mpsc::Sender<Call>,
}

#[derive(Debug)]
struct Call {
    writes: Vec<ConfigWrite>,
    reply: oneshot::Sender<WriteReply>,
}

/// A write that is not done yet, with the index of its call in the group.
struct PendingWrite<'a> {
    call: usize,
    write: &'a ConfigWrite,
}

struct Worker {
    client: Arc<DynamoClient>,
    /// The greatest version, if it is known. Another node may have moved it.
    head: Option<u64>,
    /// How many writes the next transaction has at most. A large transaction takes longer, so other nodes are more likely to
    /// move the head meanwhile. It is halved when they do, and doubled when they do not.
    writes_max: usize,
}

/// What became of a transaction.
enum Attempt {
    Done(Vec<WriteResult>),
    /// Another node has written.
    HeadMoved,
}

impl Writer {
    pub fn start(client: Arc<DynamoClient>, runtime: &Handle) -> Self {
        let (calls, queue) = mpsc::channel(CALLS_QUEUED_MAX);
        runtime.spawn(Worker { client, head: None, writes_max: TRANSACTION_WRITES_MAX }.run(queue));
        Self { calls }
    }

    pub async fn write(&self, writes: &[ConfigWrite]) -> WriteReply {
        check_writes(writes)?;
        if writes.is_empty() {
            return Ok(Vec::new());
        }
        let (reply, receiver) = oneshot::channel();
        match self.calls.try_send(Call { writes: writes.to_vec(), reply }) {
            Ok(()) => receiver.await.unwrap_or_else(|_| Err(stopped())),
            Err(mpsc::error::TrySendError::Full(_)) => Err(ConfigStoreError::Unavailable(
                format!(
                    "{CALLS_QUEUED_MAX} calls wait for DynamoDB already (hint: write with fewer calls at once)"
                )
                .into(),
            )),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(stopped()),
        }
    }
}

/// The task ends only with the store or with the runtime.
#[cold]
fn stopped() -> ConfigStoreError {
    ConfigStoreError::Unavailable(
        "the writer of the config store has stopped (hint: restart the server)".into(),
    )
}

#[cold]
fn other_nodes_write() -> ConfigStoreError {
    let reason = format!(
        "other nodes wrote first, {HEAD_MOVES_MAX} times in a row (hint: write on fewer nodes at once)"
    );
    ConfigStoreError::Unavailable(reason.into())
}

impl Worker {
    async fn run(mut self, mut queue: mpsc::Receiver<Call>) {
        while let Some(first) = queue.recv().await {
            let mut writes = first.writes.len();
            let mut calls = vec![first];
            while writes < GROUP_WRITES_MAX
                && let Ok(call) = queue.try_recv()
            {
                writes += call.writes.len();
                calls.push(call);
            }
            self.write_group(calls).await;
        }
    }

    /// Does the writes of these calls in order, and replies to each call when it is done.
    async fn write_group(&mut self, calls: Vec<Call>) {
        let (groups, mut replies): (Vec<_>, VecDeque<_>) =
            calls.into_iter().map(|call| (call.writes, call.reply)).unzip();
        let pending = groups.iter().enumerate();
        let mut pending: VecDeque<PendingWrite<'_>> = pending
            .flat_map(|(call, writes)| writes.iter().map(move |write| PendingWrite { call, write }))
            .collect();
        let mut results: Vec<Vec<WriteResult>> = groups.iter().map(|_| Vec::new()).collect();
        let mut head_moves = 0;
        while !pending.is_empty() {
            let count = fitting(pending.iter().map(|pending| pending.write)).min(self.writes_max);
            let writes: Vec<&ConfigWrite> = pending.iter().take(count).map(|pending| pending.write).collect();
            match self.transact(&writes).await {
                Ok(Attempt::Done(written)) => {
                    for (pending, result) in pending.drain(..count).zip(written) {
                        results[pending.call].push(result);
                    }
                    head_moves = 0;
                    self.writes_max = (2 * self.writes_max).min(TRANSACTION_WRITES_MAX);
                }
                Ok(Attempt::HeadMoved) if head_moves < HEAD_MOVES_MAX => {
                    head_moves += 1;
                    self.writes_max = (count / 2).max(1);
                    tokio::time::sleep(random_up_to(RETRY_WAIT_MAX, self.client.random())).await;
                    continue;
                }
                failed => {
                    // What is known about the head may be wrong now.
                    self.head = None;
                    let error = failed.err().unwrap_or_else(other_nodes_write);
                    for reply in replies {
                        let _ = reply.send(Err(error.clone()));
                    }
                    return;
                }
            }
            // The calls before the first pending write are done. Their callers may be gone.
            let answered = groups.len() - replies.len();
            let done = pending.front().map_or(groups.len(), |pending| pending.call);
            for (results, reply) in results[answered..done].iter_mut().zip(replies.drain(..done - answered)) {
                let _ = reply.send(Ok(std::mem::take(results)));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Does writes that fit one transaction. Those whose condition does not hold are left out of a further attempt.
    async fn transact(&mut self, writes: &[&ConfigWrite]) -> Result<Attempt, ConfigStoreError> {
        let mut results: Vec<Option<WriteResult>> = vec![None; writes.len()];
        loop {
            let left: Vec<usize> = (0..writes.len()).filter(|index| results[*index].is_none()).collect();
            if left.is_empty() {
                return Ok(Attempt::Done(results.into_iter().flatten().collect()));
            }
            let writes: Vec<&ConfigWrite> = left.iter().map(|index| writes[*index]).collect();
            let head = match self.head {
                Some(head) => head,
                None => self.client.read_head().await?.unwrap_or(0),
            };
            let now_us = self.client.now_us();
            // The time is in it so that a table which was restored from a backup never gives a version again.
            let first_version = head.max(now_us) + 1;
            let token = self.client.new_token()?;
            let table = &self.client.settings().table;
            let transaction =
                Transaction { table, token: &token, head, first_version, now_us, writes: &writes };
            match self.client.try_call(Operation::TransactWriteItems, &transaction.to_body()).await {
                Ok(_) => {
                    self.client.note_change();
                    for (version, index) in (first_version..).zip(&left) {
                        results[*index] = Some(WriteResult::Written(ConfigVersion::new(version)));
                    }
                    self.head = Some(first_version + left.len() as u64 - 1);
                }
                Err(CallError::Refused(error))
                    if error.reasons.iter().any(|reason| reason.is_condition()) =>
                {
                    if let Some(head) = self.moved_head(&error)? {
                        self.head = Some(head);
                        return Ok(Attempt::HeadMoved);
                    }
                    for (index, reason) in left.iter().zip(error.reasons.iter().skip(ACTIONS_BEFORE_WRITES)) {
                        if reason.is_condition() {
                            let current = reason.item.as_ref().map(version_of).map(ConfigVersion::new);
                            results[*index] = Some(WriteResult::Conflict(current));
                        }
                    }
                }
                Err(error) => return Err(error.into_config_error(self.client.settings())),
            }
        }
    }

    /// The head that another node has moved, if a transaction was cancelled for that.
    fn moved_head(&self, error: &ApiError) -> Result<Option<u64>, ConfigStoreError> {
        let Some(reason) = error.reasons.get(HEAD_ACTION).filter(|reason| reason.is_condition()) else {
            return Ok(None);
        };
        match reason.item.as_ref().map(version_of) {
            Some(0) => Err(self.client.damaged_head()),
            head => Ok(Some(head.unwrap_or(0))),
        }
    }
}
