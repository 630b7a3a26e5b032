//! Commands sent to one server as one pipeline.

use std::sync::Arc;
use std::time::Duration;

use redis::{Arg, Cmd, Pipeline};
use tokio::time::Instant;

use super::client_config::{ClientConfig, Script};
use super::replicas::Replication;
use super::reply::CommandReply;
use super::server::Server;

/// Commands sent to one server as one pipeline.
pub(crate) struct ServerPipeline {
    pub server: Arc<Server>,
    pub items: Vec<PipelineItem>,
    pub mode: PipelineMode,
    pipeline: Pipeline,
}

/// One of the commands.
#[derive(Clone, Copy)]
pub(crate) struct PipelineItem {
    /// The index of its reply.
    pub reply_index: usize,
    pub slot: u16,
}

/// How long a pipeline may take, and what it is for.
#[derive(Clone, Copy)]
pub(crate) struct PipelineTerms {
    pub timeout: Duration,
    pub deadline: Instant,
    pub purpose: PipelinePurpose,
}

/// What a pipeline is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PipelinePurpose {
    /// Decisions and heartbeats.
    Decisions,
    /// Calls of the config store. Decisions need fewer permissions, so they go on if these calls lack one.
    #[cfg(feature = "rules")]
    Config,
}

impl PipelineTerms {
    /// The timeout starts now.
    pub fn new(timeout: Duration, purpose: PipelinePurpose) -> Self {
        Self { timeout, deadline: Instant::now() + timeout, purpose }
    }
}

/// What is sent besides the commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PipelineMode {
    Plain,
    /// `ASKING` before each command, because its slot is migrating to this server.
    Asking,
    /// `SCRIPT LOAD` before all commands.
    ReloadScripts,
    /// Each command contains its script instead of the script's SHA-1, so the script cannot be missing.
    InlineScripts,
}

impl ServerPipeline {
    pub fn new(
        server: Arc<Server>,
        mode: PipelineMode,
        commands: impl Iterator<Item = (PipelineItem, Cmd)>,
    ) -> Self {
        let mut pipeline = Pipeline::new();
        if mode == PipelineMode::ReloadScripts {
            for script in &server.config.scripts {
                pipeline.cmd("SCRIPT").arg("LOAD").arg(script.text);
            }
        }
        if let PipelineMode::ReloadScripts | PipelineMode::InlineScripts = mode {
            server.count(|counters| &counters.scripts_reloaded, 1);
        }
        let mut items = Vec::new();
        for (item, command) in commands {
            if mode == PipelineMode::Asking {
                pipeline.cmd("ASKING");
            }
            let command = match mode {
                PipelineMode::InlineScripts => with_script(&server.config, &command).unwrap_or(command),
                PipelineMode::Plain | PipelineMode::Asking | PipelineMode::ReloadScripts => command,
            };
            pipeline.add_command(command);
            items.push(item);
        }
        Self { server, items, mode, pipeline }
    }

    /// One reply for each item, and whether enough replicas have what was written.
    pub async fn send(&self, terms: PipelineTerms) -> Result<(Vec<CommandReply>, Replication), SendError> {
        let (mut replies, replication) = self.server.send_pipeline(&self.pipeline, terms).await?;
        if let PipelineMode::Asking | PipelineMode::ReloadScripts = self.mode {
            let mut index = 0;
            replies.retain(|_| {
                index += 1;
                self.is_item(index - 1)
            });
        }
        Ok((replies, replication))
    }

    /// The commands of the items, for another attempt.
    pub fn commands(&self) -> impl Iterator<Item = &Cmd> {
        let commands = self.pipeline.cmd_iter().enumerate();
        commands.filter(|(index, _)| self.is_item(*index)).map(|(_, command)| command)
    }

    /// Whether the command at this index of the pipeline is an item, and not an extra command.
    fn is_item(&self, index: usize) -> bool {
        match self.mode {
            PipelineMode::Plain | PipelineMode::InlineScripts => true,
            PipelineMode::Asking => index % 2 == 1,
            PipelineMode::ReloadScripts => index >= self.server.config.scripts.len(),
        }
    }
}

/// The same call with the script's text; none if the command does not call one of the scripts.
fn with_script(config: &ClientConfig, command: &Cmd) -> Option<Cmd> {
    let mut arguments = command.args_iter().filter_map(|argument| match argument {
        Arg::Simple(bytes) => Some(bytes),
        _ => None,
    });
    let (name, sha) = (arguments.next(), arguments.next());
    let is_called = |script: &&Script| name == Some(b"EVALSHA") && sha == Some(script.sha().as_bytes());
    let script = config.scripts.iter().find(is_called)?;
    let mut eval = redis::cmd("EVAL");
    eval.arg(script.text);
    arguments.for_each(|argument| {
        eval.arg(argument);
    });
    Some(eval)
}

/// A command, and the slot of its keys.
#[derive(Clone, Debug)]
pub(crate) struct SlotCommand {
    pub slot: u16,
    pub command: redis::Cmd,
}

/// Why there is no reply to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SendError {
    /// No reply in time, or the connection broke before it. The command may have run, and is never sent
    /// again.
    NoReply,
    /// Not sent: the breaker is open, or there is no connection.
    Away,
    /// Not sent: too many pipelines are in flight to this server.
    Overloaded,
    /// The server refuses all writes, so nothing was written. It can still be asked without writes.
    WriteRefused(Box<str>),
    /// The server replied with an error, and nothing ran.
    Refused(Box<str>),
}
