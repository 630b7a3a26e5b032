//! One connection: reads, answers all that was read, and writes the answers at once.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tidegate::Clock as _;
use tokio::io::AsyncWriteExt as _;
use tokio::time::{Sleep, sleep, timeout};

use super::commands::{self, CommandContext, DeferredReply, CommandStep};
use super::decisions::DecisionCounts;
use super::held::{ReadAhead, ReadEnd};
use super::idle::IdleTimer;
use super::input::InputBuffer;
use super::output::{ClientGone, OutputBuffer};
use super::parse::{Parsed, Parser, AuthState};
use super::protocol_error::{WrongProtocol, ProtocolError};
use super::reply::Replies;
use super::session::Session;
use super::together::{StoreAccess, Room, InFlightCommands};
use super::{Protocol, RespShared, Stream};

/// How long answers that a store has yet to give are waited for once the client sends no more. It may have gone.
const LAST_REPLIES_TIMEOUT: Duration = Duration::from_secs(1);

/// One connection.
struct RespConnection<'s> {
    shared: &'s RespShared,
    stream: Stream,
    input: InputBuffer,
    parser: Parser,
    session: Session,
    output: OutputBuffer,
    /// What was read while an answer was waited for.
    read_ahead: ReadAhead,
    /// What is answered later: a rule holds it, or a shared store is asked.
    in_flight: InFlightCommands<'s>,
    decisions: DecisionCounts,
    idle: IdleTimer,
    /// When the beginning of a command has waited too long for its end.
    command_timer: Option<Pin<Box<Sleep>>>,
    /// When a client that sends no more has waited long enough for what it asked before.
    last_replies_timer: Option<Pin<Box<Sleep>>>,
}

/// What was read behind a command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BufferedInput {
    /// So many bytes, and more may come.
    Bytes(usize),
    /// Nothing that is to be answered.
    Nothing,
}

/// How long those are waited for that were asked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WaitUntil {
    /// There is room for one more that asks for this.
    RoomFor(StoreAccess),
    AllAnswered,
}

/// Why a connection ends.
enum Close {
    /// It is to, once all is written.
    AfterWrites,
    /// It is to, once all is answered and written: the client sends no more.
    AfterReplies,
    /// There is nobody to write to, or nobody who should be.
    Immediately,
}

/// Serves a connection until it ends.
pub(super) async fn serve(server: &RespShared, stream: Stream, id: u64) {
    let mut connection = RespConnection {
        shared: server,
        stream,
        input: InputBuffer::default(),
        parser: Parser::default(),
        session: Session::new(id, server.initial_auth()),
        output: OutputBuffer::new(server.bounds.write_timeout),
        read_ahead: ReadAhead::default(),
        in_flight: InFlightCommands::new(),
        decisions: DecisionCounts::default(),
        idle: IdleTimer::new(server.bounds.unused_timeout),
        command_timer: None,
        last_replies_timer: None,
    };
    let mut end = connection.run().await;
    connection.decisions.flush(&server.app.metrics);
    if let Close::AfterReplies = end
        && let Err(other) = connection.wait_for_replies(WaitUntil::AllAnswered, BufferedInput::Nothing).await
    {
        end = other;
    }
    let RespConnection { mut output, mut stream, in_flight: together, .. } = connection;
    // What is not answered by now never is. It stands in no line while the client takes its time to read.
    drop(together);
    if let Close::AfterWrites | Close::AfterReplies = end
        && let Ok(()) = output.write(&mut stream).await
    {
        // Says good-bye where that is done, as in TLS. The connection ends either way.
        let _ = timeout(server.bounds.write_timeout, stream.shutdown()).await;
    }
}

