//! A request that is decided in this process, which takes a wait if a rule says so.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use tidegate::rules::Request;

use super::commands::{Asked, write_answer};
use super::held::{self, Ahead, Ended};
use super::output::{Gone, Output};
use super::reply::Replies;
use super::{Protocol, Server, Stream};

/// What a request that is being decided has of its own, for the rest is lent to it.
#[derive(Debug, Default)]
pub(super) struct Deciding {
    answer: Replies,
    /// What was read while it was held.
    pub ahead: Ahead,
}

impl Deciding {
    /// Decides a request, which takes a wait if a rule says so.
    #[inline]
    pub async fn decide(
        &mut self,
        server: &Server,
        asked: &Asked<'_>,
        stream: &mut Stream,
        output: &mut Output,
    ) -> Result<(), Gone> {
        let Self { answer, ahead } = self;
        if server.app.drain.is_on() {
            // What comes now comes too late.
            ahead.none();
        }
        answer.speak(output.replies.version());
        let descriptors = [asked.descriptor()];
        let request = Request { domain: asked.domain(), descriptors: &descriptors };
        let decided = {
            let answered = |decided: &tidegate::Decided<'_>| write_answer(answer, &decided.answer);
            let mut deciding = pin!(server.app.check(Protocol::Resp, &request, answered));
            match poll_fn(|context| Poll::Ready(deciding.as_mut().poll(context))).await {
                Poll::Ready(decided) => decided,
                Poll::Pending => match held::wait(deciding.as_mut(), stream, output, ahead).await {
                    Ended::Answered(decided) => decided,
                    Ended::Gone => return Err(Gone),
                },
            }
        };
        match decided {
            Ok(()) => output.replies.append(answer),
            Err(full) => output.replies.error(format_args!("ERR {full}")),
        }
        Ok(())
    }
}
