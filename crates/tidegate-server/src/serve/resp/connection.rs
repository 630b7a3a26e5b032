//! One connection: reads, runs all commands that were read, and writes their replies together.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tidegate::Clock as _;
use tokio::io::AsyncWriteExt as _;
use tokio::time::{Sleep, sleep, timeout};

use super::commands::{self, CommandContext, CommandStep, DeferredReply};
use super::decision_counts::DecisionCounts;
use super::idle::IdleTimer;
use super::in_flight::{InFlightCommands, Room, StoreAccess};
use super::input::InputBuffer;
use super::output::{ClientGone, OutputBuffer};
use super::parse::{Arguments, AuthState, OwnedArguments, Parsed, Parser};
use super::protocol_error::{ProtocolError, WrongProtocol};
use super::read_ahead::{ReadAhead, ReadEnd};
use super::reply::Replies;
use super::session::Session;
use super::{Protocol, RespShared, Stream};
use crate::serve::connections_memory::HeldBytes;

/// How long to wait for pending replies after the client stopped sending, because it may be gone.
const LAST_REPLIES_TIMEOUT: Duration = Duration::from_secs(1);

/// Buffers up to this size are part of what every connection may hold.
const BUFFER_BYTES: usize = 16 << 10;
const OUT_OF_MEMORY: &str = "ERR the server has no memory for this connection (hint: try again later, or raise the \
                             server's --connections-memory-max)";

struct RespConnection<'s> {
    shared: &'s RespShared,
    stream: Stream,
    input: InputBuffer,
    parser: Parser,
    session: Session,
    output: OutputBuffer,
    /// Input that was read while a reply was pending.
    read_ahead: ReadAhead,
    /// Reserved for buffers that are larger than usual.
    held: HeldBytes,
    /// Commands that wait for a rule with `delay` or for a shared store.
    in_flight: InFlightCommands<'s>,
    decisions: DecisionCounts,
    idle: IdleTimer,
    /// Runs while the input ends with an incomplete command.
    command_timer: Option<Pin<Box<Sleep>>>,
    /// Runs once the client has stopped sending, while replies are pending.
    last_replies_timer: Option<Pin<Box<Sleep>>>,
}

/// Input that was read after the current command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BufferedInput {
    /// This many bytes, and more may arrive.
    Bytes(usize),
    /// No later input will be handled.
    Nothing,
}

/// How long to wait for commands in flight.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WaitUntil {
    /// Until another command with this access may start.
    RoomFor(StoreAccess),
    AllAnswered,
}

/// Runs one command.
struct CommandRunner<'c, 's> {
    shared: &'s RespShared,
    session: &'c mut Session,
    output: &'c mut OutputBuffer,
    in_flight: &'c mut InFlightCommands<'s>,
    decisions: &'c mut DecisionCounts,
}

/// Why the next command does not simply follow.
enum Stop {
    /// Close the connection after pending output is written.
    Close,
    /// The client speaks HTTP.
    WrongProtocol,
    /// Run these commands first.
    Exec(Vec<OwnedArguments>),
}

/// How a connection is closed.
enum Close {
    /// After pending output is written.
    AfterWrites,
    /// The client sends no more: close after all commands are answered and written.
    AfterReplies,
    /// The client is gone, or must not get a reply.
    Immediately,
}

/// Serves a connection until it ends.
pub(super) async fn serve(shared: &RespShared, stream: Stream, id: u64) {
    let mut connection = RespConnection {
        shared,
        stream,
        input: InputBuffer::default(),
        parser: Parser::default(),
        session: Session::new(id, shared.initial_auth()),
        output: OutputBuffer::new(shared.bounds.write_timeout),
        read_ahead: ReadAhead::default(),
        held: shared.app.connections_memory.reserve_nothing(Protocol::Resp),
        in_flight: InFlightCommands::new(),
        decisions: DecisionCounts::default(),
        idle: IdleTimer::new(shared.bounds.unused_timeout),
        command_timer: None,
        last_replies_timer: None,
    };
    let mut end = connection.run().await;
    connection.decisions.flush(&shared.app.metrics);
    if let Close::AfterReplies = end
        && let Err(other) = connection.wait_for_replies(WaitUntil::AllAnswered, BufferedInput::Nothing).await
    {
        end = other;
    }
    let RespConnection { mut output, mut stream, in_flight, .. } = connection;
    // Drop unanswered commands now: they must leave their wait queues while the client still reads.
    drop(in_flight);
    if let Close::AfterWrites | Close::AfterReplies = end
        && let Ok(()) = output.write(&mut stream).await
    {
        // Closes TLS properly. Ignore errors: the connection ends anyway.
        let _ = timeout(shared.bounds.write_timeout, stream.shutdown()).await;
    }
}