impl RespConnection<'_> {
    async fn run(&mut self) -> Close {
        let server = self.shared;
        let mut draining = pin!(server.app.drain.wait());
        loop {
            if let Err(end) = self.read(draining.as_mut()).await {
                return end;
            }
            if let Err(end) = self.run_commands().await {
                return end;
            }
            if server.app.drain.is_draining() && self.input.rest().is_empty() && self.in_flight.is_empty() {
                return Close::AfterWrites;
            }
        }
    }

    /// Writes what waits to be written, and reads what there is as soon as there is something, unless too much waits.
    async fn read(&mut self, mut draining: Pin<&mut impl Future<Output = ()>>) -> Result<(), Close> {
        let Self { shared: server, stream, input, session, output, in_flight: together, idle, command_timer: late, last_replies_timer: last, .. } = self;
        input.make_room();
        match input.rest() {
            [] => *late = None,
            _ => _ = late.get_or_insert_with(|| Box::pin(sleep(server.bounds.command_timeout))),
        }
        poll_fn(|context| {
            // Before all else, and whatever they say: there may always be something to read, or half a command.
            if session.auth == AuthState::Unauthenticated && idle.poll(context).is_ready() {
                return Poll::Ready(Err(Close::AfterWrites));
            }
            together.poll(context, &mut output.replies);
            if let Poll::Ready(Err(ClientGone)) = output.poll_write(stream, context) {
                return Poll::Ready(Err(Close::Immediately));
            }
            let has_room = output.pending_bytes() < server.bounds.output_bytes_max && together.room() == Room::Some;
            // What comes when the server is about to stop comes too late for those that are waited for.
            let is_last = !together.is_empty() && server.app.drain.is_draining();
            // When the server is about to stop, a client that sends without a pause always has half a command here. It is waited
            // for no longer than one that does not finish its command.
            if server.app.drain.is_draining()
                && together.is_empty()
                && let Some(late) = late
                && late.as_mut().poll(context).is_ready()
            {
                return Poll::Ready(Err(Close::AfterWrites));
            }
            if has_room
                && !is_last
                && let Poll::Ready(read) = input.poll_read(stream, context)
            {
                return Poll::Ready(match read {
                    Ok(1..) => Ok(()),
                    Ok(0) => {
                        last.get_or_insert_with(last_replies_timer);
                        Err(Close::AfterReplies)
                    }
                    Err(_) => Err(Close::Immediately),
                });
            }
            if !together.is_empty() {
                return Poll::Pending;
            }
            // What has begun is let finish.
            let is_over = match late {
                Some(late) => late.as_mut().poll(context).is_ready(),
                None => {
                    server.app.drain.is_draining()
                        || draining.as_mut().poll(context).is_ready()
                        || idle.poll(context).is_ready()
                }
            };
            if is_over { Poll::Ready(Err(Close::AfterWrites)) } else { Poll::Pending }
        })
        .await
    }

    /// Answers every command that is there in whole.
    async fn run_commands(&mut self) -> Result<(), Close> {
        let bounds = &self.shared.bounds;
        let (mut in_a_row, mut is_any_answered) = (0, false);
        while let parsed @ (Parsed::Command { length } | Parsed::Empty { length }) =
            self.run_next_command().await?
        {
            self.input.advance(length);
            self.input.append(&mut self.read_ahead.bytes);
            if self.session.auth == AuthState::Authenticated && matches!(parsed, Parsed::Command { .. }) {
                self.idle.reset();
            }
            in_a_row += 1;
            is_any_answered = true;
            if self.output.pending_bytes() >= bounds.output_bytes_max {
                self.write_to_limit().await?;
            }
            if in_a_row == bounds.commands_per_turn_max {
                in_a_row = 0;
                self.write_to_limit().await?;
                tokio::task::yield_now().await;
            }
        }
        self.decisions.flush(&self.shared.app.metrics);
        if is_any_answered {
            // When the server is about to stop, one command after another that has just begun is not waited for.
            if !self.shared.app.drain.is_draining() {
                self.command_timer = None;
            }
            if self.session.auth == AuthState::Authenticated {
                self.idle.set_timeout(bounds.idle_timeout);
            }
        }
        Ok(())
    }

    /// Answers the next command, if it is there in whole.
    #[inline]
    async fn run_next_command(&mut self) -> Result<Parsed, Close> {
        let rest = self.input.rest();
        let length = match self.parser.parse(rest, self.session.auth) {
            Ok(Parsed::Command { length }) => length,
            Ok(other) => return Ok(other),
            Err(ProtocolError::WrongProtocol(foreign)) => return Err(self.wrong_protocol(foreign)),
            Err(error) => {
                self.wait_for_replies(WaitUntil::AllAnswered, BufferedInput::Nothing).await?;
                self.output.replies.error(format_args!("ERR {error}"));
                self.shared.app.metrics.count_rejected_request(Protocol::Resp, "protocol_error");
                return Err(Close::AfterWrites);
            }
        };
        if !self.in_flight.is_empty() {
            let (arguments, behind) = (self.parser.arguments(rest), BufferedInput::Bytes(rest.len() - length));
            // A command that is answered at once is not answered before those that came before it.
            let until = commands::store_access(&arguments).map_or(WaitUntil::AllAnswered, WaitUntil::RoomFor);
            self.wait_for_replies(until, behind).await?;
        }
        let rest = self.input.rest();
        // While others are not answered, its answer waits behind theirs.
        let is_first = self.in_flight.is_empty();
        let version = self.output.replies.version();
        let mut behind = Replies::new(version);
        let context = CommandContext {
            shared: self.shared,
            session: &mut self.session,
            replies: if is_first { &mut self.output.replies } else { &mut behind },
            decisions: &mut self.decisions,
        };
        match commands::run(&self.parser.arguments(rest), context) {
            CommandStep::Continue if is_first => {}
            CommandStep::Continue => self.in_flight.push_reply(behind),
            CommandStep::Close => return Err(Close::AfterWrites),
            CommandStep::WrongProtocol => return Err(self.wrong_protocol(WrongProtocol::Http)),
            CommandStep::Later(DeferredReply { access: asks, reply: answering, bytes }) => self.in_flight.push_future(asks, answering, bytes),
        }
        Ok(Parsed::Command { length })
    }

    /// Gives answers that come later, as they come.
    async fn wait_for_replies(&mut self, until: WaitUntil, behind: BufferedInput) -> Result<(), Close> {
        let Self { shared: server, stream, output, in_flight: together, read_ahead: ahead, last_replies_timer: last, .. } = self;
        match behind {
            BufferedInput::Bytes(bytes) if last.is_none() && !server.app.drain.is_draining() => ahead.allow_after(bytes),
            // Nothing comes, or what comes now comes too late.
            _ => ahead.stop(),
        }
        poll_fn(|context| {
            together.poll(context, &mut output.replies);
            let is_over = match until {
                WaitUntil::RoomFor(asks) => together.room_for(asks) == Room::Some,
                WaitUntil::AllAnswered => together.is_empty(),
            };
            if is_over {
                return Poll::Ready(Ok(()));
            }
            if let Poll::Ready(Err(ClientGone)) = output.poll_write(stream, context) {
                return Poll::Ready(Err(Close::Immediately));
            }
            match ahead.poll(stream, context) {
                Poll::Ready(ReadEnd::HalfClosed) => {
                    ahead.stop();
                    last.get_or_insert_with(last_replies_timer);
                }
                Poll::Ready(ReadEnd::Closed) => return Poll::Ready(Err(Close::Immediately)),
                Poll::Pending => {}
            }
            match last {
                Some(last) => last.as_mut().poll(context).map(|()| Err(Close::AfterWrites)),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// Writes until no more waits than may.
    async fn write_to_limit(&mut self) -> Result<(), Close> {
        let Self { shared: server, stream, output, in_flight: together, .. } = self;
        poll_fn(|context| {
            // Before all else, whatever the client does: others may stand in line behind them. No more are asked meanwhile, so
            // no more answers come of it than of those.
            together.poll(context, &mut output.replies);
            output.poll_write_until(server.bounds.output_bytes_max, stream, context)
        })
        .await?;
        Ok(())
    }

    /// Another protocol is spoken.
    #[cold]
    fn wrong_protocol(&self, foreign: WrongProtocol) -> Close {
        let app = &self.shared.app;
        app.metrics.count_wrong_protocol(Protocol::Resp, foreign.as_str());
        self.shared.wrong_protocol_log.add(foreign, app.engine.clock().now());
        Close::Immediately
    }
}

fn last_replies_timer() -> Pin<Box<Sleep>> {
    Box::pin(sleep(LAST_REPLIES_TIMEOUT))
}

impl From<ClientGone> for Close {
    fn from(_: ClientGone) -> Self {
        Self::Immediately
    }
}
