//! Commands that go to one server together.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use redis::{Arg, Cmd, Pipeline, Value};
use tokio::time::Instant;

use super::means::{ClientConfig, Script};
use super::reply::CommandReply;
use super::sent::SendError;
use super::server::Server;

/// Replicas are waited for until this part of the time for a decision is over.
const REPLICA_WAIT_DIVISOR: u32 = 4;

/// Commands that go to one server together, as one pipeline.
pub(super) struct ServerPipeline {
    pub server: Arc<Server>,
    pub items: Vec<PipelineItem>,
    pub mode: PipelineMode,
    pipeline: Pipeline,
}

/// One of the commands.
#[derive(Clone, Copy)]
pub(super) struct PipelineItem {
    /// Its place among the answers.
    pub reply_index: usize,
    pub slot: u16,
}

/// What goes with the commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PipelineMode {
    Plain,
    /// Before each, that it is for a slot that is on its way to this server.
    Asking,
    /// Before all, the scripts.
    ReloadScripts,
    /// Each with its script in place of what that is called by, so that it cannot be missing.
    InlineScripts,
}

impl ServerPipeline {
    pub fn new(server: Arc<Server>, form: PipelineMode, commands: impl Iterator<Item = (PipelineItem, Cmd)>) -> Self {
        let mut pipeline = Pipeline::new();
        if form == PipelineMode::ReloadScripts {
            for script in &server.config.scripts {
                pipeline.cmd("SCRIPT").arg("LOAD").arg(script.text);
            }
        }
        if let PipelineMode::ReloadScripts | PipelineMode::InlineScripts = form {
            server.count(|counters| &counters.scripts_reloaded, 1);
        }
        let mut items = Vec::new();
        for (item, command) in commands {
            if form == PipelineMode::Asking {
                pipeline.cmd("ASKING");
            }
            let command = match form {
                PipelineMode::InlineScripts => with_script(&server.config, &command).unwrap_or(command),
                PipelineMode::Plain | PipelineMode::Asking | PipelineMode::ReloadScripts => command,
            };
            pipeline.add_command(command);
            items.push(item);
        }
        if let Some(replicas) = server.config.wait_replicas {
            // A part of the time there is: what follows on this connection has to wait as well, and so has what is sent
            // before this is answered.
            let wait_ms = (server.config.timeout / REPLICA_WAIT_DIVISOR).as_millis().max(1);
            pipeline.cmd("WAIT").arg(replicas.get()).arg(wait_ms.to_string());
        }
        Self { server, items, mode: form, pipeline }
    }

    /// One reply for each item.
    pub async fn send(&self, deadline: Instant) -> Result<Vec<CommandReply>, SendError> {
        let mut replies = self.server.send_pipeline(&self.pipeline, deadline).await?;
        if let Some(replicas) = self.server.config.wait_replicas
            && let Some(CommandReply::Done(Value::Int(received))) = replies.pop()
            && received < i64::from(replicas.get())
        {
            self.server.config.replicas_short.fetch_add(1, Relaxed);
        }
        Ok(match self.mode {
            PipelineMode::Plain | PipelineMode::InlineScripts => replies,
            PipelineMode::Asking | PipelineMode::ReloadScripts => {
                let mut place = 0;
                replies.retain(|_| {
                    place += 1;
                    self.is_item(place - 1)
                });
                replies
            }
        })
    }

    /// The commands of the items, for another try.
    pub fn commands(&self) -> impl Iterator<Item = &Cmd> {
        let commands = self.pipeline.cmd_iter().enumerate();
        commands.filter(|(place, _)| self.is_item(*place)).map(|(_, command)| command)
    }

    /// Whether what is at this place of the pipeline was asked for, and does not merely go with it.
    fn is_item(&self, place: usize) -> bool {
        match self.mode {
            PipelineMode::Plain | PipelineMode::InlineScripts => true,
            PipelineMode::Asking => place % 2 == 1,
            PipelineMode::ReloadScripts => place >= self.server.config.scripts.len(),
        }
    }
}

/// The same call, with the script itself; none if it is no call of one of the scripts.
fn with_script(means: &ClientConfig, command: &Cmd) -> Option<Cmd> {
    let mut arguments = command.args_iter().filter_map(|argument| match argument {
        Arg::Simple(bytes) => Some(bytes),
        _ => None,
    });
    let (name, sha) = (arguments.next(), arguments.next());
    let is_called = |script: &&Script| name == Some(b"EVALSHA") && sha == Some(script.sha().as_bytes());
    let script = means.scripts.iter().find(is_called)?;
    let mut whole = redis::cmd("EVAL");
    whole.arg(script.text);
    arguments.for_each(|argument| {
        whole.arg(argument);
    });
    Some(whole)
}
