//! Sends a round of commands, and sends again what was not run: a script that the server had lost, a slot that moved.
//!
//! Nothing is ever sent again that may have been run.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::time::{Instant, sleep_until};

use super::Servers;
use super::batch::{ServerPipeline, PipelineMode, PipelineItem};
use super::reply::{Redirect, CommandReply};
use super::sent::{SendError, SlotCommand};
use super::server::Server;

/// How often a command may be sent on, or again: from one who has not heard of a change to one who has, and to one who has
/// lost its scripts, and some times more while a slot is on its way.
const ATTEMPTS_MAX: u32 = 8;
/// Before a command is sent again for a slot that is partly here and partly there. It doubles each time.
const TRY_AGAIN_PAUSE: Duration = Duration::from_micros(500);

type CommandResult = Result<Value, SendError>;

/// Sends commands to a server, and on to where it says that they belong.
pub(super) async fn send(servers: &Servers, server: Arc<Server>, round: Vec<SlotCommand>) -> Vec<CommandResult> {
    let deadline = Instant::now() + servers.config().timeout;
    let mut answers: Vec<CommandResult> = round.iter().map(|_| Err(SendError::Away)).collect();
    let commands =
        round.into_iter().enumerate().map(|(place, SlotCommand { slot, command })| (PipelineItem { reply_index: place, slot }, command));
    let mut batches = vec![ServerPipeline::new(server, PipelineMode::Plain, commands)];
    for attempt in 0..ATTEMPTS_MAX {
        let mut again = RetryQueue::default();
        for (batch, replies) in send_all(batches, deadline).await {
            match replies {
                Ok(replies) => handle_replies(servers, &batch, replies, &mut answers, &mut again),
                Err(error) => batch.items.iter().for_each(|item| answers[item.reply_index] = Err(error.clone())),
            }
        }
        if again.batches.is_empty() {
            break;
        }
        if let RetryDelay::Pause = again.delay {
            sleep_until(deadline.min(Instant::now() + TRY_AGAIN_PAUSE * (1 << attempt))).await;
        }
        // What was refused stays refused if there is no time left to send it again.
        if Instant::now() >= deadline {
            break;
        }
        batches = again.into_batches();
    }
    answers
}

/// All of them at once. There is nearly always only one.
async fn send_all(batches: Vec<ServerPipeline>, deadline: Instant) -> Vec<(ServerPipeline, Result<Vec<CommandReply>, SendError>)> {
    let mut replies = Vec::with_capacity(batches.len());
    if batches.len() == 1 {
        for batch in batches {
            let reply = batch.send(deadline).await;
            replies.push((batch, reply));
        }
        return replies;
    }
    let mut sends = tokio::task::JoinSet::new();
    for batch in batches {
        sends.spawn(async move {
            let reply = batch.send(deadline).await;
            (batch, reply)
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

/// Puts what was answered where it belongs. What was not run gets its refusal for an answer, and another try.
fn handle_replies(servers: &Servers, batch: &ServerPipeline, replies: Vec<CommandReply>, answers: &mut [CommandResult], again: &mut RetryQueue) {
    let mut answered = 0;
    for ((item, command), reply) in batch.items.iter().zip(batch.commands()).zip(replies) {
        answered += 1;
        let (to, said) = match reply {
            CommandReply::Done(value) => {
                answers[item.reply_index] = Ok(value);
                continue;
            }
            CommandReply::Refused(refusal) => {
                answers[item.reply_index] = Err(SendError::Refused(refusal.text));
                continue;
            }
            CommandReply::NoScript => {
                // Loaded first, since one script serves many calls, and that takes no more rights than usual. Somebody who
                // flushes scripts all the time may be faster.
                let form = if batch.mode == PipelineMode::ReloadScripts { PipelineMode::InlineScripts } else { PipelineMode::ReloadScripts };
                (Some((batch.server.clone(), form)), "NOSCRIPT the server loses its scripts".into())
            }
            CommandReply::Moved(redirect) => (follow_moved(servers, batch, *item, &redirect), redirect.text),
            CommandReply::Ask(redirect) => (follow_ask(servers, batch, &redirect), redirect.text),
            CommandReply::TryAgain(said) => {
                again.delay = RetryDelay::Pause;
                (Some((batch.server.clone(), batch.mode)), said)
            }
        };
        answers[item.reply_index] = Err(SendError::Refused(said));
        if let Some((server, form)) = to {
            if !matches!(form, PipelineMode::ReloadScripts | PipelineMode::InlineScripts) {
                batch.server.count(|counters| &counters.redirects, 1);
            }
            again.add(server, form, (*item, command.clone()));
        }
    }
    // A server that answers fewer commands than it was sent speaks another protocol.
    batch.items[answered..].iter().for_each(|item| answers[item.reply_index] = Err(SendError::NoReply));
}

fn follow_moved(servers: &Servers, batch: &ServerPipeline, item: PipelineItem, to: &Redirect) -> Option<(Arc<Server>, PipelineMode)> {
    let owner = servers.cluster()?.slot_moved(item.slot, &to.address(&batch.server.address()))?;
    Some((owner, PipelineMode::Plain))
}

fn follow_ask(servers: &Servers, batch: &ServerPipeline, to: &Redirect) -> Option<(Arc<Server>, PipelineMode)> {
    let importer = servers.cluster()?.server_at(&to.address(&batch.server.address()))?;
    Some((importer, PipelineMode::Asking))
}

/// What is to be sent once more.
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
    fn add(&mut self, server: Arc<Server>, form: PipelineMode, command: (PipelineItem, Cmd)) {
        let same = |errand: &&mut RetryBatch| Arc::ptr_eq(&errand.server, &server) && errand.mode == form;
        match self.batches.iter_mut().find(same) {
            Some(errand) => errand.commands.push(command),
            None => self.batches.push(RetryBatch { server, mode: form, commands: vec![command] }),
        }
    }

    fn into_batches(self) -> Vec<ServerPipeline> {
        self.batches
            .into_iter()
            .map(|RetryBatch { server, mode: form, commands }| ServerPipeline::new(server, form, commands.into_iter()))
            .collect()
    }
}
