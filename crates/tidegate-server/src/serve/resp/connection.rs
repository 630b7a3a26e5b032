//! One connection: reads, answers all that was read, and writes the answers at once.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;

use tidegate::Clock as _;
use tidegate::rules::Request;
use tokio::io::AsyncWriteExt as _;
use tokio::time::{Sleep, sleep, timeout};

use super::commands::{self, Asked, Context, Step, write_answer};
use super::decisions::Decisions;
use super::held::{self, Ahead, Ended};
use super::idle::Idle;
use super::input::Input;
use super::output::{Gone, Output};
use super::parse::{Parsed, Parser, Trust};
use super::protocol_error::{Foreign, ProtocolError};
use super::reply::Replies;
use super::session::Session;
use super::{Protocol, Server, Stream};

/// One connection.
struct Connection<'s> {
    server: &'s Server,
    stream: Stream,
    input: Input,
    parser: Parser,
    session: Session,
    output: Output,
    deciding: Deciding,
    decisions: Decisions,
    idle: Idle,
    /// When the beginning of a command has waited too long for its end.
    late: Option<Pin<Box<Sleep>>>,
}

/// What a request that is being decided has of its own, for the rest is lent to it.
#[derive(Debug, Default)]
struct Deciding {
    answer: Replies,
    /// What was read while it was held.
    ahead: Ahead,
}

/// Why a connection ends.
enum End {
    /// It is to, once all is written.
    Due,
    /// There is nobody to write to, or nobody who should be.
    AtOnce,
}

/// Serves a connection until it ends.
pub(super) async fn serve(server: &Server, stream: Stream, id: u64) {
    let mut connection = Connection {
        server,
        stream,
        input: Input::default(),
        parser: Parser::default(),
        session: Session::new(id, server.trust_at_first()),
        output: Output::new(server.bounds.write_timeout),
        deciding: Deciding::default(),
        decisions: Decisions::default(),
        idle: Idle::after(server.bounds.unused_timeout),
        late: None,
    };
    let end = connection.run().await;
    connection.decisions.count(&server.app.metrics);
    if let End::Due = end
        && let Ok(()) = connection.output.write(&mut connection.stream).await
    {
        // Says good-bye where that is done, as in TLS. The connection ends either way.
        let _ = timeout(server.bounds.write_timeout, connection.stream.shutdown()).await;
    }
}

impl Connection<'_> {
    async fn run(&mut self) -> End {
        let server = self.server;
        let mut draining = pin!(server.app.drain.begun());
        loop {
            if let Err(end) = self.read(draining.as_mut()).await {
                return end;
            }
            if let Err(end) = self.answer_all().await {
                return end;
            }
            if server.app.drain.is_on() && self.input.rest().is_empty() {
                return End::Due;
            }
        }
    }

    /// Writes what waits to be written, and reads what there is as soon as there is something, unless too much waits.
    async fn read(&mut self, mut draining: Pin<&mut impl Future<Output = ()>>) -> Result<(), End> {
        let Self { server, stream, input, session, output, idle, late, .. } = self;
        input.make_room();
        match input.rest() {
            [] => *late = None,
            _ => _ = late.get_or_insert_with(|| Box::pin(sleep(server.bounds.command_timeout))),
        }
        poll_fn(|context| {
            // Before all else, and whatever they say: there may always be something to read, or half a command.
            if session.trust == Trust::Stranger && idle.poll(context).is_ready() {
                return Poll::Ready(Err(End::Due));
            }
            if let Poll::Ready(Err(Gone)) = output.poll_write(stream, context) {
                return Poll::Ready(Err(End::AtOnce));
            }
            if output.waiting() < server.bounds.output_bytes_max
                && let Poll::Ready(read) = input.poll_read(stream, context)
            {
                return Poll::Ready(match read {
                    Ok(1..) => Ok(()),
                    Ok(0) | Err(_) => Err(End::AtOnce),
                });
            }
            // What has begun is let finish.
            let is_over = match late {
                Some(late) => late.as_mut().poll(context).is_ready(),
                None => {
                    server.app.drain.is_on()
                        || draining.as_mut().poll(context).is_ready()
                        || idle.poll(context).is_ready()
                }
            };
            if is_over { Poll::Ready(Err(End::Due)) } else { Poll::Pending }
        })
        .await
    }

    /// Answers every command that is there in whole.
    async fn answer_all(&mut self) -> Result<(), End> {
        let bounds = &self.server.bounds;
        let (mut in_a_row, mut is_any_answered) = (0, false);
        while let parsed @ (Parsed::Command { length } | Parsed::Nothing { length }) =
            self.answer_next().await?
        {
            self.input.advance(length);
            self.input.append(&mut self.deciding.ahead.bytes);
            if self.session.trust == Trust::Known && matches!(parsed, Parsed::Command { .. }) {
                self.idle.disturb();
            }
            in_a_row += 1;
            is_any_answered = true;
            if self.output.waiting() >= bounds.output_bytes_max {
                self.output.write_down_to(bounds.output_bytes_max, &mut self.stream).await?;
            }
            if in_a_row == bounds.commands_in_a_row_max {
                in_a_row = 0;
                self.output.write_down_to(bounds.output_bytes_max, &mut self.stream).await?;
                tokio::task::yield_now().await;
            }
        }
        self.decisions.count(&self.server.app.metrics);
        if is_any_answered {
            // When the server is about to stop, one command after another that has just begun is not waited for.
            if !self.server.app.drain.is_on() {
                self.late = None;
            }
            if self.session.trust == Trust::Known {
                self.idle.change(bounds.idle_timeout);
            }
        }
        Ok(())
    }

    /// Answers the next command, if it is there in whole.
    #[inline]
    async fn answer_next(&mut self) -> Result<Parsed, End> {
        let rest = self.input.rest();
        let length = match self.parser.parse(rest, self.session.trust) {
            Ok(Parsed::Command { length }) => length,
            Ok(other) => return Ok(other),
            Err(ProtocolError::Foreign(foreign)) => return Err(self.foreign(foreign)),
            Err(error) => {
                self.output.replies.error(format_args!("ERR {error}"));
                self.server.app.metrics.rejected(Protocol::Resp, "protocol_error");
                return Err(End::Due);
            }
        };
        let context = Context {
            server: self.server,
            session: &mut self.session,
            replies: &mut self.output.replies,
            decisions: &mut self.decisions,
        };
        match commands::run(self.parser.arguments(rest), context) {
            Step::Next => {}
            Step::Close => return Err(End::Due),
            Step::Http => return Err(self.foreign(Foreign::Http)),
            Step::Check(asked) => {
                self.deciding.ahead.behind(rest.len() - length);
                let (stream, output) = (&mut self.stream, &mut self.output);
                self.deciding.decide(self.server, &asked, stream, output).await?;
            }
        }
        Ok(Parsed::Command { length })
    }

    /// Another protocol is spoken.
    #[cold]
    fn foreign(&self, foreign: Foreign) -> End {
        let app = &self.server.app;
        app.metrics.foreign(Protocol::Resp, foreign.as_str());
        self.server.foreigners.add(foreign, app.engine.clock().now());
        End::AtOnce
    }
}

impl Deciding {
    /// Decides a request, which takes a wait if a rule says so.
    #[inline]
    async fn decide(
        &mut self,
        server: &Server,
        asked: &Asked<'_>,
        stream: &mut Stream,
        output: &mut Output,
    ) -> Result<(), End> {
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
                    Ended::Gone => return Err(End::AtOnce),
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

impl From<Gone> for End {
    fn from(_: Gone) -> Self {
        Self::AtOnce
    }
}
