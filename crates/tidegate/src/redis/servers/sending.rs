//! Sends a round of commands, and sends again what was not run: a script that the server had lost, a slot that moved.
//!
//! Nothing is ever sent again that may have been run.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::time::{Instant, sleep_until};

use super::Servers;
use super::batch::{Batch, Form, Item};
use super::reply::{Redirect, Reply};
use super::sent::{SendError, Sent};
use super::server::Server;

/// How often a command may be sent on, or again: from one who has not heard of a change to one who has, and to one who has
/// lost its scripts, and some times more while a slot is on its way.
const ATTEMPTS_MAX: u32 = 8;
/// Before a command is sent again for a slot that is partly here and partly there. It doubles each time.
const TRY_AGAIN_PAUSE: Duration = Duration::from_micros(500);

type Answer = Result<Value, SendError>;

/// Sends commands to a server, and on to where it says that they belong.
pub(super) async fn send(servers: &Servers, server: Arc<Server>, round: Vec<Sent>) -> Vec<Answer> {
    let deadline = Instant::now() + servers.means().timeout;
    let mut answers: Vec<Answer> = round.iter().map(|_| Err(SendError::Away)).collect();
    let commands =
        round.into_iter().enumerate().map(|(place, Sent { slot, command })| (Item { place, slot }, command));
    let mut batches = vec![Batch::new(server, Form::Plain, commands)];
    for attempt in 0..ATTEMPTS_MAX {
        let mut again = Again::default();
        for (batch, replies) in send_all(batches, deadline).await {
            match replies {
                Ok(replies) => settle(servers, &batch, replies, &mut answers, &mut again),
                Err(error) => batch.items.iter().for_each(|item| answers[item.place] = Err(error.clone())),
            }
        }
        if again.errands.is_empty() {
            break;
        }
        if let Next::AfterAPause = again.next {
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
async fn send_all(batches: Vec<Batch>, deadline: Instant) -> Vec<(Batch, Result<Vec<Reply>, SendError>)> {
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
fn settle(servers: &Servers, batch: &Batch, replies: Vec<Reply>, answers: &mut [Answer], again: &mut Again) {
    let mut answered = 0;
    for ((item, command), reply) in batch.items.iter().zip(batch.commands()).zip(replies) {
        answered += 1;
        let (to, said) = match reply {
            Reply::Done(value) => {
                answers[item.place] = Ok(value);
                continue;
            }
            Reply::Refused(refusal) => {
                answers[item.place] = Err(SendError::Refused(refusal.text));
                continue;
            }
            Reply::NoScript => {
                // Loaded first, since one script serves many calls, and that takes no more rights than usual. Somebody who
                // flushes scripts all the time may be faster.
                let form = if batch.form == Form::Reloading { Form::WithScript } else { Form::Reloading };
                (Some((batch.server.clone(), form)), "NOSCRIPT the server loses its scripts".into())
            }
            Reply::Moved(redirect) => (moved(servers, batch, *item, &redirect), redirect.text),
            Reply::Ask(redirect) => (asked(servers, batch, &redirect), redirect.text),
            Reply::TryAgain(said) => {
                again.next = Next::AfterAPause;
                (Some((batch.server.clone(), batch.form)), said)
            }
        };
        answers[item.place] = Err(SendError::Refused(said));
        if let Some((server, form)) = to {
            if !matches!(form, Form::Reloading | Form::WithScript) {
                batch.server.count(|counters| &counters.redirects, 1);
            }
            again.add(server, form, (*item, command.clone()));
        }
    }
    // A server that answers fewer commands than it was sent speaks another protocol.
    batch.items[answered..].iter().for_each(|item| answers[item.place] = Err(SendError::Lost));
}

fn moved(servers: &Servers, batch: &Batch, item: Item, to: &Redirect) -> Option<(Arc<Server>, Form)> {
    let owner = servers.cluster()?.moved(item.slot, &to.address(&batch.server.address()))?;
    Some((owner, Form::Plain))
}

fn asked(servers: &Servers, batch: &Batch, to: &Redirect) -> Option<(Arc<Server>, Form)> {
    let importer = servers.cluster()?.at(&to.address(&batch.server.address()))?;
    Some((importer, Form::Asking))
}

/// What is to be sent once more.
#[derive(Default)]
struct Again {
    errands: Vec<Errand>,
    next: Next,
}

struct Errand {
    server: Arc<Server>,
    form: Form,
    commands: Vec<(Item, Cmd)>,
}

#[derive(Default)]
enum Next {
    #[default]
    AtOnce,
    AfterAPause,
}

impl Again {
    fn add(&mut self, server: Arc<Server>, form: Form, command: (Item, Cmd)) {
        let same = |errand: &&mut Errand| Arc::ptr_eq(&errand.server, &server) && errand.form == form;
        match self.errands.iter_mut().find(same) {
            Some(errand) => errand.commands.push(command),
            None => self.errands.push(Errand { server, form, commands: vec![command] }),
        }
    }

    fn into_batches(self) -> Vec<Batch> {
        self.errands
            .into_iter()
            .map(|Errand { server, form, commands }| Batch::new(server, form, commands.into_iter()))
            .collect()
    }
}