impl CommandRunner<'_, '_> {
    #[inline]
    fn run(self, arguments: &Arguments<'_>) -> Result<(), Stop> {
        let Self { shared, session, output, in_flight, decisions } = self;
        // While earlier commands are in flight, its reply is queued behind theirs.
        let is_first = in_flight.is_empty();
        let mut queued = Replies::new(output.replies.version());
        let replies = if is_first { &mut output.replies } else { &mut queued };
        match commands::run(arguments, CommandContext { shared, session, replies, decisions }) {
            CommandStep::Continue if is_first => {}
            CommandStep::Continue => in_flight.push_reply(queued),
            CommandStep::Close => return Err(Stop::Close),
            CommandStep::WrongProtocol => return Err(Stop::WrongProtocol),
            CommandStep::Exec(commands) => return Err(Stop::Exec(commands)),
            CommandStep::Later(DeferredReply { access, reply, bytes }) => {
                in_flight.push_future(access, reply, bytes);
            }
        }
        Ok(())
    }
}

impl WaitUntil {
    /// Until a command may start. One that is answered immediately waits until all earlier ones are answered.
    fn room_for(arguments: &Arguments<'_>) -> Self {
        commands::store_access(arguments).map_or(Self::AllAnswered, Self::RoomFor)
    }
}

