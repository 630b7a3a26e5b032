//! Commands that go to one server together.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use redis::{Arg, Cmd, Pipeline, Value};
use tokio::time::Instant;

use super::means::{Means, Script};
use super::reply::Reply;
use super::sent::SendError;
use super::server::Server;

/// Replicas are waited for until this part of the time for a decision is over.
const WAITED_PART: u32 = 4;

/// Commands that go to one server together, as one pipeline.
pub(super) struct Batch {
    pub server: Arc<Server>,
    pub items: Vec<Item>,
    pub form: Form,
    pipeline: Pipeline,
}

/// One of the commands.
#[derive(Clone, Copy)]
pub(super) struct Item {
    /// Its place among the answers.
    pub place: usize,
    pub slot: u16,
}

/// What goes with the commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Plain,
    /// Before each, that it is for a slot that is on its way to this server.
    Asking,
    /// Before all, the scripts.
    Reloading,
    /// Each with its script in place of what that is called by, so that it cannot be missing.
    WithScript,
}

impl Batch {
    pub fn new(server: Arc<Server>, form: Form, commands: impl Iterator<Item = (Item, Cmd)>) -> Self {
        let mut pipeline = Pipeline::new();
        if form == Form::Reloading {
            for script in &server.means.scripts {
                pipeline.cmd("SCRIPT").arg("LOAD").arg(script.text);
            }
        }
        if let Form::Reloading | Form::WithScript = form {
            server.count(|counters| &counters.scripts_reloaded, 1);
        }
        let mut items = Vec::new();
        for (item, command) in commands {
            if form == Form::Asking {
                pipeline.cmd("ASKING");
            }
            let command = match form {
                Form::WithScript => with_script(&server.means, &command).unwrap_or(command),
                Form::Plain | Form::Asking | Form::Reloading => command,
            };
            pipeline.add_command(command);
            items.push(item);
        }
        if let Some(replicas) = server.means.wait_replicas {
            // A part of the time there is: what follows on this connection has to wait as well, and so has what is sent
            // before this is answered.
            let wait_ms = (server.means.timeout / WAITED_PART).as_millis().max(1);
            pipeline.cmd("WAIT").arg(replicas.get()).arg(wait_ms.to_string());
        }
        Self { server, items, form, pipeline }
    }

    /// One reply for each item.
    pub async fn send(&self, deadline: Instant) -> Result<Vec<Reply>, SendError> {
        let mut replies = self.server.round(&self.pipeline, deadline).await?;
        if let Some(replicas) = self.server.means.wait_replicas
            && let Some(Reply::Done(Value::Int(received))) = replies.pop()
            && received < i64::from(replicas.get())
        {
            self.server.means.waited_short.fetch_add(1, Relaxed);
        }
        Ok(match self.form {
            Form::Plain | Form::WithScript => replies,
            Form::Asking | Form::Reloading => {
                let mut place = 0;
                replies.retain(|_| {
                    place += 1;
                    self.is_of_an_item(place - 1)
                });
                replies
            }
        })
    }

    /// The commands of the items, for another try.
    pub fn commands(&self) -> impl Iterator<Item = &Cmd> {
        let commands = self.pipeline.cmd_iter().enumerate();
        commands.filter(|(place, _)| self.is_of_an_item(*place)).map(|(_, command)| command)
    }

    /// Whether what is at this place of the pipeline was asked for, and does not merely go with it.
    fn is_of_an_item(&self, place: usize) -> bool {
        match self.form {
            Form::Plain | Form::WithScript => true,
            Form::Asking => place % 2 == 1,
            Form::Reloading => place >= self.server.means.scripts.len(),
        }
    }
}

/// The same call, with the script itself; none if it is no call of one of the scripts.
fn with_script(means: &Means, command: &Cmd) -> Option<Cmd> {
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
