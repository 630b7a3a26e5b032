//! One connection: reads, answers all that was read, and writes the answers at once.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tidegate::Clock as _;
use tokio::io::AsyncWriteExt as _;
use tokio::time::{Sleep, sleep, timeout};

use super::commands::{self, Context, Later, Step};
use super::decisions::Decisions;
use super::held::{Ahead, NoMore};
use super::idle::Idle;
use super::input::Input;
use super::output::{Gone, Output};
use super::parse::{Parsed, Parser, Trust};
use super::protocol_error::{Foreign, ProtocolError};
use super::reply::Replies;
use super::session::Session;
use super::together::{Asks, Room, Together};
use super::{Protocol, Server, Stream};

/// How long answers that a store has yet to give are waited for once the client sends no more. It may have gone.
const LAST_ANSWERS_MAX: Duration = Duration::from_secs(1);

/// One connection.
struct Connection<'s> {
    server: &'s Server,
    stream: Stream,
    input: Input,
    parser: Parser,
    session: Session,
    output: Output,
    /// What was read while an answer was waited for.
    ahead: Ahead,
    /// What is answered later: a rule holds it, or a shared store is asked.
    together: Together<'s>,
    decisions: Decisions,
    idle: Idle,
    /// When the beginning of a command has waited too long for its end.
    late: Option<Pin<Box<Sleep>>>,
    /// When a client that sends no more has waited long enough for what it asked before.
    last: Option<Pin<Box<Sleep>>>,
}

/// What was read behind a command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Behind {
    /// So many bytes, and more may come.
    Bytes(usize),
    /// Nothing that is to be answered.
    Nothing,
}

/// How long those are waited for that were asked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// There is room for one more that asks for this.
    RoomFor(Asks),
    AllAnswered,
}

