//! Sends commands, and sends those again that did not run: the server had lost a script, or a slot has moved.
//!
//! A command that may have run is never sent again.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::time::{Instant, sleep_until};

use super::Servers;
use crate::redis::connection::{
    CommandReply, PipelineItem, PipelineMode, PipelineTerms, Redirect, RefusalScope, Replication, SendError,
    Server, ServerPipeline, SlotCommand,
};

/// How often a command is sent at most: from a server that missed a change to one that knows it, then to one
/// that lost its scripts, and a few times more while a slot is migrating.
const ATTEMPTS_MAX: u32 = 8;
/// The pause before a command is sent again because its slot is migrating. It doubles each time.
const TRY_AGAIN_PAUSE: Duration = Duration::from_micros(500);

type CommandResult = Result<Value, SendError>;

/// The results of commands, in their order.
pub(crate) struct SentCommands {
    pub results: Vec<CommandResult>,
    /// Whether enough replicas have what was written.
    pub replication: Replication,
}

/// Sends commands to a server, and follows its redirects.
pub(crate) async fn send(
    servers: &Servers,
    server: Arc<Server>,
    commands: Vec<SlotCommand>,
    terms: PipelineTerms,
) -> SentCommands {
    let deadline = terms.deadline;
    let SentCommands { mut results, mut replication } = SentCommands::not_sent(&commands);
    let commands = commands
        .into_iter()
        .enumerate()
        .map(|(reply_index, SlotCommand { slot, command })| (PipelineItem { reply_index, slot }, command));
    let mut pipelines = vec![ServerPipeline::new(server, PipelineMode::Plain, commands)];
    for attempt in 0..ATTEMPTS_MAX {
        let mut retries = RetryQueue::default();
        for (pipeline, replies) in send_all(pipelines, terms).await {
            match replies {
                Ok((replies, reached)) => {
                    replication = replication.max(reached);
                    handle_replies(servers, &pipeline, replies, &mut results, &mut retries);
                }
                Err(error) => {
                    pipeline.items.iter().for_each(|item| results[item.reply_index] = Err(error.clone()));
                }
            }
        }
        if retries.batches.is_empty() {
            break;
        }
        if let RetryDelay::Pause = retries.delay {
            sleep_until(deadline.min(Instant::now() + TRY_AGAIN_PAUSE * (1 << attempt))).await;
        }
        // If there is no time left to retry, the refusal is the result.
        if Instant::now() >= deadline {
            break;
        }
        pipelines = retries.into_pipelines();
    }
    SentCommands { results, replication }
}

impl SentCommands {
    pub fn not_sent(commands: &[SlotCommand]) -> Self {
        let results = commands.iter().map(|_| Err(SendError::Away)).collect();
        Self { results, replication: Replication::Enough }
    }
}

/// Sends all pipelines at the same time. There is nearly always only one.
async fn send_all(
    pipelines: Vec<ServerPipeline>,
    terms: PipelineTerms,
) -> Vec<(ServerPipeline, Result<(Vec<CommandReply>, Replication), SendError>)> {
    let mut replies = Vec::with_capacity(pipelines.len());
    if pipelines.len() == 1 {
        for pipeline in pipelines {
            let reply = pipeline.send(terms).await;
            replies.push((pipeline, reply));
        }
        return replies;
    }
    let mut sends = tokio::task::JoinSet::new();
    for pipeline in pipelines {
        sends.spawn(async move {
            let reply = pipeline.send(terms).await;
            (pipeline, reply)
        });
    }
    while let Some(sent) = sends.join_next().await {
        match sent {
            Ok(reply) => replies.push(reply),
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        }
    }
    replies
}