impl RespConnection<'_> {
    async fn run(&mut self) -> Close {
        let app = &self.shared.app;
        let mut draining = pin!(app.drain.wait());
        loop {
            if !self.try_hold_buffers() {
                app.metrics.count_rejected_request(Protocol::Resp, "memory");
                self.output.replies.error(format_args!("{OUT_OF_MEMORY}"));
                return Close::AfterWrites;
            }
            if let Err(end) = self.read(draining.as_mut()).await {
                return end;
            }
            if let Err(end) = self.run_commands().await {
                return end;
            }
            if app.drain.is_draining() && self.input.rest().is_empty() && self.in_flight.is_empty() {
                return Close::AfterWrites;
            }
        }
    }

    /// Writes pending replies and waits for input. Does not read while too many replies are pending.
    async fn read(&mut self, mut draining: Pin<&mut impl Future<Output = ()>>) -> Result<(), Close> {
        let Self {
            shared,
            stream,
            input,
            session,
            output,
            in_flight,
            idle,
            command_timer,
            last_replies_timer,
            ..
        } = self;
        let (bounds, drain) = (&shared.bounds, &shared.app.drain);
        input.make_room();
        match input.rest() {
            [] => *command_timer = None,
            _ => _ = command_timer.get_or_insert_with(|| Box::pin(sleep(bounds.command_timeout))),
        }
        poll_fn(|context| {
            // First, whatever the client sends: an unauthenticated client must not postpone its timeout with input.
            if session.auth == AuthState::Unauthenticated && idle.poll(context).is_ready() {
                return Poll::Ready(Err(Close::AfterWrites));
            }
            in_flight.poll(context, &mut output.replies);
            if let Poll::Ready(Err(ClientGone)) = output.poll_write(stream, context) {
                return Poll::Ready(Err(Close::Immediately));
            }
            let has_room = output.pending_bytes() < bounds.output_bytes_max && in_flight.room() == Room::Some;
            // During a drain, no input is read while commands are in flight.
            let is_last = !in_flight.is_empty() && drain.is_draining();
            // During a drain, a client that sends without pause always has an incomplete command here. It gets the
            // usual command timeout.
            if drain.is_draining()
                && in_flight.is_empty()
                && let Some(timer) = command_timer
                && timer.as_mut().poll(context).is_ready()
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
                        last_replies_timer.get_or_insert_with(new_last_replies_timer);
                        Err(Close::AfterReplies)
                    }
                    Err(_) => Err(Close::Immediately),
                });
            }
            if !in_flight.is_empty() {
                return Poll::Pending;
            }
            // An incomplete command may still finish in time.
            let is_over = match command_timer {
                Some(timer) => timer.as_mut().poll(context).is_ready(),
                None => {
                    drain.is_draining()
                        || draining.as_mut().poll(context).is_ready()
                        || idle.poll(context).is_ready()
                }
            };
            if is_over { Poll::Ready(Err(Close::AfterWrites)) } else { Poll::Pending }
        })
        .await
    }

    /// Runs every complete command of the input.
    async fn run_commands(&mut self) -> Result<(), Close> {
        let bounds = &self.shared.bounds;
        let (mut commands_in_turn, mut is_any_answered) = (0, false);
        while let parsed @ (Parsed::Command { length } | Parsed::Empty { length }) =
            self.run_next_command().await?
        {
            self.input.advance(length);
            self.input.append(&mut self.read_ahead.bytes);
            if self.session.auth == AuthState::Authenticated && matches!(parsed, Parsed::Command { .. }) {
                self.idle.reset();
            }
            commands_in_turn += 1;
            is_any_answered = true;
            if self.output.pending_bytes() >= bounds.output_bytes_max {
                self.write_to_limit().await?;
            }
            if commands_in_turn == bounds.commands_per_turn_max {
                commands_in_turn = 0;
                self.write_to_limit().await?;
                tokio::task::yield_now().await;
            }
        }
        self.decisions.flush(&self.shared.app.metrics);
        if is_any_answered {
            // During a drain the timer is not reset, so a series of incomplete commands cannot delay the stop.
            if !self.shared.app.drain.is_draining() {
                self.command_timer = None;
            }
            if self.session.auth == AuthState::Authenticated {
                self.idle.set_timeout(bounds.idle_timeout);
            }
        }
        Ok(())
    }

    /// Runs the next command, if it is complete.
    #[inline]
    async fn run_next_command(&mut self) -> Result<Parsed, Close> {
        let rest = self.input.rest();
        let length = match self.parser.parse(rest, self.session.auth) {
            Ok(Parsed::Command { length }) => length,
            Ok(other) => return Ok(other),
            Err(ProtocolError::WrongProtocol(protocol)) => return Err(self.wrong_protocol(protocol)),
            Err(error) => {
                self.wait_for_replies(WaitUntil::AllAnswered, BufferedInput::Nothing).await?;
                self.output.replies.error(format_args!("ERR {error}"));
                self.shared.app.metrics.count_rejected_request(Protocol::Resp, "protocol_error");
                return Err(Close::AfterWrites);
            }
        };
        let buffered = BufferedInput::Bytes(rest.len() - length);
        if !self.in_flight.is_empty() {
            let until = WaitUntil::room_for(&self.parser.arguments(rest));
            self.wait_for_replies(until, buffered).await?;
        }
        let runner = CommandRunner {
            shared: self.shared,
            session: &mut self.session,
            output: &mut self.output,
            in_flight: &mut self.in_flight,
            decisions: &mut self.decisions,
        };
        match runner.run(&self.parser.arguments(self.input.rest())) {
            Ok(()) => {}
            Err(Stop::Close) => return Err(Close::AfterWrites),
            Err(Stop::WrongProtocol) => return Err(self.wrong_protocol(WrongProtocol::Http)),
            Err(Stop::Exec(commands)) => Box::pin(self.run_transaction(commands, buffered)).await?,
        }
        Ok(Parsed::Command { length })
    }

    /// Runs the commands of a transaction, after their array was announced. Earlier commands are answered.
    async fn run_transaction(
        &mut self,
        commands: Vec<OwnedArguments>,
        buffered: BufferedInput,
    ) -> Result<(), Close> {
        self.output.replies.start_array(commands.len());
        for command in commands {
            let arguments = command.as_arguments();
            if !self.in_flight.is_empty() {
                self.wait_for_replies(WaitUntil::room_for(&arguments), buffered).await?;
            }
            let runner = CommandRunner {
                shared: self.shared,
                session: &mut self.session,
                output: &mut self.output,
                in_flight: &mut self.in_flight,
                decisions: &mut self.decisions,
            };
            // No command that ends the connection, and no other transaction, is queued.
            if runner.run(&arguments).is_err() {
                return Err(Close::AfterWrites);
            }
            if self.output.pending_bytes() >= self.shared.bounds.output_bytes_max {
                self.write_to_limit().await?;
            }
        }
        Ok(())
    }

    /// Waits for commands in flight, and writes replies as they come.
    async fn wait_for_replies(&mut self, until: WaitUntil, buffered: BufferedInput) -> Result<(), Close> {
        let Self { shared, stream, output, in_flight, read_ahead, last_replies_timer, .. } = self;
        match buffered {
            BufferedInput::Bytes(bytes)
                if last_replies_timer.is_none() && !shared.app.drain.is_draining() =>
            {
                read_ahead.allow_after(bytes);
            }
            // There is no more input, or it is too late to handle it.
            _ => read_ahead.stop(),
        }
        poll_fn(|context| {
            in_flight.poll(context, &mut output.replies);
            let is_over = match until {
                WaitUntil::RoomFor(access) => in_flight.room_for(access) == Room::Some,
                WaitUntil::AllAnswered => in_flight.is_empty(),
            };
            if is_over {
                return Poll::Ready(Ok(()));
            }
            if let Poll::Ready(Err(ClientGone)) = output.poll_write(stream, context) {
                return Poll::Ready(Err(Close::Immediately));
            }
            match read_ahead.poll(stream, context) {
                Poll::Ready(ReadEnd::HalfClosed) => {
                    read_ahead.stop();
                    last_replies_timer.get_or_insert_with(new_last_replies_timer);
                }
                Poll::Ready(ReadEnd::Closed) => return Poll::Ready(Err(Close::Immediately)),
                Poll::Pending => {}
            }
            match last_replies_timer {
                Some(timer) => timer.as_mut().poll(context).map(|()| Err(Close::AfterWrites)),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// Reserves memory for the buffers, beyond what every connection has. False if there is none.
    #[inline]
    fn try_hold_buffers(&self) -> bool {
        let bytes = self.input.capacity() + self.output.pending_bytes() + self.read_ahead.bytes.len();
        self.held.try_hold(bytes.saturating_sub(BUFFER_BYTES) as u64)
    }

    /// Writes until pending output is within its bound.
    async fn write_to_limit(&mut self) -> Result<(), Close> {
        if !self.try_hold_buffers() {
            self.shared.app.metrics.count_rejected_request(Protocol::Resp, "memory");
            return Err(Close::Immediately);
        }
        let Self { shared, stream, output, in_flight, .. } = self;
        poll_fn(|context| {
            // Always poll the commands in flight: other clients may wait behind them in a queue. No commands are
            // started here, so their replies are bounded.
            in_flight.poll(context, &mut output.replies);
            output.poll_write_until(shared.bounds.output_bytes_max, stream, context)
        })
        .await?;
        Ok(())
    }

    /// The client speaks another protocol.
    #[cold]
    fn wrong_protocol(&self, protocol: WrongProtocol) -> Close {
        let app = &self.shared.app;
        app.metrics.count_wrong_protocol(Protocol::Resp, protocol.as_str());
        self.shared.wrong_protocol_log.add(protocol, app.engine.clock().now());
        Close::Immediately
    }
}

fn new_last_replies_timer() -> Pin<Box<Sleep>> {
    Box::pin(sleep(LAST_REPLIES_TIMEOUT))
}

impl From<ClientGone> for Close {
    fn from(_: ClientGone) -> Self {
        Self::Immediately
    }
}