/// Why a connection ends.
enum End {
    /// It is to, once all is written.
    Due,
    /// It is to, once all is answered and written: the client sends no more.
    Answered,
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
        ahead: Ahead::default(),
        together: Together::new(),
        decisions: Decisions::default(),
        idle: Idle::after(server.bounds.unused_timeout),
        late: None,
        last: None,
    };
    let mut end = connection.run().await;
    connection.decisions.count(&server.app.metrics);
    if let End::Answered = end
        && let Err(other) = connection.answer_asked(Until::AllAnswered, Behind::Nothing).await
    {
        end = other;
    }
    let Connection { mut output, mut stream, together, .. } = connection;
    // What is not answered by now never is. It stands in no line while the client takes its time to read.
    drop(together);
    if let End::Due | End::Answered = end
        && let Ok(()) = output.write(&mut stream).await
    {
        // Says good-bye where that is done, as in TLS. The connection ends either way.
        let _ = timeout(server.bounds.write_timeout, stream.shutdown()).await;
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
            if server.app.drain.is_on() && self.input.rest().is_empty() && self.together.is_empty() {
                return End::Due;
            }
        }
    }

    /// Writes what waits to be written, and reads what there is as soon as there is something, unless too much waits.
    async fn read(&mut self, mut draining: Pin<&mut impl Future<Output = ()>>) -> Result<(), End> {
        let Self { server, stream, input, session, output, together, idle, late, last, .. } = self;
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
            together.poll(context, &mut output.replies);
            if let Poll::Ready(Err(Gone)) = output.poll_write(stream, context) {
                return Poll::Ready(Err(End::AtOnce));
            }
            let has_room = output.waiting() < server.bounds.output_bytes_max && together.room() == Room::Some;
            // What comes when the server is about to stop comes too late for those that are waited for.
            let is_last = !together.is_empty() && server.app.drain.is_on();
            // When the server is about to stop, a client that sends without a pause always has half a command here. It is waited
            // for no longer than one that does not finish its command.
            if server.app.drain.is_on()
                && together.is_empty()
                && let Some(late) = late
                && late.as_mut().poll(context).is_ready()
            {
                return Poll::Ready(Err(End::Due));
            }
            if has_room
                && !is_last
                && let Poll::Ready(read) = input.poll_read(stream, context)
            {
                return Poll::Ready(match read {
                    Ok(1..) => Ok(()),
                    Ok(0) => {
                        last.get_or_insert_with(last_answers);
                        Err(End::Answered)
                    }
                    Err(_) => Err(End::AtOnce),
                });
            }
            if !together.is_empty() {
                return Poll::Pending;
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
            self.input.append(&mut self.ahead.bytes);
            if self.session.trust == Trust::Known && matches!(parsed, Parsed::Command { .. }) {
                self.idle.disturb();
            }
            in_a_row += 1;
            is_any_answered = true;
            if self.output.waiting() >= bounds.output_bytes_max {
                self.write_down().await?;
            }
            if in_a_row == bounds.commands_in_a_row_max {
                in_a_row = 0;
                self.write_down().await?;
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
                self.answer_asked(Until::AllAnswered, Behind::Nothing).await?;
                self.output.replies.error(format_args!("ERR {error}"));
                self.server.app.metrics.rejected(Protocol::Resp, "protocol_error");
                return Err(End::Due);
            }
        };
        if !self.together.is_empty() {
            let (arguments, behind) = (self.parser.arguments(rest), Behind::Bytes(rest.len() - length));
            // A command that is answered at once is not answered before those that came before it.
            let until = commands::asks(&arguments).map_or(Until::AllAnswered, Until::RoomFor);
            self.answer_asked(until, behind).await?;
        }
        let rest = self.input.rest();
        // While others are not answered, its answer waits behind theirs.
        let is_first = self.together.is_empty();
        let version = self.output.replies.version();
        let mut behind = Replies::new(version);
        let context = Context {
            server: self.server,
            session: &mut self.session,
            replies: if is_first { &mut self.output.replies } else { &mut behind },
            decisions: &mut self.decisions,
        };
        match commands::run(&self.parser.arguments(rest), context) {
            Step::Next if is_first => {}
            Step::Next => self.together.add(behind),
            Step::Close => return Err(End::Due),
            Step::Http => return Err(self.foreign(Foreign::Http)),
            Step::Later(Later { asks, answering, bytes }) => self.together.ask(asks, answering, bytes),
        }
        Ok(Parsed::Command { length })
    }

    /// Gives answers that come later, as they come.
    async fn answer_asked(&mut self, until: Until, behind: Behind) -> Result<(), End> {
        let Self { server, stream, output, together, ahead, last, .. } = self;
        match behind {
            Behind::Bytes(bytes) if last.is_none() && !server.app.drain.is_on() => ahead.behind(bytes),
            // Nothing comes, or what comes now comes too late.
            _ => ahead.none(),
        }
        poll_fn(|context| {
            together.poll(context, &mut output.replies);
            let is_over = match until {
                Until::RoomFor(asks) => together.room_for(asks) == Room::Some,
                Until::AllAnswered => together.is_empty(),
            };
            if is_over {
                return Poll::Ready(Ok(()));
            }
            if let Poll::Ready(Err(Gone)) = output.poll_write(stream, context) {
                return Poll::Ready(Err(End::AtOnce));
            }
            match ahead.poll(stream, context) {
                Poll::Ready(NoMore::Said) => {
                    ahead.none();
                    last.get_or_insert_with(last_answers);
                }
                Poll::Ready(NoMore::Gone) => return Poll::Ready(Err(End::AtOnce)),
                Poll::Pending => {}
            }
            match last {
                Some(last) => last.as_mut().poll(context).map(|()| Err(End::Due)),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// Writes until no more waits than may.
    async fn write_down(&mut self) -> Result<(), End> {
        let Self { server, stream, output, together, .. } = self;
        poll_fn(|context| {
            // Before all else, whatever the client does: others may stand in line behind them. No more are asked meanwhile, so
            // no more answers come of it than of those.
            together.poll(context, &mut output.replies);
            output.poll_write_down_to(server.bounds.output_bytes_max, stream, context)
        })
        .await?;
        Ok(())
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

fn last_answers() -> Pin<Box<Sleep>> {
    Box::pin(sleep(LAST_ANSWERS_MAX))
}

impl From<Gone> for End {
    fn from(_: Gone) -> Self {
        Self::AtOnce
    }
}
