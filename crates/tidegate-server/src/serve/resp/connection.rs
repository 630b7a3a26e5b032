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
use super::parse::{Arguments, AuthState, Parsed, Parser};
use super::protocol_error::{ProtocolError, WrongProtocol};
use super::read_ahead::{ReadAhead, ReadEnd};
use super::reply::Replies;
use super::session::Session;
use super::text_window::TextWindow;
use super::transaction::QueuedCommands;
use super::{Protocol, RespShared, Stream};
use crate::serve::SharedInstant;
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
    /// Reserved for buffers that are larger than usual, and for commands in flight.
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
    instant: &'c mut SharedInstant,
}

/// What a pass over the input did.
struct Pass {
    /// Commands that ran, and lines that are no commands.
    commands: usize,
    end: PassEnd,
}

/// Why a pass ended.
enum PassEnd {
    /// The rest of the input is no complete command.
    InputEnd,
    /// Replies must be written, or it is the turn of other connections.
    Pause,
    /// A command waits.
    InFlight,
    Error(ProtocolError),
    Stop(Stop),
}

/// Why the next command does not simply follow.
enum Stop {
    /// Close the connection after pending output is written.
    Close,
    /// The client speaks HTTP.
    WrongProtocol,
    /// Run these commands first.
    Exec(QueuedCommands),
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
        let Self { shared, session, output, in_flight, decisions, instant } = self;
        // While earlier commands are in flight, its reply is queued behind theirs.
        let mut queued = (!in_flight.is_empty()).then(|| Replies::new(output.replies.version()));
        let replies = queued.as_mut().unwrap_or(&mut output.replies);
        match commands::run(arguments, CommandContext { shared, session, replies, decisions, instant }) {
            CommandStep::Continue => {
                if let Some(queued) = queued {
                    in_flight.push_reply(queued);
                }
            }
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

    fn is_over(self, in_flight: &InFlightCommands<'_>) -> bool {
        match self {
            Self::RoomFor(access) => in_flight.room_for(access) == Room::Some,
            Self::AllAnswered => in_flight.is_empty(),
        }
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
        loop {
            let pass = match self.in_flight.is_empty() {
                true => self.run_pass(bounds.commands_per_turn_max - commands_in_turn),
                false => self.run_behind_others().await?,
            };
            commands_in_turn += pass.commands;
            is_any_answered |= pass.commands > 0;
            match pass.end {
                PassEnd::InputEnd => break,
                PassEnd::Pause | PassEnd::InFlight => {}
                PassEnd::Error(error) => return Err(self.reject_input(error).await),
                PassEnd::Stop(stop) => self.stop(stop).await?,
            }
            self.input.append(&mut self.read_ahead.bytes);
            if self.output.pending_bytes() >= bounds.output_bytes_max {
                self.write_to_limit().await?;
            }
            if commands_in_turn >= bounds.commands_per_turn_max {
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

    /// Runs commands of the input, at most `commands_max`, until one of them waits. No command is in flight before. All
    /// of them had arrived, so they share what is done once for a pass: their text is validated together, and they are
    /// decided at one reading of the clock.
    fn run_pass(&mut self, commands_max: usize) -> Pass {
        let Self { shared, input, parser, session, output, in_flight, decisions, idle, .. } = self;
        let (mut window, mut instant) = (TextWindow::default(), SharedInstant::default());
        let mut rest = input.rest();
        let before = rest.len();
        let mut commands = 0;
        let end = loop {
            if rest.is_empty() {
                break PassEnd::InputEnd;
            }
            if commands == commands_max || output.pending_bytes() >= shared.bounds.output_bytes_max {
                break PassEnd::Pause;
            }
            let (is_command, length) = match parser.parse(rest, session.auth) {
                Ok(Parsed::Command { length }) => (true, length),
                Ok(Parsed::Empty { length }) => (false, length),
                Ok(Parsed::Partial) => break PassEnd::InputEnd,
                Err(error) => break PassEnd::Error(error),
            };
            commands += 1;
            let mut ran = Ok(());
            if is_command {
                let arguments = parser.arguments_with_text(rest, window.text_of(rest, length));
                let runner =
                    CommandRunner { shared, session, output, in_flight, decisions, instant: &mut instant };
                ran = runner.run(&arguments);
                if session.auth == AuthState::Authenticated {
                    idle.reset();
                }
            }
            rest = &rest[length..];
            window.advance(length);
            match ran {
                Ok(()) if in_flight.is_empty() => {}
                Ok(()) => break PassEnd::InFlight,
                Err(stop) => break PassEnd::Stop(stop),
            }
        };
        let length = before - rest.len();
        input.advance(length);
        Pass { commands, end }
    }

    /// Runs the next command of the input, if it is complete, while other commands are in flight. It may have to wait for
    /// them.
    async fn run_behind_others(&mut self) -> Result<Pass, Close> {
        let rest = self.input.rest();
        let (is_command, length) = match self.parser.parse(rest, self.session.auth) {
            Ok(Parsed::Command { length }) => (true, length),
            Ok(Parsed::Empty { length }) => (false, length),
            Ok(Parsed::Partial) => return Ok(Pass { commands: 0, end: PassEnd::InputEnd }),
            Err(error) => return Ok(Pass { commands: 0, end: PassEnd::Error(error) }),
        };
        let mut ran = Ok(());
        if is_command {
            let until = WaitUntil::room_for(&self.parser.arguments(rest));
            self.wait_for_replies(until, BufferedInput::Bytes(rest.len() - length)).await?;
            let runner = CommandRunner {
                shared: self.shared,
                session: &mut self.session,
                output: &mut self.output,
                in_flight: &mut self.in_flight,
                decisions: &mut self.decisions,
                instant: &mut SharedInstant::default(),
            };
            ran = runner.run(&self.parser.arguments(self.input.rest()));
            if self.session.auth == AuthState::Authenticated {
                self.idle.reset();
            }
        }
        self.input.advance(length);
        Ok(Pass { commands: 1, end: ran.map_or_else(PassEnd::Stop, |()| PassEnd::InFlight) })
    }

    /// The input is no command.
    async fn reject_input(&mut self, error: ProtocolError) -> Close {
        if let ProtocolError::WrongProtocol(protocol) = error {
            return self.wrong_protocol(protocol);
        }
        if let Err(end) = self.wait_for_replies(WaitUntil::AllAnswered, BufferedInput::Nothing).await {
            return end;
        }
        self.output.replies.error(format_args!("ERR {error}"));
        self.shared.app.metrics.count_rejected_request(Protocol::Resp, "protocol_error");
        Close::AfterWrites
    }

    /// The next command does not simply follow.
    async fn stop(&mut self, stop: Stop) -> Result<(), Close> {
        match stop {
            Stop::Close => Err(Close::AfterWrites),
            Stop::WrongProtocol => Err(self.wrong_protocol(WrongProtocol::Http)),
            Stop::Exec(commands) => {
                let buffered = BufferedInput::Bytes(self.input.rest().len());
                Box::pin(self.run_transaction(commands, buffered)).await
            }
        }
    }

    /// Runs the commands of a transaction, after their array was announced. Earlier commands are answered.
    async fn run_transaction(
        &mut self,
        queued: QueuedCommands,
        buffered: BufferedInput,
    ) -> Result<(), Close> {
        self.output.replies.start_array(queued.commands.len());
        for command in &queued.commands {
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
                instant: &mut SharedInstant::default(),
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

    /// Waits for commands in flight, and writes replies as they come. Commands start when they are waited for, so those that
    /// find room start together, and share calls to the store.
    async fn wait_for_replies(&mut self, until: WaitUntil, buffered: BufferedInput) -> Result<(), Close> {
        if !self.try_hold_buffers() {
            return Err(self.out_of_memory());
        }
        if until.is_over(&self.in_flight) {
            return Ok(());
        }
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
            if until.is_over(in_flight) {
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

    /// Reserves memory for the buffers and the commands in flight, beyond what every connection has. False if there is
    /// none.
    #[inline]
    fn try_hold_buffers(&self) -> bool {
        let buffers = self.input.capacity() + self.output.pending_bytes() + self.read_ahead.bytes.len();
        let bytes = buffers + self.in_flight.bytes();
        self.held.try_hold(bytes.saturating_sub(BUFFER_BYTES) as u64)
    }

    /// Writes until pending output is within its bound.
    async fn write_to_limit(&mut self) -> Result<(), Close> {
        if !self.try_hold_buffers() {
            return Err(self.out_of_memory());
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

    /// There is no memory for replies that the client has not read.
    #[cold]
    fn out_of_memory(&self) -> Close {
        self.shared.app.metrics.count_rejected_request(Protocol::Resp, "memory");
        Close::Immediately
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