/// Stores the results. A command that did not run gets its refusal as the result, and is queued for a retry.
fn handle_replies(
    servers: &Servers,
    pipeline: &ServerPipeline,
    replies: Vec<CommandReply>,
    results: &mut [CommandResult],
    retries: &mut RetryQueue,
) {
    let mut reply_count = 0;
    for ((item, command), reply) in pipeline.items.iter().zip(pipeline.commands()).zip(replies) {
        reply_count += 1;
        let (target, text) = match reply {
            CommandReply::Done(value) => {
                results[item.reply_index] = Ok(value);
                continue;
            }
            CommandReply::Refused(refusal) => {
                results[item.reply_index] = Err(match refusal.scope {
                    RefusalScope::Writes => SendError::WriteRefused(refusal.text),
                    _ => SendError::Refused(refusal.text),
                });
                continue;
            }
            CommandReply::NoScript => {
                // First load the script: one script serves many calls, and this needs no extra permission. A
                // client that flushes scripts all the time may be faster, and then the script is sent inline.
                let mode = if pipeline.mode == PipelineMode::ReloadScripts {
                    PipelineMode::InlineScripts
                } else {
                    PipelineMode::ReloadScripts
                };
                (Some((pipeline.server.clone(), mode)), "NOSCRIPT the server keeps losing its scripts".into())
            }
            CommandReply::Moved(redirect) => {
                (follow_moved(servers, pipeline, *item, &redirect), redirect.text)
            }
            CommandReply::Ask(redirect) => (follow_ask(servers, pipeline, &redirect), redirect.text),
            CommandReply::TryAgain(text) => {
                retries.delay = RetryDelay::Pause;
                (Some((pipeline.server.clone(), pipeline.mode)), text)
            }
        };
        results[item.reply_index] = Err(SendError::Refused(text));
        if let Some((server, mode)) = target {
            if !matches!(mode, PipelineMode::ReloadScripts | PipelineMode::InlineScripts) {
                pipeline.server.count(|counters| &counters.redirects, 1);
            }
            retries.add(server, mode, (*item, command.clone()));
        }
    }
    // A server that sends fewer replies than commands breaks the protocol.
    pipeline.items[reply_count..].iter().for_each(|item| results[item.reply_index] = Err(SendError::NoReply));
}

fn follow_moved(
    servers: &Servers,
    pipeline: &ServerPipeline,
    item: PipelineItem,
    redirect: &Redirect,
) -> Option<(Arc<Server>, PipelineMode)> {
    let owner = servers.cluster()?.slot_moved(item.slot, &redirect.address(&pipeline.server.address()))?;
    Some((owner, PipelineMode::Plain))
}

fn follow_ask(
    servers: &Servers,
    pipeline: &ServerPipeline,
    redirect: &Redirect,
) -> Option<(Arc<Server>, PipelineMode)> {
    let importer = servers.cluster()?.server_at(&redirect.address(&pipeline.server.address()))?;
    Some((importer, PipelineMode::Asking))
}

/// The commands to send again.
#[derive(Default)]
struct RetryQueue {
    batches: Vec<RetryBatch>,
    delay: RetryDelay,
}

struct RetryBatch {
    server: Arc<Server>,
    mode: PipelineMode,
    commands: Vec<(PipelineItem, Cmd)>,
}

#[derive(Default)]
enum RetryDelay {
    #[default]
    None,
    Pause,
}

impl RetryQueue {
    fn add(&mut self, server: Arc<Server>, mode: PipelineMode, command: (PipelineItem, Cmd)) {
        let same = |batch: &&mut RetryBatch| Arc::ptr_eq(&batch.server, &server) && batch.mode == mode;
        match self.batches.iter_mut().find(same) {
            Some(batch) => batch.commands.push(command),
            None => self.batches.push(RetryBatch { server, mode, commands: vec![command] }),
        }
    }

    fn into_pipelines(self) -> Vec<ServerPipeline> {
        self.batches
            .into_iter()
            .map(|RetryBatch { server, mode, commands }| {
                ServerPipeline::new(server, mode, commands.into_iter())
            })
            .collect()
    }
}
